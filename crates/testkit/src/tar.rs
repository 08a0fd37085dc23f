//! Tar archives built by hand: good, odd and hostile ones.
//!
//! Headers are written field by field instead of by a tar library, so that every byte can be made
//! wrong on purpose. [`Header`] is one 512-byte block, [`TarBuilder`] a sequence of blocks,
//! [`snapshot_tar`] the smallest archive that is a valid snapshot.
//!
//! ```
//! use unsnap_testkit::tar::{Header, TarBuilder};
//!
//! let tar = TarBuilder::new()
//!     .file("version", b"1.2.0")
//!     .account("accounts/10.3", &[0; 136])
//!     .entry(Header::account("accounts/10.4", 136).corrupt_checksum(), &[0; 136])
//!     .finish();
//! assert_eq!(tar.len(), 3 * 1024 + 1024);
//! ```

mod header;

pub use header::{BLOCK_BYTES, Dialect, Header, field};

use crate::bank;

/// A tar archive in memory, appended to entry by entry.
#[derive(Clone, Debug, Default)]
pub struct TarBuilder {
    bytes: Vec<u8>,
}

impl TarBuilder {
    /// Creates an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an account file with the bare header of Agave.
    #[must_use]
    pub fn account(self, path: &str, contents: &[u8]) -> Self {
        self.entry(Header::account(path, contents.len() as u64), contents)
    }

    /// Appends an ordinary file with a GNU header.
    #[must_use]
    pub fn file(self, path: &str, contents: &[u8]) -> Self {
        self.file_in(Dialect::Gnu, path, contents)
    }

    /// Appends an ordinary file with a header of any dialect.
    #[must_use]
    pub fn file_in(self, dialect: Dialect, path: &str, contents: &[u8]) -> Self {
        self.entry(Header::new(dialect, b'0', path, contents.len() as u64), contents)
    }

    /// Appends a directory.
    #[must_use]
    pub fn directory(self, path: &str) -> Self {
        self.entry(Header::new(Dialect::Gnu, b'5', path, 0), &[])
    }

    /// Appends a symbolic link.
    #[must_use]
    pub fn symlink(self, path: &str, target: &str) -> Self {
        let header = Header::new(Dialect::Gnu, b'2', path, 0).link_name(target.as_bytes());
        self.entry(header, &[])
    }

    /// Appends a hard link to an earlier entry.
    #[must_use]
    pub fn hard_link(self, path: &str, target: &str) -> Self {
        let header = Header::new(Dialect::Gnu, b'1', path, 0).link_name(target.as_bytes());
        self.entry(header, &[])
    }

    /// Appends a GNU `L` entry: the path of the next entry, of any length.
    #[must_use]
    pub fn long_name(self, path: &[u8]) -> Self {
        self.long(b'L', path)
    }

    /// Appends a GNU `K` entry: the link target of the next entry, of any length.
    #[must_use]
    pub fn long_link(self, target: &[u8]) -> Self {
        self.long(b'K', target)
    }

    /// Appends PAX records for the next entry.
    #[must_use]
    pub fn pax(self, records: &[(&str, &str)]) -> Self {
        let records: Vec<u8> = records.iter().flat_map(|(k, v)| pax_record(k, v)).collect();
        self.pax_raw(b'x', &records)
    }

    /// Appends PAX records for all following entries.
    #[must_use]
    pub fn pax_global(self, records: &[(&str, &str)]) -> Self {
        let records: Vec<u8> = records.iter().flat_map(|(k, v)| pax_record(k, v)).collect();
        self.pax_raw(b'g', &records)
    }

    /// Appends a PAX entry (`b'x'`: next entry, `b'g'`: all following) with exactly these bytes.
    #[must_use]
    pub fn pax_raw(self, kind: u8, records: &[u8]) -> Self {
        let name = if kind == b'g' { "pax_global_header" } else { "PaxHeaders/0" };
        self.entry(Header::new(Dialect::Ustar, kind, name, records.len() as u64), records)
    }

    /// Appends a header and contents padded to whole blocks. The size in the header is not
    /// adjusted, so it may be wrong on purpose.
    #[must_use]
    pub fn entry(mut self, header: Header, contents: &[u8]) -> Self {
        self.bytes.extend_from_slice(&header.finish());
        self.bytes.extend_from_slice(contents);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        self
    }

    /// Appends bytes as they are, without padding.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends blocks of zeros. Two of them end an archive.
    #[must_use]
    pub fn zero_blocks(mut self, count: usize) -> Self {
        self.bytes.resize(self.bytes.len() + count * BLOCK_BYTES, 0);
        self
    }

    /// Returns the length so far, which is the offset of the next append.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the archive with the two zero blocks that end it.
    pub fn finish(self) -> Vec<u8> {
        self.zero_blocks(2).into_bytes()
    }

    /// Returns the archive as it is, without an end.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn long(self, kind: u8, text: &[u8]) -> Self {
        let text = [text, b"\0"].concat();
        let header = Header::new(Dialect::Gnu, kind, "././@LongLink", text.len() as u64);
        self.entry(header, &text)
    }
}

/// Returns one PAX record, `<length> <key>=<value>\n`, where the length counts its own digits.
pub fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

/// Returns the smallest archive that is a valid snapshot of `slot`: version, status cache, bank
/// file (with a lattice hash made from the slot, see [`bank`]) and the given account files.
pub fn snapshot_tar(slot: u64, storages: &[(u64, u32, Vec<u8>)]) -> Vec<u8> {
    let lengths = storages.iter().map(|(slot, id, bytes)| (*slot, *id, bytes.len() as u64));
    let bank_file = bank::bank_file(&bank::BankSpec {
        slot,
        lattice_hash: &bank::lattice_hash(slot),
        capitalization: bank::CAPITALIZATION,
        storages: &lengths.collect::<Vec<_>>(),
        vote_accounts: 1,
        seed: slot,
    });
    let head = snapshot_head(slot, &bank_file, &bank::status_cache(slot, 0, slot));
    storages
        .iter()
        .fold(head, |tar, (slot, id, bytes)| tar.account(&account_path(*slot, *id), bytes))
        .finish()
}

/// Returns the entries before the account files: the version, and the `snapshots` group in Agave's
/// order.
pub fn snapshot_head(slot: u64, bank_file: &[u8], status_cache: &[u8]) -> TarBuilder {
    TarBuilder::new()
        .file("version", VERSION)
        .directory("snapshots/")
        .file("snapshots/status_cache", status_cache)
        .directory(&format!("snapshots/{slot}"))
        .file(&format!("snapshots/{slot}/{slot}"), bank_file)
}

/// Returns the path of an account file within an archive.
pub fn account_path(slot: u64, id: u32) -> String {
    format!("accounts/{slot}.{id}")
}

/// Contents of the `version` file: the only existing version.
pub const VERSION: &[u8] = b"1.2.0";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use tar::EntryType;

    /// Returns path, type and contents of all entries, read by the `tar` crate.
    fn entries(tar: &[u8]) -> Vec<(String, EntryType, Vec<u8>)> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut contents = Vec::new();
            entry.read_to_end(&mut contents).unwrap();
            (path, entry.header().entry_type(), contents)
        });
        entries.collect()
    }

    #[test]
    fn snapshot_is_read_by_the_tar_crate() {
        let storages = vec![(90, 7, vec![1; 1000]), (100, 8, vec![2; 512])];
        let read = entries(&snapshot_tar(100, &storages));
        let names: Vec<&str> = read.iter().map(|(path, ..)| path.as_str()).collect();
        let expected = [
            "version",
            "snapshots/",
            "snapshots/status_cache",
            "snapshots/100",
            "snapshots/100/100",
            "accounts/90.7",
            "accounts/100.8",
        ];
        assert_eq!(names, expected);
        assert_eq!(read[0].2, VERSION);
        assert_eq!(read[5].2, storages[0].2);
        assert_eq!(read[6].2, storages[1].2);
    }

    #[test]
    fn long_names_and_pax_records_are_understood() {
        let long = "d/".repeat(200) + "file";
        let tar = TarBuilder::new()
            .long_name(long.as_bytes())
            .file("cut", b"a")
            .pax(&[("path", &long), ("size", "3")])
            .entry(Header::new(Dialect::Ustar, b'0', "other", 0), b"abc")
            .pax_global(&[("comment", "x")])
            .file_in(Dialect::V7, "old", b"z")
            .finish();
        let read = entries(&tar);
        assert_eq!(read[0], (long.clone(), EntryType::Regular, b"a".to_vec()));
        assert_eq!(read[1], (long, EntryType::Regular, b"abc".to_vec()));
        assert_eq!(read.last().unwrap().2, b"z");
    }

    #[test]
    fn links_ustar_prefixes_and_binary_sizes_are_understood() {
        let prefixed = Header::new(Dialect::Ustar, b'0', "name", 0).prefix(b"some/where");
        let binary = Header::account("accounts/1.1", 0).size_binary(4);
        let tar = TarBuilder::new()
            .symlink("soft", "target")
            .hard_link("hard", "soft")
            .entry(prefixed, &[])
            .entry(binary, b"data")
            .finish();
        let read = entries(&tar);
        assert_eq!(read[0].1, EntryType::Symlink);
        assert_eq!(read[1].1, EntryType::Link);
        assert_eq!(read[2].0, "some/where/name");
        assert_eq!(read[3].2, b"data");
    }

    #[test]
    fn corrupt_checksums_are_refused() {
        let good = Header::account("accounts/1.1", 0);
        for bad in [good.clone().corrupt_checksum(), good.clone().raw_checksum(*b"??????\0 ")] {
            let tar = TarBuilder::new().entry(bad, &[]).finish();
            assert!(tar::Archive::new(&tar[..]).entries().unwrap().any(|entry| entry.is_err()));
        }
        assert_eq!(entries(&TarBuilder::new().entry(good, &[]).finish()).len(), 1);
    }

    #[test]
    fn pax_lengths_count_themselves() {
        assert_eq!(pax_record("path", "x"), b"9 path=x\n");
        assert_eq!(pax_record("path", "").len(), 8);
        for length in 80..110 {
            let record = pax_record("path", &"x".repeat(length));
            let stated: usize = String::from_utf8(record.clone())
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            assert_eq!(stated, record.len());
        }
    }
}
