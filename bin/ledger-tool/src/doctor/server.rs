//! `ledger-tool doctor --url`: what the server of an archive can do.

use std::{fs, path::Path, time::Duration};

use serde::Serialize;
use unsnap_cli::{printer::Printer, settings, units};
use unsnap_layout::ArchiveName;
use unsnap_pass::{PassError, Probe, Remote};

use super::{
    args::DoctorArgs,
    check::{Check, Verdict},
    text,
};
use crate::{exit::MachineUnfit, settings::RequestError};

/// Longest time, and most bytes, that are received for the rate. Guesses: a connection takes some round
/// trips to become fast.
const RATE_TIME: Duration = Duration::from_secs(3);
const RATE_BYTES: u64 = 1 << 30;

/// Fewest bytes that tell a rate. A guess.
const RATE_BYTES_MIN: u64 = 1 << 20;

/// Rate below which a server is called slow: the one below which Agave looks for another peer
/// (`--minimal-snapshot-download-speed`).
const SLOW_BYTES_PER_SECOND: u64 = 10 << 20;

/// How much longer the end of an archive may take than its beginning, and the least such time, before
/// ranges are called forced: a cache in front of a server without ranges receives all that comes before.
/// Guesses.
const FORCED_FACTOR: u32 = 5;
const FORCED_LEAST: Duration = Duration::from_secs(1);

/// Where the kernel says how large a connection's receive buffer may become.
const RECEIVE_BUFFER: &str = "/proc/sys/net/ipv4/tcp_rmem";

/// The report as JSON, described by docs/schemas/doctor-url.v1.json.
#[derive(Serialize)]
struct Diagnosis<'a> {
    /// The worst verdict.
    verdict: Verdict,
    checks: &'a [Check],
    server: &'a Server,
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Server {
    /// Address after all redirects, without its query.
    address: String,
    redirects: usize,
    /// Whether the last part of the address is the name of a snapshot archive.
    named: bool,
    archive_bytes: u64,
    etag: Option<String>,
    last_modified: Option<String>,
    ranges: bool,
    connected_us: u64,
    answered_us: u64,
    end_answered_us: Option<u64>,
    received_bytes: u64,
    received_us: u64,
    /// Over one connection; `None` if too little came.
    bytes_per_second: Option<u64>,
    receive_buffer_bytes: Option<u64>,
}

pub fn run(url: &Path, args: &DoctorArgs, printer: &Printer) -> anyhow::Result<()> {
    let remote = settings::remote(url, &args.fetch, true)?.ok_or_else(|| {
        RequestError(format!("{} is not an address (http:// or https://)", url.display()))
    })?;
    let probe = Remote::probe(&remote.address, &remote.options, (RATE_TIME, RATE_BYTES), &|| false);
    let server = Server::of(&probe.map_err(PassError::from)?, receive_buffer());
    let checks = server.judge();
    let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or_default();
    let diagnosis = Diagnosis { verdict, checks: &checks, server: &server };
    printer.report(args.format, &diagnosis, |_| text::text(&checks, printer))?;
    if verdict.is_bad() { Err(MachineUnfit.into()) } else { Ok(()) }
}

/// Returns the largest receive buffer that the kernel gives a connection.
fn receive_buffer() -> Option<u64> {
    let text = fs::read_to_string(RECEIVE_BUFFER).ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Server {
    fn of(probe: &Probe, receive_buffer_bytes: Option<u64>) -> Self {
        let received_us = micros(probe.received_in).max(1);
        let rate = u128::from(probe.received) * 1_000_000 / u128::from(received_us);
        let slow = probe.received_in >= RATE_TIME;
        let tells = probe.received >= RATE_BYTES_MIN || slow;
        Self {
            address: probe.address.to_string(),
            redirects: probe.redirects,
            named: ArchiveName::parse(probe.address.file_name()).is_ok(),
            archive_bytes: probe.identity.bytes,
            etag: probe.identity.etag.clone(),
            last_modified: probe.identity.last_modified.clone(),
            ranges: probe.has_ranges,
            connected_us: micros(probe.connected_in),
            answered_us: micros(probe.answered_in),
            end_answered_us: probe.end_answered_in.map(micros),
            received_bytes: probe.received,
            received_us,
            bytes_per_second: tells.then(|| u64::try_from(rate).unwrap_or(u64::MAX)),
            receive_buffer_bytes,
        }
    }

    fn judge(&self) -> Vec<Check> {
        let checks = [self.name(), self.ranges(), self.identity(), self.latency(), self.rate()];
        checks.into_iter().chain(self.buffer()).map(|check| check.of(&self.address)).collect()
    }

    fn name(&self) -> Check {
        let redirects = match self.redirects {
            0 => String::new(),
            count => format!(", after {}", units::count(count as u64, "redirect")),
        };
        let check = Check::ok("archive", format!("{}{redirects}", units::size(self.archive_bytes)));
        if self.named {
            return check;
        }
        let check = check.but(
            Verdict::Warning,
            "it has not the name of a snapshot, against which its bank file is checked",
        );
        check.remedy("ask for /snapshot.tar.bz2, or for the archive by its own name")
    }

    fn ranges(&self) -> Check {
        let forced = FORCED_LEAST.max(Duration::from_micros(self.answered_us) * FORCED_FACTOR);
        match self.end_answered_us {
            Some(end) if Duration::from_micros(end) > forced => {
                let found = format!("answered, the end only after {}", units::seconds(end / 1000));
                let check = Check::ok("ranges", found).but(
                    Verdict::Warning,
                    "perhaps a cache receives all that comes before: several connections and resuming \
                     take long",
                );
                check.remedy("--connections 1")
            }
            _ if self.ranges => {
                Check::ok("ranges", "answered: several connections, and after a break the rest")
            }
            _ => Check::ok("ranges", "not answered").but(
                Verdict::Note,
                "one connection; after a break everything comes again, but is not decoded again",
            ),
        }
    }

    fn identity(&self) -> Check {
        let by = |what: &str| {
            Check::ok("identity", format!("by {what}"))
                .but(Verdict::Note, "an exchange under way is also noticed by what came before")
        };
        match (&self.etag, &self.last_modified) {
            (Some(_), _) => Check::ok("identity", "by its tag and its length"),
            (None, Some(_)) => by("the time of its change and its length"),
            (None, None) => by("its length only"),
        }
    }

    fn latency(&self) -> Check {
        let ms = |us: u64| format!("{}.{} ms", us / 1000, us % 1000 / 100);
        let found =
            format!("connected in {}, answered in {}", ms(self.connected_us), ms(self.answered_us));
        Check::ok("latency", found)
    }

    fn rate(&self) -> Check {
        let Some(rate) = self.bytes_per_second else {
            return Check::ok("rate", "unknown: the archive is too small to tell");
        };
        let check = Check::ok("rate", format!("{}/s over one connection", units::size(rate)));
        if rate < SLOW_BYTES_PER_SECOND {
            let check = check.but(Verdict::Warning, "a validator would look for another peer");
            check.remedy("ask another server")
        } else {
            check
        }
    }

    fn buffer(&self) -> Option<Check> {
        let buffer = self.receive_buffer_bytes?;
        let round_trip = u128::from(self.connected_us.max(1));
        let most = u128::from(buffer) * 1_000_000 / round_trip;
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let found = format!(
            "{}: at most {}/s over one connection at this latency",
            units::size(buffer),
            units::size(most)
        );
        let check = Check::ok("receive buffer", found);
        // What several connections bring together is not bounded by one buffer.
        Some(if most < 10 * SLOW_BYTES_PER_SECOND && !self.ranges {
            let check =
                check.but(Verdict::Note, "it may bound the rate of a server that is far away");
            check.remedy("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\"")
        } else {
            check
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            address: "http://a/x".to_owned(),
            redirects: 1,
            named: true,
            archive_bytes: 5 << 30,
            etag: Some("\"x\"".to_owned()),
            last_modified: None,
            ranges: true,
            connected_us: 20_000,
            answered_us: 30_000,
            end_answered_us: Some(40_000),
            received_bytes: 300 << 20,
            received_us: 3_000_000,
            bytes_per_second: Some(100 << 20),
            receive_buffer_bytes: Some(32 << 20),
        }
    }

    fn verdict(server: &Server, id: &str) -> Verdict {
        let checks = server.judge();
        assert!(checks.iter().all(|check| check.path.as_deref() == Some("http://a/x")));
        checks.iter().find(|check| check.id == id).unwrap().verdict
    }

    #[test]
    fn a_good_server_is_good_and_each_flaw_is_told() {
        let good = server();
        assert!(
            good.judge().iter().all(|check| check.verdict == Verdict::Ok),
            "{:?}",
            good.judge()
        );
        let agave = Server { ranges: false, end_answered_us: None, etag: None, ..server() };
        assert_eq!(verdict(&agave, "ranges"), Verdict::Note);
        assert_eq!(verdict(&agave, "identity"), Verdict::Note);
        let forced = Server { end_answered_us: Some(1_100_000), ..server() };
        assert_eq!(verdict(&forced, "ranges"), Verdict::Warning);
        let far = Server { answered_us: 300_000, ..forced };
        assert_eq!(verdict(&far, "ranges"), Verdict::Ok, "everything takes long there");
        let slow = Server { bytes_per_second: Some((10 << 20) - 1), ..server() };
        assert_eq!(verdict(&slow, "rate"), Verdict::Warning);
        let small = Server { bytes_per_second: None, ..server() };
        assert_eq!(verdict(&small, "rate"), Verdict::Ok);
        let unnamed = Server { named: false, ..server() };
        assert_eq!(verdict(&unnamed, "archive"), Verdict::Warning);
        let narrow = Server { receive_buffer_bytes: Some(1 << 20), ..server() };
        assert_eq!(verdict(&narrow, "receive buffer"), Verdict::Ok, "several connections");
        let narrow = Server { ranges: false, ..narrow };
        assert_eq!(verdict(&narrow, "receive buffer"), Verdict::Note);
        let unknown = Server { receive_buffer_bytes: None, ..server() };
        assert!(unknown.judge().iter().all(|check| check.id != "receive buffer"));
    }
}
