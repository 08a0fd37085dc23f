//! Errors of fetching.

use unsnap_failure::{Code, Failure, Family, Remedy};

use crate::address::{Address, NotAnAddress};

/// Fetching an archive failed. Addresses are named without their queries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The address, a header or a certificate of the request is unusable.
    #[error("{address}: {reason}")]
    Address {
        /// The address as it was given, or what else is unusable.
        address: String,
        /// Reason.
        reason: String,
    },
    /// No connection could be made.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The address.
        address: Address,
        /// Reason.
        reason: String,
    },
    /// The server answered that it does not send the archive.
    #[error("{address}: the server answered {status}")]
    Status {
        /// The address.
        address: Address,
        /// Status code and reason.
        status: String,
    },
    /// The proxy does not connect to the server.
    #[error("{address}: the proxy {proxy} answered {status}")]
    Proxy {
        /// The address.
        address: Address,
        /// Host and port of the proxy.
        proxy: String,
        /// Status code and reason.
        status: String,
    },
    /// The server's answer is unusable.
    #[error("{address}: {reason}")]
    Protocol {
        /// The address.
        address: Address,
        /// Reason.
        reason: String,
    },
    /// The connection broke, or stayed silent.
    #[error("{address}: at byte {offset}: {reason}")]
    Broken {
        /// The address.
        address: Address,
        /// Offset in the archive of the first byte that did not arrive.
        offset: u64,
        /// Reason.
        reason: String,
    },
    /// The connection brought so few bytes that it was given up.
    #[error("{address}: at byte {offset}: only {bytes} bytes came within {seconds} s")]
    Slow {
        /// The address.
        address: Address,
        /// Offset in the archive of the first byte that did not arrive.
        offset: u64,
        /// Bytes that came.
        bytes: u64,
        /// Time that they took.
        seconds: u64,
    },
    /// The server is so slow that beginning anew at another one takes less time.
    #[error(
        "{address} sends {rate} bytes a second: beginning anew at {other}, which sends {other_rate}, \
         takes less time"
    )]
    Outpaced {
        /// The address.
        address: Address,
        /// Its rate in bytes per second.
        rate: u64,
        /// Address of the faster server.
        other: Address,
        /// That one's rate.
        other_rate: u64,
    },
    /// The archive on the server is not the one that it was at first.
    #[error("{address} has changed on the server: {what} was {expected} and is {found}")]
    Changed {
        /// The address.
        address: Address,
        /// What is different.
        what: &'static str,
        /// At first.
        expected: String,
        /// Now.
        found: String,
    },
    /// The address leads to an archive with another name than the expected ones.
    #[error("{address} is not the expected archive: {expected}")]
    OtherName {
        /// The address, after all redirects.
        address: Address,
        /// The expected names.
        expected: String,
    },
    /// Not enough peers name the same archive.
    #[error("{}", disagreement(*hosts, *agree))]
    Disagreement {
        /// Number of peers that were asked.
        hosts: usize,
        /// Number that must name the same slot and hash.
        agree: usize,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {reason}")]
    Thread {
        /// Reason.
        reason: String,
    },
    /// The run is being aborted.
    #[error("fetching was cancelled")]
    Cancelled,
}

fn disagreement(hosts: usize, agree: usize) -> String {
    match agree {
        0 | 1 => format!("none of {hosts} peers sends a snapshot that is wanted"),
        _ => format!("of {hosts} peers no {agree} hosts name the same slot and hash"),
    }
}

impl FetchError {
    /// Returns whether another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::Slow { .. } => true,
            // Too many requests, and faults of the server's own.
            Self::Status { status, .. } | Self::Proxy { status, .. } => {
                status.starts_with('5') || status.starts_with("429") || status.starts_with("408")
            }
            _ => false,
        }
    }
}

impl From<NotAnAddress> for FetchError {
    fn from(NotAnAddress { address, reason }: NotAnAddress) -> Self {
        Self::Address { address, reason }
    }
}

impl Failure for FetchError {
    fn family(&self) -> Family {
        match self {
            Self::Address { .. } => Family::Request,
            Self::Changed { .. } | Self::OtherName { .. } => Family::BadArchive,
            Self::Cancelled => Family::Cancelled,
            _ => Family::Environment,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Address { .. } => Code::Request,
            Self::Changed { .. } => Code::ArchiveChanging,
            Self::OtherName { .. } => Code::WrongArchive,
            Self::Thread { .. } => Code::Threads,
            Self::Cancelled => Code::Cancelled,
            _ => Code::Network,
        }
    }

    fn archive(&self) -> Option<&str> {
        match self {
            Self::Connect { address, .. }
            | Self::Status { address, .. }
            | Self::Proxy { address, .. }
            | Self::Protocol { address, .. }
            | Self::Broken { address, .. }
            | Self::Slow { address, .. }
            | Self::Outpaced { address, .. }
            | Self::Changed { address, .. } => address.as_shown(),
            _ => None,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Disagreement { .. } => Some(Remedy::advice(
                "ask more peers; `ledger-tool doctor --url` tells what one sends",
            )),
            Self::Changed { .. } => Some(Remedy::advice(
                "start again: servers replace archives, and two nodes' archives of one name differ",
            )),
            Self::OtherName { .. } => Some(Remedy::advice(
                "ask for the expected archive by its own name: a server redirects to its newest one",
            )),
            Self::Status { status, .. } | Self::Proxy { status, .. }
                if status.starts_with("407") =>
            {
                Some(Remedy::advice(
                    "give the proxy's user and password: http_proxy=http://USER:PASSWORD@HOST:PORT, \
                     and https_proxy",
                ))
            }
            Self::Status { status, .. } if status.starts_with("404") => Some(Remedy::advice(
                "ask for /snapshot.tar.bz2, from which a validator redirects to its newest archive",
            )),
            _ => None,
        }
    }
}
