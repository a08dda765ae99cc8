//! The long run, for a moment: see `examples/soak`.
#![cfg(unix)]

mod common;

use common::process::Process;

#[test]
fn soak_counts_what_it_was_asked_for() {
    let end = Process::start("soak", &["--cycles", "2000", "--messages", "50000"]).end();
    let text = end.stdout.join("\n");
    // In so short a time memory has not settled, so only the rest of the verdict is looked at.
    assert!(text.contains("PASS: flat") || text.contains("FAIL: not flat"), "{end:?}");
    assert!(!text.contains("fault:"), "{end:?}");
    let number = |name: &str| {
        let line = end.stdout.iter().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse::<u64>().expect("a number")
    };
    assert!(number("connections that came and went") >= 2_000, "{text}");
    assert!(number("messages, counted at both ends") >= 50_000, "{text}");
    if cfg!(target_os = "linux") {
        let before = number("descriptors after the warm-up");
        assert_eq!(number("descriptors, the most since"), before, "{text}");
    }
}

#[test]
fn soak_gives_a_result_on_ctrl_c() {
    let mut soak = Process::start("soak", &["--cycles", "100000", "--messages", "3000000"]);
    soak.stderr.wait_for("warmed up");
    soak.signal("INT");
    let end = soak.end();
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stdout.last().is_some_and(|line| line == "stopped early"), "{end:?}");
}

#[test]
fn soak_refuses_arguments_that_make_no_sense_in_a_line() {
    for args in [["--cycles", "0"], ["--messages", "many"], ["--minutes", "3"]] {
        let end = Process::start("soak", &args).end();
        assert_eq!(end.code, Some(2), "{args:?}: {end:?}");
        assert!(end.only_error().contains(args[0]), "{args:?}: {end:?}");
    }
}
