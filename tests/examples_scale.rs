//! `connection_scale`, as people run it. `examples.rs` tells how it gets built; its arithmetic is tested at the foot of
//! its own files.
#![cfg(unix)]

mod common;

use std::fs;
use std::path::PathBuf;

use common::process::{End, Process};
use serde_json::Value;

/// Small and short, with the options given, and the figures.
fn played(name: &str, args: &[&str]) -> (End, Value) {
    let json = file(&format!("{name}.json"));
    let json_arg = json.to_str().expect("text");
    let end = Process::start("connection_scale", &[args, &["--json", json_arg]].concat()).end();
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {end:?}"));
    (end, serde_json::from_str(&text).expect("JSON"))
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("scale-{}-{name}", std::process::id()))
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

/// What is true of every row that passed, on every machine.
fn assert_passed(end: &End, json: &Value, clients: &[u64]) {
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_eq!(end.count_in_table("PASS"), clients.len(), "{end:?}");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), clients.len());
    for (row, clients) in rows.iter().zip(clients) {
        assert_eq!(row["clients"].as_u64(), Some(*clients));
        assert_eq!(row["connected"].as_u64(), Some(*clients));
        assert_eq!((row["result"].as_str(), row["errors"].as_u64()), (Some("PASS"), Some(0)));
        assert!(number(row, "seconds") >= 1.0, "{row}");
        assert!(row["rtt_ms"]["p50"].as_f64() <= row["rtt_ms"]["p99"].as_f64(), "{row}");
        assert!(row["rtt_ms"]["p999"].as_f64() <= row["rtt_ms"]["max"].as_f64(), "{row}");
        if cfg!(target_os = "linux") {
            assert!(number(row, "server_memory_bytes") > 100_000.0, "{row}");
            assert!(number(row, "server_cpu_percent") >= 0.0, "{row}");
        }
    }
}

#[test]
fn every_client_gets_its_echoes() {
    for fps in ["0", "60"] {
        let (end, json) =
            played("echo", &["--clients", "8,3", "--secs", "1", "--fps", fps, "--size", "50"]);
        assert_passed(&end, &json, &[8, 3]);
        assert_eq!(json["scenario"]["size"], 50);
        for row in json["rows"].as_array().expect("rows") {
            // 28 a second each; how many of them were sent and came back in time is the machine's affair.
            let most = number(row, "clients") * 30.0;
            assert!((1.0..=most).contains(&number(row, "messages_per_second")), "{row}");
            assert!(row["load_late_ms"]["max"].is_number(), "{row}");
            assert!(number(row, "load_sent_percent") <= 100.0, "{row}");
        }
    }
}

#[test]
fn bursts_of_all_at_the_same_moment_are_echoed() {
    let args = ["--clients", "20", "--secs", "1", "--together", "--burst", "10", "--rate", "100"];
    let (end, json) = played("together", &args);
    assert_passed(&end, &json, &[20]);
    assert_eq!(json["scenario"]["arrival"], "together");
}

#[test]
fn a_broadcast_reaches_every_client() {
    let (end, json) = played("broadcast", &["--clients", "20", "--secs", "1", "--broadcast"]);
    assert_passed(&end, &json, &[20]);
    assert!(number(&json["rows"][0], "messages_per_second") > 20.0, "more than one to each");
}

#[test]
fn idle_clients_are_still_served() {
    let (end, json) = played("idle", &["--clients", "30", "--secs", "1", "--idle"]);
    assert_passed(&end, &json, &[30]);
    let row = &json["rows"][0];
    assert_eq!(number(row, "messages_per_second"), 0.0, "nobody sent while it was measured");
    assert!(row["rtt_ms"]["max"].is_number(), "each did afterwards: {row}");
}

#[test]
fn several_processes_share_a_port() {
    for args in [&["--secs", "1"][..], &["--secs", "1", "--idle"]] {
        let args = [args, &["--clients", "30,7", "--processes", "3"]].concat();
        let (end, json) = played("processes", &args);
        assert_passed(&end, &json, &[30, 7]);
        assert_eq!(json["processes"], 3);
    }
}

#[test]
fn clients_beyond_what_memory_allows_are_not_connected() {
    let args = ["--clients", "5", "--secs", "1", "--idle", "--keep-free", "1000000000"];
    let (end, json) = played("memory", &args);
    if cfg!(target_os = "linux") {
        assert_eq!(end.code, Some(1), "{end:?}");
        assert_eq!(end.count_in_table("short"), 1, "{end:?}");
        assert_eq!(json["rows"][0]["result"], "SHORT");
        assert_eq!(json["rows"][0]["connected"], 0);
        assert!(end.stdout.iter().any(|line| line.contains("5 clients: stopped at 0")), "{end:?}");
    }
}

#[test]
fn the_chart_is_well_formed_and_says_what_it_shows() {
    for (kind, title) in [("--broadcast", "Server CPU"), ("--idle", "Server memory")] {
        let svg = file("chart.svg");
        let args = ["--clients", "4,9", "--secs", "1", kind, "--svg", svg.to_str().expect("text")];
        let end = Process::start("connection_scale", &args).end();
        assert_eq!(end.code, Some(0), "{end:?}");
        let text = fs::read_to_string(&svg).expect("it was written");
        let chart = roxmltree::Document::parse(&text).expect("XML");
        assert_eq!(chart.root_element().tag_name().name(), "svg");
        let words: Vec<_> = chart.descendants().filter_map(|node| node.text()).collect();
        let words = words.join("\n");
        for wanted in [title, "Round trip, milliseconds", "clients", "p50", "p99.9", "max", "9"] {
            assert!(words.contains(wanted), "{wanted}: {words}");
        }
    }
}

#[test]
fn ctrl_c_shows_what_there_is_so_far() {
    let json = file("stopped.json");
    let svg = file("stopped.svg");
    let files = ["--json", json.to_str().expect("text"), "--svg", svg.to_str().expect("text")];
    let args = [&["--clients", "3,8,5", "--secs", "2"], &files[..]].concat();
    let mut test = Process::start("connection_scale", &args);
    test.stderr.wait_for("3 clients connected");
    test.stderr.wait_for("8 clients connected");
    test.signal("INT");
    // The end of stderr, which all processes have, also shows that the others are gone.
    let end = test.end();
    assert_eq!(end.code, Some(1), "{end:?}");
    assert_eq!(end.count_in_table("PASS"), 1, "{end:?}");
    assert_eq!(end.count_in_table("stopped"), 1, "{end:?}");
    let text = fs::read_to_string(json).expect("it was written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["rows"][1]["result"], "STOPPED");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(2));
    let text = fs::read_to_string(svg).expect("it was written");
    roxmltree::Document::parse(&text).expect("XML");
}

#[test]
fn nobody_is_left_behind_when_it_is_killed() {
    let args = ["--clients", "4", "--secs", "30", "--processes", "2"];
    let mut test = Process::start("connection_scale", &args);
    test.stderr.wait_for("4 clients connected");
    test.signal("KILL");
    let end = test.end();
    assert_eq!(end.code, None, "{end:?}");
}

#[test]
fn arguments_that_make_no_sense_are_refused_in_a_line() {
    for (args, mention) in [
        (&["--clients", "8,,9"][..], "--clients: `` is not"),
        (&["--clients", "0"], "--clients: `0` is not"),
        (&["--secs", "0"], "--secs"),
        (&["--fps", "-1"], "--fps"),
        (&["--size", "15"], "from 16 to 16384"),
        (&["--idle", "--broadcast"], "exclude each other"),
        (&["--json", "/nowhere/at/all"], "--json: cannot write /nowhere/at/all"),
        (&["--svg", "/"], "--svg: cannot write /"),
        (&["--louder"], "--louder"),
    ] {
        let end = Process::start("connection_scale", args).end();
        assert_eq!(end.code, Some(2), "{args:?}: {end:?}");
        assert!(end.only_error().contains(mention), "{args:?}: {end:?}");
    }
}

#[test]
fn more_clients_than_descriptors_says_what_to_do() {
    let program = common::process::path("connection_scale");
    // `ulimit` sets both limits, so that the soft one cannot be raised again.
    let script = format!("ulimit -n 200 && {} --clients 300 --secs 1", program.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output();
    let output = output.expect("there is a shell");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("300 clients need") && error.contains("use --processes "), "{error}");
}
