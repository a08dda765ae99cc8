//! Numbers as people read them.

pub(crate) fn shown<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "n/a".to_owned(), show)
}

pub(crate) fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

pub(crate) fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

/// With two digits after the point, and less of them in large numbers.
pub(crate) fn millis(millis: f64) -> String {
    match millis {
        ..100.0 => format!("{millis:.2} ms"),
        _ => format!("{millis:.0} ms"),
    }
}

/// A number with its thousands apart: 28,000.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (28_000, "28,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn times_have_as_many_digits_as_are_of_use() {
        assert_eq!(millis(0.056), "0.06 ms");
        assert_eq!(millis(1_234.5), "1234 ms");
    }
}
