//! Reading back of an export's files: bytes, counts and rows.

use std::{fs::File, num::NonZeroUsize, ops::ControlFlow, os::fd::OwnedFd};

use unsnap_layout::append_vec::RecordHeader;
use unsnap_pass::{
    CancelToken, Handles, PassError, Phase,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_table::{Cell, Columns, Digest, Schema, TableKind, read_rows};
use unsnap_verify::lattice::{LatticeHash, LatticeHasher};

use crate::{ExportError, FileFacts, Manifest, Problem, directory::Directory, passes::CANCELLED};

/// Size of a read of a file's bytes.
const READ_BYTES: usize = 1 << 20;

/// What the rows of files add up to.
#[derive(Default)]
struct Sums {
    digest: Digest,
    lamports: u128,
    /// Hash of the accounts.
    hash: Option<Box<LatticeHash>>,
}

/// Reads all files of an export and compares them with the manifest: their bytes, rows and row
/// groups; the rows of each table and their lamports; and the lamports of all accounts of a bank with
/// its capitalization. With `hashing` returns the hash of all accounts.
pub(crate) fn read_back(
    directory: &Directory<'_>,
    manifest: &Manifest,
    tables: &[(TableKind, Schema)],
    threads: NonZeroUsize,
    handles: &Handles,
    hashing: bool,
) -> Result<Option<Box<LatticeHash>>, ExportError> {
    let Handles { progress, cancel } = handles;
    progress.begin_files(Phase::LookingAtFiles);
    progress.expect_files(manifest.files().count() as u64);
    let mut sums: Vec<Sums> = tables.iter().map(|_| Sums::default()).collect();
    let read = |hasher: &mut Option<LatticeHasher>, (table, facts): (usize, &FileFacts)| {
        let (kind, schema) = &tables[table];
        let hasher = hasher.as_mut().filter(|_| *kind == TableKind::Accounts);
        let whole_data = manifest.data_prefix.is_none();
        let mut reading =
            Reading { schema, places: Places::of(schema), whole_data, hasher, cancel };
        let read = reading.file(directory, facts);
        progress.count_file();
        read.map(|sums| (table, sums))
    };
    let ((), added) = ordered::run(
        "check",
        threads,
        &Times::default(),
        || hashing.then(LatticeHasher::new),
        read,
        |read: Result<(usize, Sums), ExportError>| {
            let (table, file) = read?;
            let sums = &mut sums[table];
            sums.digest.add(file.digest);
            // Less than 2^63 for each of less than 2^64 rows.
            sums.lamports += file.lamports;
            match (&mut sums.hash, file.hash) {
                (Some(sum), Some(hash)) => sum.add(&hash),
                (none, hash) => *none = hash,
            }
            Ok::<(), ExportError>(())
        },
        |to: Submit<'_, (usize, &FileFacts), _>| {
            let files = manifest.tables.iter().enumerate();
            let files =
                files.flat_map(|(table, facts)| facts.files.iter().map(move |file| (table, file)));
            for job in files {
                // If it is not taken, the consumer's error is the reason.
                if to.submit(job).is_err() {
                    break;
                }
            }
        },
    )
    .map_err(PassError::thread)?;
    added?;
    let mut hash = None;
    for (((kind, schema), sums), facts) in tables.iter().zip(sums).zip(&manifest.tables) {
        let (digest, lamports) = (sums.digest.to_string(), sums.lamports.to_string());
        let found = (sums.digest.rows, &lamports, &digest);
        if found != (facts.rows, &facts.lamports, &facts.digest) {
            let problem = Problem::Rows {
                table: schema.name,
                found_rows: sums.digest.rows,
                found_lamports: lamports,
                found: digest,
                rows: facts.rows,
                lamports: facts.lamports.clone(),
                expected: facts.digest.clone(),
                whence: "were written".to_owned(),
            };
            return Err(directory.bad("", problem));
        }
        if *kind == TableKind::Accounts {
            check_capitalization(manifest, sums.lamports)?;
            hash = sums.hash;
        }
    }
    Ok(hash)
}

/// The newest versions of all accounts have together the lamports that the bank says.
fn check_capitalization(manifest: &Manifest, lamports: u128) -> Result<(), ExportError> {
    let newest = manifest.archives.last().filter(|_| manifest.is_whole());
    match newest.and_then(|newest| Some((newest, newest.capitalization?))) {
        Some((newest, expected)) if u128::from(expected) != lamports => {
            let archive = newest.archive.clone();
            Err(ExportError::Capitalization { archive, found: lamports, expected })
        }
        _ => Ok(()),
    }
}

/// Positions of the columns that are examined.
struct Places {
    pubkey: Option<usize>,
    owner: Option<usize>,
    lamports: Option<usize>,
    data_len: Option<usize>,
    executable: Option<usize>,
    data: Option<usize>,
}

impl Places {
    fn of(schema: &Schema) -> Self {
        let place = |name| schema.columns.iter().position(|column| column.name == name);
        Self {
            pubkey: place("pubkey"),
            owner: place("owner"),
            lamports: place("lamports"),
            data_len: place("data_len"),
            executable: place("executable"),
            data: place("data"),
        }
    }
}

/// The reading of a table's file.
struct Reading<'a> {
    schema: &'a Schema,
    places: Places,
    /// Whether the column of data, if there is one, has all of it.
    whole_data: bool,
    /// Hashes accounts.
    hasher: Option<&'a mut LatticeHasher>,
    cancel: &'a CancelToken,
}

impl Reading<'_> {
    fn file(&mut self, directory: &Directory<'_>, facts: &FileFacts) -> Result<Sums, ExportError> {
        let name = &facts.path;
        let file = directory.open(name)?;
        let found = directory.calls.fstat(&file).map_err(directory.failed("examine", name))?;
        let found = u64::try_from(found.st_size).unwrap_or(0);
        if found != facts.bytes {
            return Err(directory.bad(name, Problem::Size { found, expected: facts.bytes }));
        }
        // Before anything is decoded: nothing but what was written reaches the decoder.
        let found = self.digest(directory, name, &file)?;
        if found != facts.digest {
            let expected = facts.digest.clone();
            return Err(directory.bad(name, Problem::Bytes { found, expected }));
        }
        let (mut sums, mut wrong) = (Sums::default(), None);
        let read = read_rows(self.schema, File::from(file), |rows| {
            sums.digest.add(rows.digest());
            wrong = self.rows(rows, &mut sums).err();
            if self.cancel.is_cancelled() || wrong.is_some() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if self.cancel.is_cancelled() {
            return Err(CANCELLED);
        }
        let row_groups = read.map_err(|error| directory.bad(name, Problem::Undecodable(error)))?;
        if let Some(column) = wrong {
            let table = self.schema.name;
            return Err(directory.bad(name, Problem::Row { table, column }));
        }
        if (sums.digest.rows, row_groups) != (facts.rows, facts.row_groups) {
            let problem = Problem::Counts {
                found_rows: sums.digest.rows,
                found_row_groups: row_groups,
                rows: facts.rows,
                row_groups: facts.row_groups,
            };
            return Err(directory.bad(name, problem));
        }
        sums.hash = self.hasher.as_mut().map(|hasher| Box::new(hasher.take()));
        Ok(sums)
    }

    /// Returns the digest of a file's bytes.
    fn digest(
        &self,
        directory: &Directory<'_>,
        name: &str,
        file: &OwnedFd,
    ) -> Result<String, ExportError> {
        let mut hasher = DigestKind::Xxh3.hasher();
        let mut buffer = vec![0; READ_BYTES];
        let mut at = 0;
        loop {
            let read = directory.calls.pread(file, &mut buffer, at);
            match read.map_err(directory.failed("read", name))? {
                0 => return Ok(hasher.digest().to_string()),
                count => {
                    hasher.update(&buffer[..count]);
                    at += count as u64;
                }
            }
            if self.cancel.is_cancelled() {
                return Err(CANCELLED);
            }
        }
    }

    /// Adds rows. Fails with the name of a column whose value no account can have.
    fn rows(&mut self, rows: &Columns, sums: &mut Sums) -> Result<(), &'static str> {
        let mut result = Ok(());
        rows.each_row(|cells| {
            if result.is_ok() {
                result = self.row(cells, sums);
            }
        });
        result
    }

    fn row(&mut self, cells: &[Cell<'_>], sums: &mut Sums) -> Result<(), &'static str> {
        let cell = |place: Option<usize>| place.map_or(Cell::Null, |place| cells[place]);
        let Places { pubkey, owner, lamports, data_len, executable, data } = self.places;
        let Cell::Long(lamports) = cell(lamports) else { return Err("lamports") };
        let lamports = u64::try_from(lamports).map_err(|_| "lamports")?;
        sums.lamports += u128::from(lamports);
        let Cell::Data(data) = cell(data) else { return Ok(()) };
        let Cell::Int(data_len) = cell(data_len) else { return Err("data_len") };
        let data_len = u64::try_from(data_len).map_err(|_| "data_len")?;
        if self.whole_data && data.len() as u64 != data_len {
            return Err("data_len");
        }
        if let Some(hasher) = &mut self.hasher {
            let header = RecordHeader {
                data_len,
                pubkey: cell(pubkey).to_key().ok_or("pubkey")?,
                lamports,
                // Not a part of the hash.
                rent_epoch: 0,
                owner: cell(owner).to_key().ok_or("owner")?,
                executable: u8::from(cell(executable) == Cell::Boolean(true)),
            };
            hasher.add(&header, data);
        }
        Ok(())
    }
}
