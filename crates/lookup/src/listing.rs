//! Listing of an archive's accounts.

use std::{io::Write as IoWrite, num::NonZeroUsize, ops::ControlFlow};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use unsnap_layout::append_vec::RecordHeader;
use unsnap_pass::{
    Archive, Archives, Handles, Options, PassError,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_unpack::DigestUse;

use crate::{
    AccountFilter, LookupError, Superseded,
    records::{Batch, Records, Storage},
    superseded::superseded,
    versions::checked,
};

/// A query for accounts.
#[derive(Clone, Debug)]
pub struct AccountsQuery {
    /// Which records.
    pub filter: AccountFilter,
    /// List only the newest version of each account, if it has lamports. This takes another pass
    /// over the archive. Otherwise every record is listed, even superseded ones.
    pub newest: bool,
    /// Format of a record.
    pub format: AccountsFormat,
    /// Write the data as well, in base64.
    pub with_data: bool,
    /// Most records to list; `None` for all. The pass ends with the last of them, and the rest of
    /// the archives is neither read nor checked.
    pub limit: Option<u64>,
    /// Memory for finding the newest versions in bytes; the rest goes to an unnamed temporary file.
    pub memory_bytes_max: usize,
    /// Number of threads that format records.
    pub threads: NonZeroUsize,
}

/// Format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountsFormat {
    /// Columns with a line of names, for people.
    Text,
    /// Comma-separated values with a line of names. No value contains commas or quotes.
    Csv,
    /// One array of JSON objects.
    Json,
    /// One JSON object per line.
    JsonLines,
}

/// Counts of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccountsListed {
    /// Records read: all of the archives, unless a limit ended the pass.
    pub records: u64,
    /// Records listed.
    pub listed: u64,
    /// Whether the limit ended the pass, so that there may be more.
    pub limited: bool,
}

/// Line of names.
const CSV_NAMES: &str =
    "pubkey,lamports,owner,executable,rent_epoch,data_bytes,slot,storage_id,offset";

/// Lists the accounts of a snapshot on `out`, in the order of its archives. The list is valid only if this succeeds without
/// reaching a limit: until then, an archive may prove bad.
pub fn list_accounts(
    archives: &Archives,
    query: &AccountsQuery,
    out: &mut (dyn IoWrite + Send),
    options: &Options,
    handles: &Handles,
) -> Result<AccountsListed, LookupError> {
    let archives = archives.as_slice();
    let hidden = if query.newest {
        let AccountsQuery { memory_bytes_max, threads, .. } = *query;
        Some(superseded(archives, memory_bytes_max, threads, options, handles)?)
    } else {
        None
    };
    let mut hidden = hidden.into_iter().flatten();
    let mut lines = Lines { out, query, listed: AccountsListed::default() };
    lines.begin()?;
    for archive in archives {
        list(archive, query, hidden.next(), &mut lines, options, handles)?;
        if lines.listed.limited {
            break;
        }
    }
    lines.end()
}

/// Lists the accounts of one archive.
fn list(
    archive: &Archive,
    query: &AccountsQuery,
    hidden: Option<Superseded>,
    lines: &mut Lines<'_>,
    options: &Options,
    handles: &Handles,
) -> Result<(), LookupError> {
    let times = Times::default();
    let (walked, written) = ordered::run(
        "list",
        query.threads,
        &times,
        || Writer::new(query, hidden.as_ref()),
        |writer: &mut Writer<'_>, batch: Batch| writer.batch(&batch),
        |text| lines.add(&text),
        |to: Submit<'_, Batch, Text>| {
            let mut records = Records::new(|batch| match to.submit(batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(ordered::Stopped) => ControlFlow::Break(()),
            });
            let digest = match hidden {
                Some(_) => DigestUse::Report(DigestKind::Xxh3),
                None => DigestUse::None,
            };
            checked(archive, digest, options, handles).tap(&mut records)
        },
    )
    .map_err(PassError::thread)?;
    match written {
        Ok(()) => {}
        // The walk has ended early, as it should.
        Err(Ended::Enough) => return Ok(()),
        Err(Ended::Output(error)) => return Err(LookupError::Output { error }),
    }
    let report = walked?;
    hidden.map_or(Ok(()), |hidden| hidden.check_unchanged(archive, report.digest.as_deref()))
}

/// Formatted records.
struct Text {
    bytes: Vec<u8>,
    /// End of each record in the bytes.
    ends: Vec<usize>,
    records: u64,
}

/// Why a listing ends before the archive.
enum Ended {
    /// Enough records are listed.
    Enough,
    /// The output takes no more.
    Output(std::io::Error),
}

/// Writes the listing of all archives, in its format and up to its limit.
struct Lines<'a> {
    out: &'a mut (dyn IoWrite + Send),
    query: &'a AccountsQuery,
    listed: AccountsListed,
}

impl Lines<'_> {
    fn begin(&mut self) -> Result<(), LookupError> {
        let data = |name| if self.query.with_data { name } else { "" };
        let written = match self.query.format {
            AccountsFormat::Csv => writeln!(self.out, "{CSV_NAMES}{}", data(",data")),
            AccountsFormat::Text => {
                let [lamports, bytes, slot] = ["lamports", "data_bytes", "slot"];
                let data = data("                                         data");
                writeln!(
                    self.out,
                    "{:<44} {lamports:>20} {bytes:>10} {slot:>10}  owner{data}",
                    "pubkey"
                )
            }
            AccountsFormat::Json | AccountsFormat::JsonLines => Ok(()),
        };
        written.map_err(|error| LookupError::Output { error })
    }

    fn add(&mut self, text: &Text) -> Result<(), Ended> {
        let left = self.query.limit.map_or(u64::MAX, |limit| limit - self.listed.listed);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(text.ends.len());
        let end = count.checked_sub(1).map_or(0, |last| text.ends[last]);
        let mut bytes = &text.bytes[..end];
        if self.query.format == AccountsFormat::Json && self.listed.listed == 0 && end > 0 {
            // In place of the comma.
            self.out.write_all(b"[").map_err(Ended::Output)?;
            bytes = &bytes[1..];
        }
        self.out.write_all(bytes).map_err(Ended::Output)?;
        self.listed.records += text.records;
        self.listed.listed += count as u64;
        if self.query.limit == Some(self.listed.listed) {
            self.listed.limited = true;
            return Err(Ended::Enough);
        }
        Ok(())
    }

    fn end(self) -> Result<AccountsListed, LookupError> {
        let end = match (self.query.format, self.listed.listed) {
            (AccountsFormat::Json, 0) => "[]\n",
            (AccountsFormat::Json, _) => "\n]\n",
            _ => "",
        };
        let written = self.out.write_all(end.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| LookupError::Output { error })?;
        Ok(self.listed)
    }
}

/// Formatter of records.
struct Writer<'a> {
    query: &'a AccountsQuery,
    /// Records to leave out.
    hidden: Option<&'a Superseded>,
    /// The last owner: consecutive records often have the same one.
    owner: ([u8; 32], Base58),
}

impl<'a> Writer<'a> {
    fn new(query: &'a AccountsQuery, hidden: Option<&'a Superseded>) -> Self {
        let owner = [0; 32];
        Self { query, hidden, owner: (owner, Base58::of(&owner)) }
    }

    fn batch(&mut self, batch: &Batch) -> Text {
        let mut text = Text { bytes: Vec::new(), ends: Vec::new(), records: 0 };
        let (query, storage) = (self.query, batch.storage);
        let in_slot = query.filter.includes_slot(storage.slot);
        batch.each(|position, header, data| {
            text.records += 1;
            if in_slot
                && query.filter.includes(header, data)
                && !self.hidden.is_some_and(|hidden| hidden.contains(storage, position))
            {
                self.record(&mut text.bytes, storage, position, header, data);
                text.ends.push(text.bytes.len());
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
            self.owner = (header.owner, Base58::of(&header.owner));
        }
        let RecordHeader { lamports, rent_epoch, data_len, .. } = *header;
        let pubkey = Base58::of(&header.pubkey);
        let (pubkey, owner) = (pubkey.text(), self.owner.1.text());
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
            AccountsFormat::Text => {
                text.write(format_args!(
                    "{pubkey:<44} {lamports:>20} {data_len:>10} {slot:>10}  {owner}"
                ));
                if self.query.with_data {
                    text.write(format_args!("{:1$}  ", "", 44 - owner.len()));
                    text.base64(data);
                }
            }
            AccountsFormat::Json | AccountsFormat::JsonLines => {
                if self.query.format == AccountsFormat::Json {
                    text.write(format_args!(",\n  "));
                }
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
        if self.query.format != AccountsFormat::Json {
            text.write(format_args!("\n"));
        }
    }
}

/// A key in base58.
struct Base58 {
    text: [u8; five8::BASE58_ENCODED_32_MAX_LEN],
    length: u8,
}

impl Base58 {
    fn of(key: &[u8; 32]) -> Self {
        let mut text = [0; five8::BASE58_ENCODED_32_MAX_LEN];
        let length = five8::encode_32(key, &mut text);
        Self { text, length }
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
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
