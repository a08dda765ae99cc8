//! What the pages promise: links that lead somewhere, an index without gaps, and code that is run.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::process::Process;

#[test]
fn every_relative_link_leads_to_something() {
    let pages = pages();
    let mut links = 0;
    let mut broken = Vec::new();
    for page in &pages {
        let text = prose(&read(page));
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => page.clone(),
                _ => page.parent().expect("a folder").join(file),
            };
            let has_anchor = || anchor.is_empty() || anchors(&read(&file)).contains(anchor);
            if !file.exists() || !has_anchor() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
        for label in labels_used(&text) {
            if definition(&text, &label).is_none() {
                broken.push(format!("{}: [{label}] is not defined", page.display()));
            }
        }
    }
    assert!(links > 30, "the links were found");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// Only links by name can lead to a file here and to a place in the crate's pages there.
#[test]
fn pages_of_the_guide_link_by_names_that_the_guide_knows() {
    let guide = read(&root().join("src/guide.rs"));
    let files: Vec<_> = guide.split('"').filter(|text| text.ends_with(".md")).collect();
    assert!(files.len() >= 5, "the pages were found");
    for file in files {
        let text = prose(&read(&root().join("docs").join(file)));
        for line in text.lines() {
            match line.strip_prefix('[').and_then(|line| line.split_once("]: ")) {
                Some((label, _)) => {
                    assert!(guide.contains(&format!("[{label}]: crate")), "{file}: [{label}]");
                }
                None => assert!(!line.contains("]("), "{file}: {line}"),
            }
        }
    }
}

#[test]
fn the_index_lists_every_file() {
    let docs = root().join("docs");
    let index = targets(&read(&docs.join("README.md")));
    for entry in fs::read_dir(&docs).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
        assert!(name == "README.md" || index.contains(&name), "docs/README.md lacks {name}");
    }
}

#[test]
fn the_snippets_are_those_that_are_run() {
    let page = code_blocks(&read(&root().join("docs/embedding.md")), "```rust");
    let tests = read(&root().join("tests/embedding.rs"));
    let modules: BTreeSet<String> = tests
        .split("\nmod ")
        .skip(1)
        .filter_map(|rest| rest.split_once(" {\n")?.1.split_once("\n}\n"))
        .map(|(body, _)| body.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)))
        .map(|lines| lines.fold(String::new(), |text, line| text + line + "\n"))
        .collect();
    assert!(page.len() >= 13, "the snippets were found");
    for snippet in &page {
        assert!(modules.contains(snippet), "not in tests/embedding.rs as it stands:\n{snippet}");
    }
}

#[test]
fn the_first_hour_shows_what_is_compiled_elsewhere() {
    let shown = code_blocks(&read(&root().join("docs/first-hour.md")), "```rust,no_run");
    let readme = code_blocks(&read(&root().join("README.md")), "```rust,no_run");
    let rooms = read(&root().join("examples/rooms.rs"));
    let rooms = &rooms[rooms.find("use ").expect("imports")..];
    assert_eq!(shown, [readme[0].as_str(), rooms]);
}

#[test]
fn the_first_hour_ends_well() {
    if Command::new("python3").arg("--version").output().is_err()
        && std::env::var_os("CI").is_none()
    {
        println!("skipped: there is no python3");
        return;
    }
    let python = code_blocks(&read(&root().join("docs/first-hour.md")), "```python");
    let [_echo, client, talk] = &python[..] else { panic!("{} pieces", python.len()) };
    let mut rooms = Process::start("rooms", &["127.0.0.1:0"]);
    let port = rooms.addr().port().to_string();
    let output = Command::new("python3").args(["-c", &format!("{client}\n{talk}"), &port]).output();
    let output = output.expect("there is a python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "all as expected");
    rooms.stdout.wait_for("Ann left: closed by us");
    rooms.stdout.wait_for("Bob left: ");
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Every page of the project: those of the root, and of the folders with people's own files.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_ours = !name.starts_with('.') && name != "target" && name != "node_modules";
            if path.is_dir() && is_ours {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// A page without its code, in which brackets mean other things.
fn prose(page: &str) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Pieces between single backticks are code too; a link's text may be one.
            let plain = line
                .split('`')
                .enumerate()
                .map(|(i, piece)| if i % 2 == 0 { piece } else { "code" });
            text.extend(plain);
            text.push('\n');
        }
    }
    text
}

/// Where the links of a page lead: `[text](target)` and `[label]: target`.
fn targets(text: &str) -> Vec<String> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    inline.chain(defined.map(|(_, target)| target.trim())).map(str::to_owned).collect()
}

/// The labels of `[text][label]` and `[label][]`.
fn labels_used(text: &str) -> Vec<String> {
    let mut labels = Vec::new();
    for (at, _) in text.match_indices("][") {
        let label = text[at + 2..].split(']').next().unwrap_or_default();
        let before = text[..at].rsplit('[').next().unwrap_or_default();
        labels.push(if label.is_empty() { before } else { label }.to_owned());
    }
    labels
}

fn definition<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(&format!("[{label}]: ")))
}

/// The anchors of a page's headings, as GitHub and rustdoc make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = page.lines().filter(|line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && line.starts_with('#')
    });
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The code between a fence with exactly this first line and the end of it.
fn code_blocks(page: &str, fence: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let block = lines.by_ref().take_while(|line| *line != "```");
        match line {
            _ if line == fence => {
                blocks.push(block.fold(String::new(), |text, line| text + line + "\n"))
            }
            _ if line.starts_with("```") => block.for_each(drop),
            _ => {}
        }
    }
    blocks
}
