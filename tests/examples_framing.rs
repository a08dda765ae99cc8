//! The examples for framings and codecs, as people run them: `mqtt_broker`, spoken to by mosquitto's clients, and
//! `protobuf`. `examples.rs` tells how they get built.
#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::process::{Process, are_installed};

fn has_mosquitto() -> bool {
    are_installed(&["mosquitto_sub", "mosquitto_pub"], "mosquitto-clients")
}

/// A subscriber, and its output from the moment on when the broker has acknowledged it.
struct Subscriber {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Subscriber {
    fn start(port: &str, version: &str, filter: &str, count: &str) -> Subscriber {
        let mut child = Command::new("stdbuf")
            .args([
                "-oL",
                "mosquitto_sub",
                "-d",
                "-v",
                "-h",
                "127.0.0.1",
                "-p",
                port,
                "-V",
                version,
            ])
            .args(["-t", filter, "-C", count, "-W", "20"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is installed");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut subscriber = Subscriber { child, output };
        while !subscriber.line().starts_with("Subscribed") {}
        subscriber
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        assert!(!line.is_empty(), "mosquitto_sub has ended early");
        line.trim_end().to_owned()
    }

    /// The next message, in mosquitto's form: topic and text.
    fn message(&mut self) -> String {
        loop {
            let line = self.line();
            if !line.starts_with("Client ") {
                return line;
            }
        }
    }

    fn end(mut self) {
        let mut rest = String::new();
        while self.output.read_line(&mut rest).expect("text") > 0 {}
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
    }
}

fn publish(port: &str, version: &str, topic: &str, message: &str, quality: &str) {
    let status = Command::new("mosquitto_pub")
        .args(["-h", "127.0.0.1", "-p", port, "-V", version, "-t", topic, "-m", message])
        .args(["-q", quality])
        .status();
    assert!(status.expect("it is installed").success());
}

#[test]
fn mosquittos_clients_talk_through_the_mqtt_broker() {
    if !has_mosquitto() {
        return;
    }
    let mut broker = Process::start("mqtt_broker", &["127.0.0.1:0"]);
    let port = broker.addr().port().to_string();
    let mut old = Subscriber::start(&port, "mqttv311", "chat/#", "4");
    let mut new = Subscriber::start(&port, "mqttv5", "chat/+/news", "2");
    let large = "x".repeat(100_000);
    publish(&port, "mqttv311", "chat/lobby", "hello", "0");
    publish(&port, "mqttv5", "chat/lobby/news", "across versions", "1");
    publish(&port, "mqttv5", "elsewhere/lobby/news", "for nobody", "0");
    publish(&port, "mqttv311", "chat/lobby/news", &large, "2");
    publish(&port, "mqttv311", "chat", "the end", "0");
    assert_eq!(old.message(), "chat/lobby hello");
    assert_eq!(old.message(), "chat/lobby/news across versions");
    assert!(old.message() == format!("chat/lobby/news {large}"));
    assert_eq!(old.message(), "chat the end");
    assert_eq!(new.message(), "chat/lobby/news across versions");
    assert!(new.message() == format!("chat/lobby/news {large}"));
    old.end();
    new.end();
}

#[test]
fn the_mqtt_broker_ends_a_client_that_speaks_something_else() {
    use std::io::{Read, Write};
    let mut broker = Process::start("mqtt_broker", &["127.0.0.1:0"]);
    let addr = broker.addr();
    // No packet has a length of five bytes; and a publish cannot come first.
    for (bytes, why) in [
        (&b"\x10\xff\xff\xff\xff\x01"[..], "bad frame: a length of more than four bytes"),
        (b"\x30\xff\xff\xff\x7f", "frame too large: 268435460 bytes announced, 262144 allowed"),
        (b"\x30\x05\x00\x01a12", "closed by us"),
    ] {
        let mut client = std::net::TcpStream::connect(addr).expect("it listens");
        client.write_all(bytes).expect("it takes them");
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest); // an end or a reset
        drop(client);
        broker.stderr.wait_for(why);
    }
}

#[test]
fn protobuf_bots_walk_as_their_inputs_say() {
    let end = Process::start("protobuf", &["2"]).end();
    assert_eq!((end.code, end.stderr.len(), end.stdout.len()), (Some(0), 0, 2), "{end:?}");
    for (line, tick) in end.stdout.iter().zip([60, 120]) {
        assert!(line.starts_with(&format!("tick {tick}: ")), "{line}");
        // Half a step a tick, and an input is under way for a tick or two.
        for name in ["Ada ", "Grace ", "Edsger "] {
            let walked = line.split(name).nth(1).and_then(|rest| rest.split([',', ';']).next());
            let walked: f32 = walked.expect("everybody is there").parse().expect("a number");
            let due = tick as f32 / 2.0;
            assert!((due - 5.0..=due).contains(&walked), "{line}");
        }
    }
}
