//! What errors, reasons and values say of themselves: for logs, for `?`, and for whoever looks for the cause.

mod common;

use std::error::Error as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use tickwire::compress::{DecompressError, Lz4, Zlib};
use tickwire::{
    Addr, BadFrame, Builder, Codec, ConnMap, ConnectFailure, ConnectOptions, Cut, DisconnectReason,
    EncodeError, Envelope, Error, Event, FrameError, Framing, ListenOptions, Prefix, Reactor,
    ReadError, SendError, SocketOptions,
};

#[test]
fn errors_say_what_is_wrong_and_where_it_came_from() {
    let system = || io::Error::from(io::ErrorKind::AddrInUse);
    let addr: Addr = "127.0.0.1:7".parse().expect("an address");
    let bad_addr = "nowhere".parse::<Addr>().expect_err("no address");
    let told = [
        (Error::Shutdown, "shutting down", None, io::ErrorKind::NotConnected),
        (Error::ConnectionsMax { limit: 3 }, "is 3", None, io::ErrorKind::QuotaExceeded),
        (Error::Poller(system()), "poller failed", Some(()), io::ErrorKind::AddrInUse),
        (
            Error::Listen { addr, source: system() },
            "127.0.0.1:7",
            Some(()),
            io::ErrorKind::AddrInUse,
        ),
        (Error::Addr(bad_addr), "nowhere", Some(()), io::ErrorKind::InvalidInput),
        (
            Reactor::builder().frame_len_max(0).build().expect_err("no frame fits"),
            "frame_len_max",
            None,
            io::ErrorKind::InvalidInput,
        ),
    ];
    for (error, part, source, kind) in told {
        let text = error.to_string();
        assert!(text.contains(part), "{text}");
        assert_eq!(error.source().map(drop), source, "{text}");
        let error = io::Error::from(error);
        assert_eq!((error.kind(), error.to_string()), (kind, text));
    }
}

#[test]
fn refusals_say_why() {
    let told = [
        (SendError::Stale, "no such"),
        (SendError::Closing, "closing"),
        (SendError::Full, "full"),
        (SendError::TooLarge, "larger"),
        (SendError::Empty, "empty"),
        (SendError::Malformed, "cannot carry"),
    ];
    for (error, part) in told {
        assert!(error.to_string().contains(part), "{error}");
        let wrapped = EncodeError::<io::Error>::Send(error);
        assert_eq!(wrapped.to_string(), error.to_string());
        assert_eq!(wrapped.source().map(ToString::to_string), Some(error.to_string()));
    }
    let wrapped = EncodeError::Encode(io::Error::other("no such item"));
    assert!(wrapped.to_string().contains("no such item"), "{wrapped}");
    assert!(wrapped.source().is_some());
}

#[test]
fn reasons_say_why() {
    let told = [
        (DisconnectReason::TimedOut, "timed out"),
        (DisconnectReason::from(&io::Error::from(io::ErrorKind::HostUnreachable)), "unreachable"),
        (DisconnectReason::CloseDeadline, "deadline"),
        (DisconnectReason::FrameTooLarge { declared: 9, limit: 7 }, "9 bytes announced, 7 allowed"),
        (DisconnectReason::Truncated, "middle of a frame"),
        (DisconnectReason::FirstFrame, "first message"),
        (DisconnectReason::FrameDeadline, "complete in time"),
        (DisconnectReason::WriteStall, "too long"),
        (DisconnectReason::MemoryLimit, "memory"),
        (DisconnectReason::RateLimit, "rate"),
        (DisconnectReason::Shutdown, "shutdown"),
        (DisconnectReason::BadFrame(BadFrame::LengthTooSmall { declared: 1, least: 4 }), "of 1"),
        (DisconnectReason::BadFrame(BadFrame::VarintTooLong), "32 bits"),
        (DisconnectReason::BadFrame(BadFrame::VarintOverlong), "than it needs"),
        (DisconnectReason::BadFrame(BadFrame::LoneLineFeed), "carriage return"),
        (DisconnectReason::BadFrame(BadFrame::Codec("no magic")), "no magic"),
    ];
    for (reason, part) in told {
        assert!(reason.to_string().contains(part), "{reason}");
    }
    let of = |kind: io::ErrorKind| ConnectFailure::from(&io::Error::from(kind));
    let told = [
        (of(io::ErrorKind::TimedOut), ConnectFailure::TimedOut, "no answer"),
        (of(io::ErrorKind::NetworkUnreachable), ConnectFailure::Unreachable, "unreachable"),
        (of(io::ErrorKind::AddrNotAvailable), ConnectFailure::AddrNotAvailable, "port"),
        (
            of(io::ErrorKind::PermissionDenied),
            ConnectFailure::Io(io::ErrorKind::PermissionDenied),
            "permission",
        ),
        (ConnectFailure::Cancelled, ConnectFailure::Cancelled, "cancelled"),
        (ConnectFailure::Shutdown, ConnectFailure::Shutdown, "shutdown"),
    ];
    for (failure, expected, part) in told {
        assert_eq!(failure, expected);
        assert!(failure.to_string().contains(part), "{failure}");
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    let told = [
        (ReadError::TooShort { wanted: 4, left: 1 }.to_string(), "4 bytes wanted, 1 left"),
        (ReadError::Varint.to_string(), "varint"),
        (ReadError::Utf8.to_string(), "UTF-8"),
        (ReadError::LeftOver { left: 2 }.to_string(), "2 bytes too many"),
        (DecompressError::TooLarge { limit: 5 }.to_string(), "more than 5"),
        (DecompressError::Malformed.to_string(), "not what was compressed"),
        (FrameError::TooLarge { declared: 6 }.to_string(), "6 bytes announced"),
        (FrameError::Bad(BadFrame::Empty).to_string(), "empty"),
    ];
    for (text, part) in told {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn values_can_be_looked_at() {
    let (mut reactor, _) = common::server(Builder::default());
    let listener = reactor.listen("127.0.0.1:0").expect("a free port");
    assert_eq!(format!("{listener:?}"), format!("ListenerId({listener})"));
    let handle = reactor.handle().expect("a waker");
    let again = reactor.handle().expect("the same");
    assert!(format!("{handle:?}").contains("is_alive: true"));
    assert!(format!("{:?}", reactor.outbox()).contains("connections: 0"));
    assert!(format!("{reactor:?}").contains("connections: 0"));
    assert!(format!("{:?}", reactor.net()).contains("MioNet"));
    drop(reactor);
    assert!(format!("{again:?}").contains("is_alive: false"));
    assert!(format!("{:?}", Lz4::default()).contains("Lz4"));
    assert!(format!("{:?}", Zlib::new(1)).contains("Zlib"));
    let map: ConnMap<u8> = ConnMap::new();
    assert!(format!("{:?}", map.iter()).contains("left: 0"));
}

#[test]
fn addresses_come_from_every_type_of_the_standard_library() {
    let v4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
    let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 2, 0, 0);
    assert_eq!(Addr::from(v4), Addr::from(SocketAddr::V4(v4)));
    assert_eq!(Addr::from(v6), Addr::from(SocketAddr::V6(v6)));
    let text = "127.0.0.1:1".to_owned();
    assert_eq!(Addr::try_from(&text), Ok(Addr::from(v4)));
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
    assert_eq!(Prefix::from(mapped), "10.0.0.1/32".parse().expect("a prefix"));
}

/// A framing of one's own that needs too much around each payload.
#[derive(Debug)]
struct Wasteful(u8);

impl Codec for Wasteful {
    fn overhead_max(&self) -> usize {
        usize::from(self.0) << 20
    }

    fn decode(&self, _: &[u8], _: &mut usize, _: usize) -> Result<Option<Cut>, FrameError> {
        Ok(None)
    }

    fn encode(&self, _: &[u8], _: &mut Envelope) -> Result<(), SendError> {
        Ok(())
    }
}

#[test]
fn a_codec_is_itself_and_may_not_waste() {
    static ONE: Wasteful = Wasteful(1);
    static OTHER: Wasteful = Wasteful(2);
    let (one, other) = (Framing::custom(&ONE), Framing::custom(&OTHER));
    assert!(one == one && one != other);
    let both = std::collections::HashSet::from([one, one, other]);
    assert_eq!(both.len(), 2);
    assert!(format!("{one:?}").contains("Wasteful"));
    let error = Reactor::builder().framing(one).build().expect_err("it wastes");
    assert!(error.to_string().contains("1048576 bytes around a payload"), "{error}");
}

/// Two reactors on one port, as for a restart without a gap; and a connect with options of its own.
#[test]
#[cfg(target_os = "linux")]
fn a_port_can_be_shared_by_those_who_agree() {
    let shared = ListenOptions::default().reuse_port(true).reuse_address(true);
    let mut one = Reactor::new().expect("a poller");
    let listener = one.listen_with("127.0.0.1:0", &shared).expect("a free port");
    let addr = one.local_addr(listener).expect("it listens");
    let mut other = Reactor::new().expect("a poller");
    other.listen_with(addr.clone(), &shared).expect("they agree");
    assert!(other.listen(addr.clone()).is_err(), "this one does not");
    let options = ConnectOptions::new().socket_options(SocketOptions::default().nodelay(false));
    let mut client = Reactor::new().expect("a poller");
    client.connect_with(addr, &options).expect("there is room");
    let mut came = false;
    common::pump(&mut client, |event, _| {
        came = matches!(event, Event::Connected { .. });
        true
    });
    assert!(came);
}
