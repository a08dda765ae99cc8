//! How many clients the system lets us have: descriptors, ports, memory.

use crate::usage;

/// Clients that share one address of the server. Each takes a port of its own. The usual range has
/// 28,232, but Linux looks for an even one first: once half of them are taken, each connect goes
/// through all of that half before it finds an odd one, and takes a millisecond.
const CLIENTS_PER_ADDRESS: usize = 12_000;

/// Pollers, pipes, standard streams, with some to spare.
const OTHERS: usize = 64;

/// On how many addresses (127.0.0.1, 127.0.0.2 …) the servers listen.
pub(crate) fn addresses(clients: usize) -> usize {
    clients.div_ceil(CLIENTS_PER_ADDRESS)
}

/// Whether a process may have the descriptors it needs. The soft limit, usually 1,024, is raised to
/// the hard one.
pub(crate) fn check_descriptors(clients: usize, processes: usize) -> Result<(), String> {
    let limit = rlimit::increase_nofile_limit(u64::MAX).map_err(|error| error.to_string())?;
    if needed(clients, processes) <= limit {
        return Ok(());
    }
    let enough = (processes + 1..=1_000).find(|processes| needed(clients, *processes) <= limit);
    let advice = enough.map_or(String::new(), |enough| format!(" use --processes {enough},"));
    Err(format!(
        "--clients: {clients} clients need {} descriptors in a process, which may have {limit}:{advice} \
         raise the hard limit (see `ulimit -Hn`) or ask for fewer",
        needed(clients, processes)
    ))
}

/// The most descriptors that one process will need, be it one of the servers or of the clients.
fn needed(clients: usize, processes: usize) -> u64 {
    let share = clients.div_ceil(processes);
    // The system spreads clients over the servers by a hash, so none gets exactly its share. Of a
    // binomial distribution, four standard deviations are enough for some hundred servers.
    let more = match processes {
        1 => 0,
        _ => 4 * (share as f64).sqrt().ceil() as usize,
    };
    (share + more + addresses(clients) + 2 * processes + OTHERS) as u64
}

/// How much memory stays free unless --keep-free says otherwise, in bytes: an eighth.
pub(crate) fn keep_free() -> u64 {
    const LEAST: u64 = 512 << 20;
    (usage::total().unwrap_or(0) / 8).max(LEAST)
}

/// Whether no more may be taken.
pub(crate) fn memory_is_low(keep_free: u64) -> bool {
    usage::available().is_some_and(|available| available < keep_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_one_address_last_for_all_its_clients() {
        assert_eq!(addresses(1), 1);
        assert_eq!(addresses(12_000), 1);
        assert_eq!(addresses(12_001), 2);
        assert_eq!(addresses(1_000_000), 84);
    }

    #[test]
    fn a_million_clients_fit_into_53_processes_of_20_000_descriptors_and_not_into_52() {
        assert!(needed(19_900, 1) <= 20_000);
        assert!(needed(1_000_000, 53) <= 20_000, "{}", needed(1_000_000, 53));
        assert!(needed(1_000_000, 52) > 20_000, "{}", needed(1_000_000, 52));
    }
}
