//! Choosing among servers that send their newest archives.

use std::collections::{BTreeMap, HashSet};

use unsnap_failure::{Code, Failure, Family};
use unsnap_fetch::{
    Contest, Entrant, FetchError, FetchOptions, Look, Newest, Peer, RUNNERS_MAX, Remote, Survey,
};
use unsnap_layout::ArchiveName;

use crate::{PassError, RemoteArchive, start::Start};

/// Most peers. A guess: more of them would not be faster.
pub const PEERS_MAX: usize = 64;

/// Servers that redirect to their newest archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The servers.
    pub servers: Vec<Peer>,
    /// How to fetch from them.
    pub options: FetchOptions,
    /// Number of hosts that must name the same slot and hash.
    pub agree: usize,
    /// Names of which an archive must have one; empty for any.
    pub expected: Vec<ArchiveName>,
}

/// What a peer has said of its newest archive of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAnswer {
    /// Host of the peer.
    pub host: String,
    /// Name of the archive.
    pub name: ArchiveName,
    /// What the server says of it.
    pub look: Look,
}

/// Base slot, slot and hash of an archive, whatever its compression.
pub type StateName = (Option<u64>, u64, [u8; 32]);

/// Returns the slots and the hash in a name.
pub fn state_name(name: &ArchiveName) -> StateName {
    (name.base_slot(), name.slot(), *name.hash().as_bytes())
}

impl Peers {
    /// Asks all peers, and returns the archives that enough of them name, the newest first. Each may
    /// come from several servers, the one that has answered first being tried first.
    ///
    /// # Errors
    ///
    /// If no peer answers, or if not enough of them agree.
    pub fn archives(
        &self,
        kinds: &[Newest],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<RemoteArchive>, PassError> {
        let questions: Vec<_> = self
            .servers
            .iter()
            .take(PEERS_MAX)
            .flat_map(|peer| kinds.iter().map(|kind| (peer.clone(), *kind)))
            .collect();
        let options = self.options.clone();
        let ask = move |(peer, kind): (Peer, Newest), late: &dyn Fn() -> bool| {
            Remote::look(&peer.newest(kind), &options, late)
        };
        let looks = Survey::default().ask(questions.clone(), ask, cancelled);
        if cancelled() {
            return Err(PassError::Cancelled);
        }
        let mut answers = Vec::new();
        let mut first_error = None;
        for ((peer, kind), look) in questions.into_iter().zip(looks) {
            match look.map(|look| look.map(|look| named(&peer, look))) {
                Some(Ok(Some(answer))) => answers.push(answer),
                Some(Ok(None)) => tracing::warn!(%peer, "what it sends has no snapshot's name"),
                // It had too little time: the caller has not cancelled.
                None | Some(Err(FetchError::Cancelled)) => {
                    tracing::info!(%peer, ?kind, "a peer does not answer in time");
                }
                Some(Err(error)) => {
                    // Many have no incremental archive at some time.
                    tracing::info!(%peer, ?kind, %error, "a peer does not send it");
                    first_error.get_or_insert(error);
                }
            }
        }
        let named_any = !answers.is_empty();
        if !self.expected.is_empty() {
            answers.retain(|answer| self.expected.contains(&answer.name));
        }
        let archives = choose(answers, self.agree);
        if !archives.is_empty() {
            return Ok(archives);
        }
        let hosts = self.servers.len();
        let nobody = |agree| FetchError::Disagreement { hosts, agree };
        Err(match first_error {
            Some(error) if !named_any => error.into(),
            _ => nobody(if named_any { self.agree } else { 1 }).into(),
        })
    }
}

fn named(peer: &Peer, look: Look) -> Option<PeerAnswer> {
    let name = ArchiveName::parse(look.address.file_name()).ok()?;
    Some(PeerAnswer { host: peer.host().to_owned(), name, look })
}

/// Returns the number of hosts that name each state.
pub fn agreement<'a>(
    answers: impl IntoIterator<Item = &'a PeerAnswer>,
) -> BTreeMap<StateName, usize> {
    let mut hosts: BTreeMap<_, HashSet<&str>> = BTreeMap::new();
    for answer in answers {
        hosts.entry(state_name(&answer.name)).or_default().insert(&answer.host);
    }
    hosts.into_iter().map(|(state, hosts)| (state, hosts.len())).collect()
}

/// Returns the archives that enough hosts name, the newest first, and among archives of a slot the one
/// that most name.
fn choose(answers: Vec<PeerAnswer>, agree: usize) -> Vec<RemoteArchive> {
    let agreement = agreement(&answers);
    let hosts = |name: &ArchiveName| agreement.get(&state_name(name)).copied().unwrap_or_default();
    let mut groups: Vec<(ArchiveName, Vec<Look>)> = Vec::new();
    for PeerAnswer { name, look, .. } in answers {
        if hosts(&name) < agree {
            tracing::warn!(address = %look.address, "too few peers name this archive");
            continue;
        }
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, looks)) => looks.push(look),
            None => groups.push((name, vec![look])),
        }
    }
    groups.sort_by_key(|(name, looks)| std::cmp::Reverse((name.slot(), hosts(name), looks.len())));
    let archive = |(_, mut looks): (_, Vec<Look>)| {
        looks.sort_by_key(|look| look.connected_in + look.answered_in);
        let mut seen = HashSet::new();
        looks.retain(|look| seen.insert(look.address.to_string()));
        let mut looks =
            looks.into_iter().map(|Look { address, options, .. }| Entrant { address, options });
        let Entrant { address, options } = looks.next()?;
        let rivals = looks.collect();
        Some(RemoteArchive { rivals, ..RemoteArchive::new(address, options) })
    };
    groups.into_iter().filter_map(archive).collect()
}

impl RemoteArchive {
    /// Returns the archive at the fastest of its servers, which is found by a race. What that one has
    /// sent by then is kept for the first opening. Servers that failed are left out.
    ///
    /// # Errors
    ///
    /// If all of its servers fail.
    pub fn raced(&self, cancelled: &dyn Fn() -> bool) -> Result<Self, PassError> {
        let mut entrants =
            vec![Entrant { address: self.address.clone(), options: self.options.clone() }];
        entrants.extend(self.rivals.iter().cloned());
        while entrants.len() > 1 {
            match Remote::race(&entrants, Contest::default(), cancelled) {
                Ok(raced) => {
                    let mut failed = raced.failed.iter().copied().chain(std::iter::repeat(false));
                    let Entrant { address, options } = entrants[raced.winner].clone();
                    tracing::info!(
                        %address, servers = raced.rates.len(), bytes_per_second = ?raced.rates,
                        "the fastest peer was found"
                    );
                    entrants.retain(|entrant| {
                        let has_failed = failed.next().unwrap_or_default();
                        !has_failed && entrant.address != address
                    });
                    let start = Start::new(raced.start);
                    let expected = self.expected.clone();
                    return Ok(Self { address, options, expected, rivals: entrants, start });
                }
                Err(FetchError::Cancelled) => return Err(PassError::Cancelled),
                Err(error) if entrants.len() <= RUNNERS_MAX => return Err(error.into()),
                Err(_) => drop(entrants.drain(..RUNNERS_MAX)),
            }
        }
        let last = entrants.pop().map(|Entrant { address, options }| Self::new(address, options));
        Ok(Self { expected: self.expected.clone(), ..last.unwrap_or_else(|| self.clone()) })
    }

    /// Returns the archive at its next server after this error, if the first server is to blame: it has
    /// failed, is too slow, or its archive is bad. `None` if there is none: no server is tried twice.
    pub fn after(&self, error: &dyn Failure) -> Option<Self> {
        let is_its = error.family() == Family::BadArchive || error.code() == Code::Network;
        let next = if is_its { self.elsewhere() } else { None }?;
        tracing::warn!(%error, next = %next.address, "beginning anew with another peer");
        Some(next)
    }

    fn elsewhere(&self) -> Option<Self> {
        let mut rivals = self.rivals.clone();
        let Entrant { address, options } = (!rivals.is_empty()).then(|| rivals.remove(0))?;
        let expected = self.expected.clone();
        Some(Self { expected, rivals, ..Self::new(address, options) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use unsnap_fetch::{Address, Identity};

    use super::*;

    const HASHES: [&str; 2] =
        ["HwfKuUWRB5TgYYvoQHZQnnSf4FWMTmAW2Rx5zLyKPwyH", "11111111111111111111111111111111"];

    fn answer(host: &str, slot: u64, hash: usize, end: &str, ms: u64) -> PeerAnswer {
        let name = format!("snapshot-{slot}-{}.tar.{end}", HASHES[hash]);
        let look = Look {
            address: Address::parse(&format!("http://{host}:8899/{name}")).unwrap(),
            options: FetchOptions::default(),
            identity: Identity { bytes: 1, etag: None, last_modified: None },
            has_ranges: false,
            connected_in: Duration::from_millis(ms),
            answered_in: Duration::ZERO,
        };
        let host = host.to_owned();
        PeerAnswer { host, name: ArchiveName::parse(&name).unwrap(), look }
    }

    fn chosen(answers: Vec<PeerAnswer>, agree: usize) -> Vec<(String, Vec<String>)> {
        let host = |address: &Address| address.host().to_owned();
        let archives = choose(answers, agree).into_iter().map(|archive| {
            let rivals = archive.rivals.iter().map(|rival| host(&rival.address)).collect();
            (host(&archive.address), rivals)
        });
        archives.collect()
    }

    #[test]
    fn the_newest_archive_comes_first_and_the_nearest_server() {
        let answers = vec![
            answer("a", 100, 0, "zst", 5),
            answer("b", 200, 0, "zst", 9),
            answer("c", 200, 0, "zst", 3),
            answer("d", 200, 0, "lz4", 1),
        ];
        let expected = [("c", vec!["b"]), ("d", vec![]), ("a", vec![])];
        let expected = expected.map(|(first, rivals): (&str, Vec<&str>)| {
            (first.to_owned(), rivals.into_iter().map(str::to_owned).collect::<Vec<_>>())
        });
        assert_eq!(chosen(answers.clone(), 1), expected);
        // Whatever the compression, three hosts name the same state.
        assert_eq!(chosen(answers.clone(), 3), expected[..2]);
        assert!(chosen(answers, 4).is_empty());
    }

    #[test]
    fn a_host_counts_once_and_two_hashes_of_a_slot_are_two_archives() {
        let mut answers = vec![answer("a", 200, 1, "zst", 1), answer("a", 200, 1, "zst", 2)];
        assert!(chosen(answers.clone(), 2).is_empty());
        answers.extend([answer("b", 200, 0, "zst", 3), answer("c", 200, 0, "zst", 4)]);
        let all = chosen(answers, 1);
        assert_eq!((all[0].0.as_str(), all[1].0.as_str()), ("b", "a"), "{all:?}");
        assert!(all[1].1.is_empty(), "one address is one server");
    }

    proptest! {
        /// Whoever fails, each server is tried once, and all are.
        #[test]
        fn each_server_is_tried_once(hosts in prop::collection::hash_set("[a-z]{3}", 1..20)) {
            let answers = hosts.iter().map(|host| answer(host, 5, 0, "zst", 1)).collect();
            let mut tried = HashSet::new();
            let mut next = choose(answers, 1).pop();
            while let Some(archive) = next {
                prop_assert!(tried.insert(archive.address.host().to_owned()));
                next = archive.elsewhere();
            }
            prop_assert_eq!(tried, hosts);
        }
    }
}
