//! Every call of the seam that may fail fails once, at every place where a reference story makes it, with every errno
//! that fits. Whatever it is: all others live as if nothing had happened, whose call it was lives on or ends for that
//! reason, and nothing leaks.

mod net;
mod story;

use std::collections::BTreeMap;
use std::time::Duration;

use tickwire::sim::{Faults, SimWorld};
use tickwire::{ConnectFailure, DisconnectReason, Event, Reactor, Wait};

use self::errno::*;
use self::net::{Call, FailingNet, Fault, Plan};
use self::story::{ALL, LASTS, Life, Name, Told, tell};
use crate::harness::{MS, SECOND, SERVER};

/// What may come of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// Nothing: it is tried again.
    Nothing,
    /// Nothing but that the call, or the tick that it belongs to, answers with an error.
    AnError,
    /// The connection ends as it would have, only sooner or later, or for one of these reasons.
    Ends(&'static [&'static str]),
    /// The client is turned away before anybody has heard of it.
    TurnedAway,
    /// The connect fails, for the reason that belongs to the errno.
    ConnectFails,
}

/// Each call with each errno that the manual pages name for it, and what may come of it.
fn faults_of(call: Call) -> Vec<(Fault, Allowed)> {
    use Allowed::*;
    let each = |errnos: &[i32], allowed: Allowed| -> Vec<(Fault, Allowed)> {
        errnos.iter().map(|errno| (Fault::Errno(*errno), allowed)).collect()
    };
    match call {
        Call::Wait => each(&[EBADF, EINVAL, ENOMEM], AnError),
        Call::Waker => each(&[EMFILE, ENFILE, ENOMEM], AnError),
        Call::Listen => {
            let errnos =
                [EADDRINUSE, EACCES, EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL, ENOSPC];
            each(&errnos, AnError)
        }
        Call::LocalAddr => each(&[ENOBUFS], AnError),
        Call::Accept => {
            let errnos = [
                EINTR,
                EAGAIN,
                ECONNABORTED,
                EPROTO,
                EMFILE,
                ENFILE,
                ENOBUFS,
                ENOMEM,
                EPERM,
                ENETDOWN,
                EHOSTUNREACH,
                ETIMEDOUT,
            ];
            let lost = [ECONNABORTED, EPROTO, ENETDOWN, EPERM];
            let lost = lost.map(|errno| (Fault::Lost(errno), TurnedAway));
            each(&errnos, Nothing).into_iter().chain(lost).collect()
        }
        Call::Register => each(&[ENOMEM, ENOSPC, EEXIST], TurnedAway),
        Call::Connect | Call::Connected => {
            let errnos = [
                ECONNREFUSED,
                ETIMEDOUT,
                EHOSTUNREACH,
                ENETUNREACH,
                EADDRNOTAVAIL,
                EACCES,
                EAFNOSUPPORT,
                EMFILE,
                ENFILE,
                ENOBUFS,
                ENOMEM,
                ECONNRESET,
            ];
            each(&errnos, ConnectFails)
        }
        Call::Recv => [
            each(&[EINTR, EAGAIN, ENOMEM, ENOBUFS], Nothing),
            each(&[ECONNRESET], Ends(&["Reset"])),
            each(&[ETIMEDOUT], Ends(&["TimedOut"])),
            each(&[ECONNABORTED], Ends(&["Io(ConnectionAborted)"])),
            each(&[EHOSTUNREACH], Ends(&["Io(HostUnreachable)"])),
            vec![(Fault::OneByte, Nothing), (Fault::Zero, Ends(&["ClosedByPeer", "Truncated"]))],
        ]
        .concat(),
        Call::Send => [
            each(&[EINTR, EAGAIN, ENOBUFS, ENOMEM], Nothing),
            each(&[EPIPE, ECONNRESET], Ends(&["Reset"])),
            each(&[ETIMEDOUT], Ends(&["TimedOut"])),
            each(&[EHOSTUNREACH], Ends(&["Io(HostUnreachable)"])),
            vec![(Fault::OneByte, Nothing), (Fault::Zero, Nothing)],
        ]
        .concat(),
        // No FIN has left, so a peer that waits for one is reset in the end.
        Call::Shutdown => each(&[ENOTCONN, ENOBUFS], Ends(&["CloseDeadline", "Shutdown"])),
    }
}

/// Networks that differ in what they tell.
fn styles() -> [Faults; 2] {
    let plain = Faults::default();
    let terse = Faults {
        bare_edges: true,
        drained_unknown: 1_000,
        recv_segments: true,
        delay_min: MS / 2,
        delay_max: MS / 2,
        ..plain
    };
    [plain, terse]
}

#[test]
fn the_story_makes_every_call_in_many_places() {
    for style in styles() {
        let told = tell(style, None);
        let reasons: Vec<&str> = told
            .lives
            .values()
            .filter_map(|life| life.told.last()?.strip_prefix("over: "))
            .collect();
        for reason in ["ClosedByPeer", "ClosedByUs", "Kicked", "Reset", "Truncated", "Refused"] {
            assert!(reasons.contains(&reason), "nobody ends with {reason}: {reasons:?}");
        }
        for call in ALL {
            let least = match call {
                Call::Waker => 1,
                Call::Listen | Call::LocalAddr | Call::Connect | Call::Connected => 2,
                Call::Shutdown => 3,
                Call::Register => 10,
                Call::Accept => 12,
                Call::Send => 20,
                Call::Wait | Call::Recv => 30,
            };
            assert!(told.count(call) >= least, "{call:?}: {}", told.count(call));
        }
        assert_eq!((told.errors, told.failed), (0, 0));
    }
}

#[test]
fn each_call_fails_once_everywhere_with_every_errno() {
    let mut runs = BTreeMap::new();
    for style in styles() {
        let reference = tell(style, None);
        for call in ALL {
            for (fault, allowed) in faults_of(call) {
                for nth in 0..reference.count(call) {
                    let plan = Plan { call, nth, fault, lasts: Duration::ZERO };
                    judge(&reference, &tell(style, Some(plan)), plan, allowed);
                    *runs.entry(call).or_insert(0) += 1;
                }
            }
        }
    }
    println!("stories told with one fault: {runs:?}");
}

/// Shortages last. Nobody ends for one, nobody spins meanwhile, and afterwards all goes on without an edge.
#[test]
fn a_shortage_that_lasts_costs_neither_a_connection_nor_the_processor() {
    for style in styles() {
        let reference = tell(style, None);
        for (call, errnos) in [
            (Call::Accept, &[EMFILE, ENFILE, ENOBUFS, ENOMEM][..]),
            (Call::Recv, &[ENOMEM, ENOBUFS]),
            (Call::Send, &[ENOMEM, ENOBUFS]),
        ] {
            for errno in errnos {
                for nth in 0..reference.count(call) {
                    let plan = Plan { call, nth, fault: Fault::Errno(*errno), lasts: LASTS };
                    let told = tell(style, Some(plan));
                    judge(&reference, &told, plan, Allowed::Nothing);
                    // Once each 10 ms for each connection; a new edge is a reason to look sooner.
                    let most = 12 * 14;
                    assert!(told.failed <= most, "{} tries in {LASTS:?}: {plan:?}", told.failed);
                }
            }
        }
    }
}

/// tiny-http/tiny-http#283, status-im/nim-chronos#233, MirrorNetworking/Mirror#2695: every third accept fails, in turn for
/// each of these reasons.
#[test]
fn o11_one_accept_error_stops_the_listener() {
    let errnos = [ECONNABORTED, EPROTO, EINTR, ENETDOWN, EPERM, ENOBUFS, EAGAIN];
    let every_third = |number: usize| Plan {
        call: Call::Accept,
        nth: 3 * number + 2,
        fault: Fault::Errno(errnos[number % errnos.len()]),
        lasts: Duration::ZERO,
    };
    let world = SimWorld::new(1, Faults::default());
    let net = FailingNet::new(world.host(SERVER), (0..300).map(every_third).collect());
    let mut reactor = Reactor::builder().build_on(net).expect("usable settings");
    let listener = reactor.listen((SERVER, 7777)).expect("a free port");
    let addr = reactor.local_addr(listener).expect("it listens");
    let clients: Vec<_> = (0..300u16)
        .map(|number| world.raw_connect([10, 0, (number >> 8) as u8, number as u8].into(), &addr))
        .collect();
    let (mut connected, deadline) = (0, world.now() + 10 * SECOND);
    while connected < clients.len() {
        world.advance(MS);
        for event in reactor.tick(Wait::No).expect("no error for one client's sake").events {
            assert!(matches!(event, Event::Connected { .. }), "{event:?}");
            connected += 1;
        }
        assert!(world.now() < deadline, "{connected} are connected");
    }
    assert!(reactor.net().failed() >= 100);
    assert!(reactor.local_addr(listener).is_some());
}

/// Compares a story with one fault to the one without.
fn judge(reference: &Told, told: &Told, plan: Plan, allowed: Allowed) {
    assert!(told.failed > 0, "the fault did not come: {plan:?}");
    let errors = usize::from(allowed == Allowed::AnError);
    assert_eq!(told.errors, errors, "errors to the caller: {plan:?}");
    for (name, expected) in &reference.lives {
        let life = told.lives.get(name).cloned().unwrap_or_default();
        let is_hit = told.hit == Some(*name);
        match allowed {
            Allowed::Ends(reasons) if is_hit => {
                ends_early(&life, expected, reasons, plan, *name);
            }
            Allowed::TurnedAway if is_hit => assert_eq!(life, Life::default(), "{plan:?}"),
            Allowed::ConnectFails if is_hit => {
                let Fault::Errno(errno) = plan.fault else { unreachable!("{plan:?}") };
                let reason = ConnectFailure::from(&std::io::Error::from_raw_os_error(errno));
                assert_eq!(life.told, [format!("over: {reason:?}")], "{plan:?}");
            }
            _ => assert_eq!(life, *expected, "{name} has suffered: {plan:?}"),
        }
    }
}

/// What was told and heard is the beginning of what would have been, and the end is one of these.
fn ends_early(life: &Life, expected: &Life, reasons: &[&str], plan: Plan, name: Name) {
    let (last, told) = life.told.split_last().expect("it has a life");
    let (expected_last, expected_told) = expected.told.split_last().expect("it has one too");
    assert!(expected_told.starts_with(told), "{name}, {plan:?}: {told:?}");
    assert!(expected.heard.starts_with(&life.heard), "{name}, {plan:?}");
    let reason = last.strip_prefix("over: ").expect("the last event is its end");
    let is_fine = last == expected_last || reasons.contains(&reason);
    assert!(is_fine, "{name} ended with {reason}: {plan:?}");
}

/// The reasons are named as the game sees them.
#[test]
fn the_reasons_of_the_table_exist() {
    let of =
        |errno| format!("{:?}", DisconnectReason::from(&std::io::Error::from_raw_os_error(errno)));
    for call in [Call::Recv, Call::Send] {
        for (fault, allowed) in faults_of(call) {
            if let (Fault::Errno(errno), Allowed::Ends(reasons)) = (fault, allowed) {
                assert_eq!(reasons, [of(errno)]);
            }
        }
    }
}

/// Linux' numbers: the seam gets what the system says.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const EINTR: i32 = 4;
    pub(super) const EBADF: i32 = 9;
    pub(super) const EAGAIN: i32 = 11;
    pub(super) const ENOMEM: i32 = 12;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENFILE: i32 = 23;
    pub(super) const EMFILE: i32 = 24;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EPIPE: i32 = 32;
    pub(super) const EPROTO: i32 = 71;
    pub(super) const EAFNOSUPPORT: i32 = 97;
    pub(super) const EADDRINUSE: i32 = 98;
    pub(super) const EADDRNOTAVAIL: i32 = 99;
    pub(super) const ENETDOWN: i32 = 100;
    pub(super) const ENETUNREACH: i32 = 101;
    pub(super) const ECONNABORTED: i32 = 103;
    pub(super) const ECONNRESET: i32 = 104;
    pub(super) const ENOBUFS: i32 = 105;
    pub(super) const ENOTCONN: i32 = 107;
    pub(super) const ETIMEDOUT: i32 = 110;
    pub(super) const ECONNREFUSED: i32 = 111;
    pub(super) const EHOSTUNREACH: i32 = 113;
}
