//! What the house promises about its own walls: imports lead downwards only, and one file names mio.
//! See docs/architecture.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the roof to the ground. Rooms of one floor do not know each other.
const FLOORS: &[&[&str]] = &[
    &["lib"],
    &["guide"],
    &["reactor"],
    &["event", "handle"],
    &["conn", "net", "sim"],
    &["config"],
    &[
        "pool", "ring", "arena", "batch", "frame", "slots", "timers", "map", "filter", "mailbox",
        "ledger",
    ],
    &["error", "addr", "id", "io", "stats", "report", "wire", "compress"],
];

/// But for these doors: `sim` is another `net`, an error names an address, and numbers say what they count.
const DOORS: &[(&str, &str)] =
    &[("sim", "net"), ("error", "addr"), ("stats", "error"), ("report", "stats")];

#[test]
fn imports_lead_downwards() {
    let mut arrows = BTreeSet::new();
    for (file, text) in sources() {
        let from = room(&file);
        for line in code_lines(&text) {
            for to in rooms_named(line) {
                if to != from {
                    arrows.insert((from.clone(), to, file.clone(), line.trim().to_owned()));
                }
            }
        }
    }
    assert!(arrows.len() > 30, "the imports were found");
    let wrong: Vec<_> = arrows
        .iter()
        .filter(|(from, to, ..)| !is_allowed(from, to))
        .map(|(from, to, file, line)| format!("{from} → {to} in {}: {line}", file.display()))
        .collect();
    assert!(wrong.is_empty(), "imports that lead upwards:\n{}", wrong.join("\n"));
}

#[test]
fn one_file_names_mio() {
    for (file, text) in sources() {
        let names_mio =
            code_lines(&text).any(|line| line.contains("mio::") && !line.contains("mod mio"));
        let is_net = file.ends_with("net/mod.rs"); // re-exports what the one file makes
        assert_eq!(
            names_mio,
            file.ends_with("net/mio.rs") || is_net,
            "{} names mio",
            file.display()
        );
        if is_net {
            assert!(!text.contains("use mio"));
        }
    }
}

#[test]
fn bytes_know_neither_sockets_nor_the_time() {
    for (file, text) in sources().into_iter().filter(|(file, _)| room(file) == "conn") {
        for forbidden in ["Instant", "std::net", "TcpStream", "crate::net"] {
            assert!(!text.contains(forbidden), "{forbidden} in {}", file.display());
        }
    }
}

fn is_allowed(from: &str, to: &str) -> bool {
    let floor = |room: &str| {
        let floor = FLOORS.iter().position(|rooms| rooms.contains(&room));
        floor.unwrap_or_else(|| panic!("`{room}` has no place in the house: give it one"))
    };
    floor(from) < floor(to) || DOORS.contains(&(from, to))
}

/// The rooms that a line of code names as `crate::room`.
fn rooms_named(line: &str) -> Vec<String> {
    line.split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .filter(|name: &String| name.starts_with(char::is_lowercase))
        .collect()
}

/// Code without comments and without the tests at the foot of a file.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}

fn room(file: &Path) -> String {
    let first = file.components().next().expect("a file has a name");
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
}

/// Every source file, by its path below src.
fn sources() -> Vec<(PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![src.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("readable text");
                files.push((path.strip_prefix(&src).expect("below src").to_owned(), text));
            }
        }
    }
    files
}
