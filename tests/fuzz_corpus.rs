//! What the fuzz targets of `tests/fuzz` were given and have found, once more: the same bodies on the stable compiler.
//! See tests/fuzz/README.md.

#[path = "fuzz/src/lib.rs"]
mod fuzz;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// A target's inputs are the lines of one file, in hexadecimal; a line that begins with `#` says what follows it.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fuzz/seeds/{target}.hex"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| bytes(line).unwrap_or_else(|| panic!("not hexadecimal: {line}"))).collect()
}

fn bytes(line: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = line.as_bytes().chunks(2);
    pairs.map(|pair| Some((16 * digit(pair.first()?)? + digit(pair.get(1)?)?) as u8)).collect()
}

fn replay(target: &str) {
    let (_, run) = fuzz::TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let inputs = inputs(target);
    assert!(!inputs.is_empty(), "nothing to replay");
    for input in inputs {
        let done = catch_unwind(AssertUnwindSafe(|| run(&input)));
        if let Err(panic) = done {
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{target} fails on {hex}");
            resume_unwind(panic);
        }
    }
}

macro_rules! replays {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*

        #[test]
        fn every_target_is_replayed_and_built() {
            let names: Vec<_> = fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($target)),*]);
            let manifest = include_str!("fuzz/Cargo.toml");
            let built = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
            let built: Vec<_> = built.filter_map(|rest| rest.strip_suffix(".rs\"")).collect();
            assert_eq!(built, names);
        }
    };
}

replays! {
    frame_length frame_prefix frame_varint frame_fixed frame_line frame_delimiter frame_raw frame_custom
    ring config connection reactor connect
}
