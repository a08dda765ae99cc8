//! Who may come in, as data.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::addr::Addr;

/// A range of IP addresses that share their first bits, such as `10.0.0.0/8`, `2001:db8::/32` or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Prefix {
    /// The addresses whose first `len` bits are those of `addr`; `None` if the address has fewer bits. An IPv4-mapped
    /// IPv6 address is taken as the IPv4 address that it stands for.
    pub fn new(addr: IpAddr, len: u8) -> Option<Prefix> {
        let (addr, len) = match (addr, addr.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(mapped)) => (IpAddr::V4(mapped), len.checked_sub(96)?),
            (_, addr) => (addr, len),
        };
        (len <= width(addr)).then(|| Prefix { addr: masked(addr, len), len })
    }

    /// Whether an address is one of them.
    pub fn contains(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        addr.is_ipv4() == self.addr.is_ipv4() && masked(addr, self.len) == self.addr
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// A text that is no range of addresses: [`Prefix`] wants `IP/BITS` or `IP`.
#[derive(Clone, PartialEq, Eq)]
pub struct PrefixError {
    given: String,
}

/// With the whole explanation, as that of an [`AddrError`](crate::AddrError).
impl fmt::Debug for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixError({self})")
    }
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = &self.given;
        write!(f, "`{given}` is no range of addresses: expected IP/BITS such as 10.0.0.0/8, or IP")
    }
}

impl std::error::Error for PrefixError {}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let parse = || {
            let (addr, len) = match text.split_once('/') {
                Some((addr, len)) => (addr.parse().ok()?, len.parse().ok()?),
                None => {
                    let addr: IpAddr = text.parse().ok()?;
                    (addr, width(addr))
                }
            };
            Prefix::new(addr, len)
        };
        parse().ok_or_else(|| PrefixError { given: text.to_owned() })
    }
}

impl From<IpAddr> for Prefix {
    fn from(addr: IpAddr) -> Prefix {
        let addr = addr.to_canonical();
        Prefix { addr, len: width(addr) }
    }
}

/// Which addresses may connect; see [`Reactor::set_filter`](crate::Reactor::set_filter). Empty, it lets everybody in.
///
/// ```
/// use tickwire::AddrFilter;
///
/// let filter = AddrFilter::new()
///     .allow("192.168.0.0/16".parse()?)
///     .deny("192.168.13.37".parse()?);
/// # Ok::<(), tickwire::PrefixError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a filter does nothing until it is passed to `set_filter`"]
pub struct AddrFilter {
    allowed: Vec<Prefix>,
    denied: Vec<Prefix>,
}

impl AddrFilter {
    /// Lets everybody in.
    pub fn new() -> AddrFilter {
        AddrFilter::default()
    }

    /// Lets these in; if anybody is allowed by name, all others are not.
    pub fn allow(mut self, prefix: Prefix) -> AddrFilter {
        self.allowed.push(prefix);
        self
    }

    /// Keeps these out, whether they are allowed or not.
    pub fn deny(mut self, prefix: Prefix) -> AddrFilter {
        self.denied.push(prefix);
        self
    }

    /// Whether this address may connect.
    pub fn admits(&self, addr: IpAddr) -> bool {
        let is_in = |prefixes: &[Prefix]| prefixes.iter().any(|prefix| prefix.contains(addr));
        !is_in(&self.denied) && (self.allowed.is_empty() || is_in(&self.allowed))
    }
}

/// How many connections there are from each address.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    counts: HashMap<IpAddr, usize>,
}

impl Crowd {
    pub(crate) fn count(&self, peer: &Addr) -> usize {
        household(peer).and_then(|home| self.counts.get(&home)).copied().unwrap_or(0)
    }

    pub(crate) fn enter(&mut self, peer: &Addr) {
        if let Some(home) = household(peer) {
            *self.counts.entry(home).or_default() += 1;
        }
    }

    pub(crate) fn leave(&mut self, peer: &Addr) {
        let Some(home) = household(peer) else { return };
        if let Some(count) = self.counts.get_mut(&home) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&home);
            }
        }
    }
}

/// What counts as one peer: an IPv4 address, or the /64 of an IPv6 address, which one household has to itself.
fn household(peer: &Addr) -> Option<IpAddr> {
    let addr = peer.ip()?.to_canonical();
    Some(masked(addr, if addr.is_ipv4() { 32 } else { 64 }))
}

fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first `len` bits cleared.
fn masked(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::V4((u32::from(addr) & mask).into())
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(addr) & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_prefix_contains_what_shares_its_bits() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "::1", "1.2.3.4"),
            ("192.168.1.77/24", "192.168.1.1", "192.168.2.1"),
            ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.9.9.9", "::ffff:11.0.0.1"),
        ] {
            assert!(prefix(range).contains(ip(inside)), "{inside} in {range}");
            assert!(!prefix(range).contains(ip(outside)), "{outside} not in {range}");
        }
        assert_eq!(prefix("192.168.1.77/24").to_string(), "192.168.1.0/24");
    }

    #[test]
    fn what_is_no_prefix_says_what_is_expected() {
        for text in ["", "10.0.0.0/33", "::/129", "host/8", "10.0.0.0/-1", "::ffff:10.0.0.0/90"] {
            let problem = text.parse::<Prefix>().expect_err("no prefix").to_string();
            assert!(problem.contains("IP/BITS"), "{problem}");
            let error = text.parse::<Prefix>().expect_err("no prefix");
            assert_eq!(format!("{error:?}"), format!("PrefixError({problem})"));
        }
    }

    #[test]
    fn denial_wins_and_an_empty_filter_admits_all() {
        assert!(AddrFilter::new().admits(ip("1.2.3.4")));
        let filter = AddrFilter::new().allow(prefix("10.0.0.0/8")).deny(prefix("10.6.6.6"));
        assert!(filter.admits(ip("10.1.1.1")));
        assert!(!filter.admits(ip("10.6.6.6")) && !filter.admits(ip("8.8.8.8")));
        assert!(AddrFilter::new().deny(prefix("::1")).admits(ip("::2")));
    }

    #[test]
    fn a_household_is_an_ipv4_address_or_a_64() {
        let mut crowd = Crowd::default();
        let addr = |text: &str| Addr::from((ip(text), 1));
        crowd.enter(&addr("2001:db8::1"));
        crowd.enter(&addr("2001:db8::2"));
        assert_eq!(crowd.count(&addr("2001:db8::3")), 2);
        assert_eq!(crowd.count(&addr("2001:db8:0:1::1")), 0);
        crowd.enter(&addr("::ffff:10.0.0.1"));
        assert_eq!(crowd.count(&addr("10.0.0.1")), 1);
        crowd.leave(&addr("10.0.0.1"));
        crowd.leave(&addr("2001:db8::1"));
        crowd.leave(&addr("2001:db8::2"));
        assert!(crowd.counts.is_empty());
    }
}
