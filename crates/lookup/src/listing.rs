//! Listing of an archive's accounts.

use std::{
    io::Write as IoWrite, num::NonZeroUsize, ops::ControlFlow, ops::RangeInclusive, sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use unsnap_failure::{Knob, Remedy};
use unsnap_layout::append_vec::RecordHeader;
use unsnap_pass::{
    Archive, Handles, Options, PassError,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_unpack::DigestUse;
use unsnap_verify::accounts::{AccountsError, entries::Place};

use crate::{
    LookupError,
    records::{Batch, Records, Storage},
    versions::{Remember, Versions, checked, newest},
};

/// A query for accounts.
#[derive(Clone, Debug)]
pub struct AccountsQuery {
    /// Owners of the accounts; empty for all.
    pub owners: Vec<[u8; 32]>,
    /// Size of the accounts' data in bytes.
    pub data_len: RangeInclusive<u64>,
    /// List only the newest version of each account, if it has lamports. This takes another pass
    /// over the archive. Otherwise every record is listed, even superseded ones.
    pub newest: bool,
    /// Format of a record.
    pub format: AccountsFormat,
    /// Write the data as well, in base64.
    pub with_data: bool,
    /// Memory for finding the newest versions in bytes; the rest goes to an unnamed temporary file.
    pub memory_bytes_max: usize,
    /// Number of threads that format records.
    pub threads: NonZeroUsize,
}

/// Format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountsFormat {
    /// Comma-separated values with a line of names. No value contains commas or quotes.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

/// Counts of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AccountsListed {
    /// Records in the archive.
    pub records: u64,
    /// Records listed.
    pub listed: u64,
}

/// Line of names.
const CSV_NAMES: &str =
    "pubkey,lamports,owner,executable,rent_epoch,data_bytes,slot,storage_id,offset";

/// Lists accounts on `out` in the order of the archive. The list is valid only if this succeeds:
/// until then, the archive may prove bad.
pub fn list_accounts(
    archive: &Archive,
    query: &AccountsQuery,
    out: &mut (dyn IoWrite + Send),
    options: &Options,
    handles: &Handles,
) -> Result<AccountsListed, LookupError> {
    let hidden = if query.newest {
        if *archive == Archive::Stdin {
            let reason = "finding the newest versions takes two passes, and a stream allows one";
            let remedy = Remedy::Set(Knob::Newest, "give a file, or go without {}");
            return Err(PassError::request_with(reason, remedy).into());
        }
        Some(hidden(archive, query, options, handles)?)
    } else {
        None
    };
    let (hidden, first_digest) = hidden.unzip();
    let hidden = hidden.map(Arc::new);
    if query.format == AccountsFormat::Csv {
        let data = if query.with_data { ",data" } else { "" };
        writeln!(out, "{CSV_NAMES}{data}").map_err(|error| LookupError::Output { error })?;
    }
    let mut listed = AccountsListed { records: 0, listed: 0 };
    let consume = |text: Text| {
        listed.records += text.records;
        listed.listed += text.listed;
        out.write_all(&text.bytes).map_err(|error| LookupError::Output { error })
    };
    let times = Times::default();
    let (walked, written) = ordered::run(
        "list",
        query.threads,
        &times,
        || Writer::new(query, hidden.as_deref().map(Vec::as_slice)),
        |writer: &mut Writer<'_>, batch: Batch| writer.batch(&batch),
        consume,
        |to: Submit<'_, Batch, Text>| {
            let mut records = Records::new(|batch| match to.submit(batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(ordered::Stopped) => ControlFlow::Break(()),
            });
            let digest = match first_digest {
                Some(_) => DigestUse::Report(DigestKind::Xxh3),
                None => DigestUse::None,
            };
            checked(archive, digest, options, handles)?.tap(&mut records)
        },
    )
    .map_err(PassError::thread)?;
    written?;
    out.flush().map_err(|error| LookupError::Output { error })?;
    let report = walked?;
    if let (Archive::File(path), Some(first)) = (archive, first_digest)
        && first != report.digest
    {
        return Err(LookupError::Changed { path: path.clone() });
    }
    Ok(listed)
}

/// Returns the places of all records that are not the newest version of an existing account, in
/// order, and the archive's digest.
fn hidden(
    archive: &Archive,
    query: &AccountsQuery,
    options: &Options,
    handles: &Handles,
) -> Result<(Vec<Place>, Option<String>), LookupError> {
    let name = archive.display_name();
    let mut versions = Versions::new(query.memory_bytes_max);
    let remember =
        Remember { archive, options, side: 0, seed: None, threads: query.threads, handles };
    let report = remember.all(&mut versions, &mut ())?;
    let limit = query.memory_bytes_max / size_of::<Place>();
    let mut hidden = Vec::new();
    versions.each(&name, |account| -> Result<(), LookupError> {
        let exists = newest(&name, account)?.is_some_and(|newest| newest.lamports > 0);
        let older = account.len() - usize::from(exists);
        hidden.extend(account[..older].iter().map(|version| version.place));
        if hidden.len() > limit {
            let error = AccountsError::PartitionTooLarge { entries: hidden.len(), limit };
            return Err(LookupError::accounts(&name, error));
        }
        Ok(())
    })?;
    hidden.sort_unstable();
    Ok((hidden, report.digest))
}

/// Formatted records.
struct Text {
    bytes: Vec<u8>,
    records: u64,
    listed: u64,
}

/// Formatter of records.
struct Writer<'a> {
    query: &'a AccountsQuery,
    /// Places of records to leave out, in order.
    hidden: Option<&'a [Place]>,
    /// The last owner in base58: consecutive records often have the same one.
    owner: ([u8; 32], String),
}

impl<'a> Writer<'a> {
    fn new(query: &'a AccountsQuery, hidden: Option<&'a [Place]>) -> Self {
        let owner = [0; 32];
        Self { query, hidden, owner: (owner, bs58::encode(owner).into_string()) }
    }

    fn batch(&mut self, batch: &Batch) -> Text {
        let mut text = Text { bytes: Vec::new(), records: 0, listed: 0 };
        batch.each(|position, header, data| {
            text.records += 1;
            let place = Place::new(batch.storage.number, position);
            let is_hidden = self.hidden.is_some_and(|hidden| hidden.binary_search(&place).is_ok());
            let query = self.query;
            let owned = query.owners.is_empty() || query.owners.contains(&header.owner);
            if !is_hidden && owned && query.data_len.contains(&header.data_len) {
                text.listed += 1;
                self.record(&mut text.bytes, batch.storage, position, header, data);
            }
        });
        text
    }

    fn record(
        &mut self,
        text: &mut Vec<u8>,
        storage: Storage,
        offset: u64,
        header: &RecordHeader,
        data: &[u8],
    ) {
        if self.owner.0 != header.owner {
            self.owner = (header.owner, bs58::encode(header.owner).into_string());
        }
        let RecordHeader { lamports, rent_epoch, data_len, .. } = *header;
        let (pubkey, owner) = (bs58::encode(header.pubkey).into_string(), &self.owner.1);
        let (executable, Storage { slot, id, .. }) = (header.executable == 1, storage);
        let mut text = Line(text);
        match self.query.format {
            AccountsFormat::Csv => {
                text.write(format_args!(
                    "{pubkey},{lamports},{owner},{executable},{rent_epoch},{data_len},{slot},{id},{offset}"
                ));
                if self.query.with_data {
                    text.write(format_args!(","));
                    text.base64(data);
                }
            }
            AccountsFormat::JsonLines => {
                text.write(format_args!(
                    "{{\"pubkey\":\"{pubkey}\",\"lamports\":{lamports},\"owner\":\"{owner}\",\
                     \"executable\":{executable},\"rent_epoch\":{rent_epoch},\"data_bytes\":{data_len},\
                     \"slot\":{slot},\"storage_id\":{id},\"offset\":{offset}"
                ));
                if self.query.with_data {
                    text.write(format_args!(",\"data\":\""));
                    text.base64(data);
                    text.write(format_args!("\""));
                }
                text.write(format_args!("}}"));
            }
        }
        text.write(format_args!("\n"));
    }
}

/// Text in memory.
struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.0.write_fmt(text);
        debug_assert!(written.is_ok(), "memory takes everything");
    }

    fn base64(&mut self, data: &[u8]) {
        let begin = self.0.len();
        // Four characters for three bytes. Data has at most 10 MiB.
        self.0.resize(begin + data.len().div_ceil(3) * 4, 0);
        let encoded = STANDARD.encode_slice(data, &mut self.0[begin..]);
        debug_assert_eq!(encoded.ok(), Some(self.0.len() - begin), "padded base64 has this length");
    }
}
