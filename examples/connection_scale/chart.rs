//! The chart: what the server costs, and round trips, over the number of clients.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

use crate::args::Options;
use crate::figures::{Figures, Outcome};
use crate::scenario::Kind;
use crate::table;
use crate::text::grouped;

const SIZE: (u32, u32) = (1_040, 470);
const INK: RGBColor = RGBColor(0x2b, 0x2f, 0x36);
const PALE: RGBColor = RGBColor(0x6b, 0x72, 0x80);
const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);

/// Okabe and Ito's colours, which can be told apart by the colour-blind.
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
const RED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Value = fn(&Figures) -> Option<f64>;

/// The chart as a text of SVG.
pub(crate) fn draw(
    rows: &[Figures],
    options: &Options,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        draw_on(&area, rows, options).map_err(told)?;
        area.present().map_err(told)?;
    }
    Ok(text)
}

fn told(error: impl std::fmt::Display) -> String {
    format!("the chart: {error}")
}

fn draw_on(area: &Area<'_>, rows: &[Figures], options: &Options) -> Result<(), Box<dyn Error>> {
    let scenario = &options.scenario;
    let (head, rest) = area.split_vertically(74);
    let title = match scenario.kind {
        Kind::Echo => "tickwire: connections test",
        Kind::Broadcast => "tickwire: broadcast to all clients",
        Kind::Idle => "tickwire: idle clients",
    };
    head.draw_text(title, &("sans-serif", 22).into_font().color(&INK), (24, 16))?;
    let line = format!("{} · {}", subtitle(options), table::machine());
    head.draw_text(&line, &("sans-serif", 13).into_font().color(&PALE), (24, 47))?;

    let mut measured: Vec<_> = rows.iter().filter(|row| row.seconds.is_some()).collect();
    measured.sort_by_key(|row| row.connected);
    if measured.is_empty() {
        let style = ("sans-serif", 15).into_font().color(&INK);
        rest.draw_text("No row was measured.", &style, (24, 20))?;
        return Ok(());
    }
    let bad = measured.iter().filter(|row| row.result != Outcome::Pass || !row.meaningful);
    let bad: Vec<_> = bad.map(|row| grouped(row.connected as u64)).collect();
    let (rest, foot) = rest.split_vertically(SIZE.1 - 74 - 28);
    if !bad.is_empty() {
        let line = format!("Not passed, or the load came late: {} clients", bad.join(", "));
        foot.draw_text(&line, &("sans-serif", 13).into_font().color(&RED), (24, 4))?;
    }

    let (left, right) = rest.split_horizontally(SIZE.0 / 2);
    cost_panel(scenario.kind).draw(&left, &measured)?;
    TRIPS.draw(&right, &measured)
}

fn subtitle(options: &Options) -> String {
    let scenario = &options.scenario;
    let server = scenario.server_loop();
    match scenario.kind {
        Kind::Idle => format!("server {server}"),
        Kind::Echo => format!(
            "each client {} × {} bytes a second, server {server}",
            scenario.rate, scenario.size
        ),
        Kind::Broadcast => {
            format!("{} × {} bytes a second to all, server {server}", scenario.rate, scenario.size)
        }
    }
}

/// Some values over the number of clients.
struct Panel {
    title: &'static str,
    series: &'static [(&'static str, RGBColor, Value)],
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    /// From zero, with a number at each point.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

const TRIPS: Panel = Panel {
    title: "Round trip, milliseconds",
    series: &[
        ("max", RED, |row| Some(row.rtt_ms.as_ref()?.max)),
        ("p99.9", ORANGE, |row| Some(row.rtt_ms.as_ref()?.p999)),
        ("p99", GREEN, |row| Some(row.rtt_ms.as_ref()?.p99)),
        ("p50", BLUE, |row| Some(row.rtt_ms.as_ref()?.p50)),
    ],
    scale: Scale::Logarithmic,
};

fn cost_panel(kind: Kind) -> Panel {
    match kind {
        Kind::Idle => Panel {
            title: "Server memory per client, bytes",
            series: &[("resident", BLUE, |row| row.server_memory_bytes_per_client)],
            scale: Scale::Linear,
        },
        _ => Panel {
            title: "Server CPU, % of one core",
            series: &[("CPU", BLUE, |row| row.server_cpu_percent)],
            scale: Scale::Linear,
        },
    }
}

impl Panel {
    fn draw(&self, area: &Area<'_>, rows: &[&Figures]) -> Result<(), Box<dyn Error>> {
        let values: Vec<f64> = self
            .series
            .iter()
            .flat_map(|series| rows.iter().filter_map(|row| series.2(row)))
            .map(|value| self.scale.place(value))
            .collect();
        let bounds = self.scale.bounds(&values);
        let x_marks = marks(rows);
        let (first, last) = (x_of(rows[0]), x_of(rows[rows.len() - 1]));
        let margin = ((last - first) * 0.06).max(0.15);

        let x_range = Axis { range: first - margin..last + margin, marks: x_marks };
        let y_range = Axis { range: bounds.0..bounds.1, marks: self.scale.marks(bounds) };
        let caption = ("sans-serif", 16).into_font().color(&INK);
        let labels = ("sans-serif", 13).into_font().color(&INK);
        let mut chart = ChartBuilder::on(area)
            .margin_left(18)
            .margin_right(20)
            .margin_bottom(6)
            .caption(self.title, caption)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d(x_range, y_range)?;
        chart
            .configure_mesh()
            .x_desc("clients")
            .axis_desc_style(labels.clone())
            .label_style(labels.clone())
            .axis_style(PALE)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&|x| grouped(10f64.powf(*x).round() as u64))
            .y_label_formatter(&|y| self.scale.label(*y))
            .draw()?;
        for (name, colour, value) in self.series {
            let points: Vec<_> = rows
                .iter()
                .filter_map(|row| Some((x_of(row), value(row)?)))
                .map(|(x, value)| (x, self.scale.place(value), value))
                .collect();
            let line = points.iter().map(|point| (point.0, point.1));
            let series = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            let colour = *colour;
            series.label(*name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
            });
            let dots =
                points.iter().map(|point| Circle::new((point.0, point.1), 4, colour.filled()));
            chart.draw_series(dots)?;
            if self.scale == Scale::Linear {
                let numbers = points.iter().map(|point| {
                    let style = ("sans-serif", 13).into_font().color(&INK);
                    EmptyElement::at((point.0, point.1))
                        + Text::new(number(point.2), (-12, -20), style)
                });
                chart.draw_series(numbers)?;
            }
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.85))
                .border_style(GRID)
                .label_font(labels)
                .draw()?;
        }
        Ok(())
    }
}

/// An axis with its marks where we want them.
struct Axis {
    range: Range<f64>,
    marks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(0.001).log10(),
        }
    }

    fn bounds(self, places: &[f64]) -> (f64, f64) {
        let least = places.iter().copied().fold(f64::INFINITY, f64::min);
        let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self {
            _ if places.is_empty() => (0.0, 1.0),
            Scale::Linear => (0.0, (most * 1.15).max(1e-3)),
            // Whole decades, and one more for the legend.
            Scale::Logarithmic => (least.floor(), (most.ceil()).max(least.floor() + 1.0) + 0.6),
        }
    }

    fn marks(self, (least, most): (f64, f64)) -> Vec<f64> {
        match self {
            Scale::Linear => {
                let step = round_step(most / 5.0);
                (0..)
                    .map(|count| f64::from(count) * step)
                    .take_while(|mark| *mark <= most)
                    .collect()
            }
            Scale::Logarithmic => (least as i32..=most.floor() as i32).map(f64::from).collect(),
        }
    }

    fn label(self, place: f64) -> String {
        match self {
            Scale::Linear => number(place),
            Scale::Logarithmic => number(10f64.powf(place)),
        }
    }
}

/// 1, 2 or 5 times a power of ten, and at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(steps[3])
}

fn x_of(row: &Figures) -> f64 {
    (row.connected as f64).log10()
}

/// The numbers of clients, without those whose labels would overlap.
fn marks(rows: &[&Figures]) -> Vec<f64> {
    let places: Vec<_> = rows.iter().map(|row| x_of(row)).collect();
    let span = places[places.len() - 1] - places[0];
    let mut marks: Vec<f64> = Vec::new();
    for place in places {
        if marks.last().is_none_or(|last| place - last > span * 0.11) {
            marks.push(place);
        }
    }
    marks
}

/// As short as it can be read: 0.05, 2.5, 13, 1,000.
fn number(number: f64) -> String {
    match number {
        100.0.. => grouped(number.round() as u64),
        _ => {
            let digits = if number >= 1.0 { 1 } else { 2 };
            let text = format!("{number:.digits$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (least, step) in
            [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (4.4, 5.0), (7.0, 10.0), (33.0, 50.0)]
        {
            assert!((round_step(least) - step).abs() < 1e-9, "{least}: {}", round_step(least));
        }
    }

    #[test]
    fn numbers_are_short() {
        let wanted = [(0.0, "0"), (0.05, "0.05"), (2.5, "2.5"), (13.04, "13"), (1_000.0, "1,000")];
        for (value, text) in wanted {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn decades_bound_what_is_drawn_by_powers_of_ten() {
        let scale = Scale::Logarithmic;
        let places = [0.06, 12.0].map(|value| scale.place(value));
        let bounds = scale.bounds(&places);
        assert_eq!(scale.marks(bounds), [-2.0, -1.0, 0.0, 1.0, 2.0]);
        assert_eq!(scale.label(-2.0), "0.01");
    }

    #[test]
    fn no_row_is_a_chart_as_well() {
        let text = draw(&[], &Options::default()).expect("it can be drawn");
        assert!(text.contains("No row was measured"), "{text}");
        assert!(text.trim_end().ends_with("</svg>"), "{text}");
    }
}
