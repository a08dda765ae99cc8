//! Where a peer is.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The address of a listener or a peer.
///
/// As a text, an IP address with a port, or `unix:` and a path. Host names are not resolved here, as that
/// may block: do it before, away from the game's thread.
///
/// ```
/// # use tickwire::Addr;
/// let addr: Addr = "127.0.0.1:7777".parse()?;
/// assert_eq!(addr.port(), Some(7777));
/// assert_eq!(addr, Addr::from(([127, 0, 0, 1], 7777)));
/// let local: Addr = "unix:/run/game.sock".parse()?;
/// assert_eq!(local, Addr::from(std::path::Path::new("/run/game.sock")));
/// # Ok::<(), tickwire::AddrError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Addr {
    /// An IPv4 or IPv6 address and a port. Peers who reach an IPv6 socket over IPv4 are shown with
    /// their IPv4 address.
    Ip(SocketAddr),
    /// The path of a Unix domain socket (unix(7)), empty for a client's end, which has none. Can be listened on
    /// and connected to where the system is a Unix.
    Unix(Arc<Path>),
}

impl Addr {
    /// The IP address, where the address has one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.as_socket_addr().map(|addr| addr.ip())
    }

    /// The port, where the address has one.
    pub fn port(&self) -> Option<u16> {
        self.as_socket_addr().map(|addr| addr.port())
    }

    /// The address as the standard library's type, where it is an IP address.
    pub fn as_socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Addr::Ip(addr) => Some(*addr),
            Addr::Unix(_) => None,
        }
    }

    /// The path, where the address is that of a named Unix domain socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Addr::Unix(path) if !path.as_os_str().is_empty() => Some(path),
            Addr::Unix(_) | Addr::Ip(_) => None,
        }
    }

    /// `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2) as the IPv4 address that it stands for, so that
    /// logs and bans know one name for one peer.
    pub(crate) fn canonical(self) -> Addr {
        match self {
            Addr::Ip(SocketAddr::V6(six)) => match six.ip().to_canonical() {
                IpAddr::V4(four) => Addr::from((four, six.port())),
                IpAddr::V6(_) => self, // with its scope
            },
            other => other,
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addr::Ip(addr) => addr.fmt(f),
            Addr::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address in half the space, since every connection keeps its peer's: IPv4 in place, what is longer in a box.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    V4(SocketAddrV4),
    Other(Box<Addr>),
}

impl From<Addr> for Peer {
    fn from(addr: Addr) -> Peer {
        match addr {
            Addr::Ip(SocketAddr::V4(addr)) => Peer::V4(addr),
            other => Peer::Other(Box::new(other)),
        }
    }
}

impl Peer {
    pub(crate) fn addr(&self) -> Addr {
        match self {
            Peer::V4(addr) => Addr::from(*addr),
            Peer::Other(addr) => Addr::clone(addr),
        }
    }
}

/// A text that is no address: [`Addr`] wants `IP:PORT`, IPv6 in brackets.
#[derive(Clone, PartialEq, Eq)]
pub struct AddrError {
    given: String,
}

/// With the whole explanation, since that is what a `main` that returns the error prints.
impl fmt::Debug for AddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddrError({self})")
    }
}

impl fmt::Display for AddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not an address: expected IP:PORT such as 127.0.0.1:7777 or [::1]:7777, or unix:PATH (host names are not resolved here)",
            self.given
        )
    }
}

impl std::error::Error for AddrError {}

impl FromStr for Addr {
    type Err = AddrError;

    fn from_str(text: &str) -> Result<Addr, AddrError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Addr::from(Path::new(path)));
        }
        match text.parse() {
            Ok(addr) => Ok(Addr::Ip(addr)),
            Err(_) => Err(AddrError { given: text.to_owned() }),
        }
    }
}

impl TryFrom<&str> for Addr {
    type Error = AddrError;

    fn try_from(text: &str) -> Result<Addr, AddrError> {
        text.parse()
    }
}

impl TryFrom<&String> for Addr {
    type Error = AddrError;

    fn try_from(text: &String) -> Result<Addr, AddrError> {
        text.parse()
    }
}

impl TryFrom<String> for Addr {
    type Error = AddrError;

    fn try_from(text: String) -> Result<Addr, AddrError> {
        text.parse()
    }
}

impl From<&Addr> for Addr {
    fn from(addr: &Addr) -> Addr {
        addr.clone()
    }
}

impl From<&Path> for Addr {
    fn from(path: &Path) -> Addr {
        Addr::Unix(path.into())
    }
}

impl From<PathBuf> for Addr {
    fn from(path: PathBuf) -> Addr {
        Addr::Unix(path.into())
    }
}

impl From<SocketAddr> for Addr {
    fn from(addr: SocketAddr) -> Addr {
        Addr::Ip(addr)
    }
}

impl From<SocketAddrV4> for Addr {
    fn from(addr: SocketAddrV4) -> Addr {
        Addr::Ip(addr.into())
    }
}

impl From<SocketAddrV6> for Addr {
    fn from(addr: SocketAddrV6) -> Addr {
        Addr::Ip(addr.into())
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Addr {
    fn from(addr: (I, u16)) -> Addr {
        Addr::Ip(addr.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_shown_as_ipv4() {
        let mapped: Addr = "[::ffff:10.1.2.3]:9".parse().expect("an address");
        assert_eq!(mapped.canonical().to_string(), "10.1.2.3:9");
        let real: Addr = "[::1]:9".parse().expect("an address");
        assert_eq!(real.clone().canonical(), real);
        let scoped: Addr = "[fe80::1%3]:9".parse().expect("an address");
        assert_eq!(
            scoped.clone().canonical(),
            scoped,
            "a link-local peer is none without its scope"
        );
    }

    #[test]
    fn a_path_keeps_its_text() {
        let addr: Addr = "unix:/run/game.sock".parse().expect("an address");
        assert_eq!(addr.to_string(), "unix:/run/game.sock");
        assert_eq!(addr.path(), Some(Path::new("/run/game.sock")));
        assert_eq!((addr.ip(), addr.port()), (None, None));
        assert_eq!(Addr::from(Path::new("")).path(), None, "a client's end");
    }

    #[test]
    fn what_is_no_address_says_what_is_expected() {
        for text in ["localhost:7777", "127.0.0.1", "1.2.3.4:70000", "", "unix:"] {
            let problem = text.parse::<Addr>().expect_err("not an address").to_string();
            assert!(problem.contains("IP:PORT"), "{problem}");
            let error = text.parse::<Addr>().expect_err("not an address");
            assert_eq!(format!("{error:?}"), format!("AddrError({problem})"), "what `main` prints");
        }
    }
}
