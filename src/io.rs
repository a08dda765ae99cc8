//! What the network and the connections both have to understand: what a receive brought, and what a
//! failure of the system means.

use std::io;

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes.
    pub len: usize,
    /// Whether the socket is known to be empty now, so that whatever comes next raises a new edge.
    ///
    /// With epoll and kqueue that is a receive that filled less than it was offered (epoll(7));
    /// elsewhere only `WouldBlock` says so. It does not hold for a socket whose readiness said
    /// [`insist`](crate::net::Readiness::insist).
    pub drained: bool,
}

/// What a failed accept means for the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptFailure {
    /// Nobody waits: an edge will tell.
    Drained,
    /// This one client is lost; the next may be fine (accept(2): errors of the new socket).
    ClientLost,
    /// Descriptors or memory are short, or it is nothing we know: no edge will tell when that is
    /// over, and trying on at once would spin.
    Retry,
}

impl AcceptFailure {
    pub(crate) fn of(error: &io::Error) -> AcceptFailure {
        use io::ErrorKind::*;
        match error.kind() {
            WouldBlock => AcceptFailure::Drained,
            Interrupted | ConnectionAborted | ConnectionReset | PermissionDenied | NetworkDown
            | NetworkUnreachable | HostUnreachable | TimedOut => AcceptFailure::ClientLost,
            _ if error.raw_os_error() == Some(EPROTO) => AcceptFailure::ClientLost,
            _ => AcceptFailure::Retry,
        }
    }
}

/// Whether a failed send may be tried again later: the system is short of memory for the moment.
/// No edge will tell when.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || error.raw_os_error() == Some(ENOBUFS)
}

// Errno values that `io::ErrorKind` has no stable name for.
#[cfg(any(target_os = "linux", target_os = "android"))]
const EPROTO: i32 = 71;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const EINPROGRESS: i32 = 115;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const EINPROGRESS: i32 = 36; // macOS and the BSDs; Windows says WSAEWOULDBLOCK
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const ENOBUFS: i32 = 105;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const EPROTO: i32 = 100; // macOS and the BSDs (errno(2)); no such error on Windows
#[cfg(all(not(any(target_os = "linux", target_os = "android")), not(windows)))]
pub(crate) const ENOBUFS: i32 = 55;
#[cfg(windows)]
pub(crate) const ENOBUFS: i32 = 10055; // WSAENOBUFS

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn accept_failures_are_told_apart() {
        let of = |errno| AcceptFailure::of(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(11), AcceptFailure::Drained, "EAGAIN");
        for (errno, name) in [
            (4, "EINTR"),
            (103, "ECONNABORTED"),
            (71, "EPROTO"),
            (100, "ENETDOWN"),
            (101, "ENETUNREACH"),
            (113, "EHOSTUNREACH"),
            (1, "EPERM"),
        ] {
            assert_eq!(of(errno), AcceptFailure::ClientLost, "{name}");
        }
        for (errno, name) in [(24, "EMFILE"), (23, "ENFILE"), (105, "ENOBUFS"), (12, "ENOMEM")] {
            assert_eq!(of(errno), AcceptFailure::Retry, "{name}");
        }
    }
}
