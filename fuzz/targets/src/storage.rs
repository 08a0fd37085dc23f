//! Target for account storages.

use unsnap_layout::append_vec::RecordHeader;
use unsnap_verify::{Record, RecordSink, StorageError, StorageProblem, StorageScanner};

use crate::{INPUT_BYTES_MAX, pieces::pieces, text::assert_safe};

/// Limit on an account's data, as in validators.
const DATA_BYTES_MAX: u64 = 10 << 20;

/// Takes a length of pieces and a storage. In pieces of any size, the records and the defect are
/// those that an independent parser of the whole finds. A truncated storage is refused.
pub fn storage(data: &[u8]) {
    let Some((&by, file)) = data.split_first() else { return };
    if file.len() > INPUT_BYTES_MAX {
        return;
    }
    let expected = second_reading(file);
    for pieces in
        [&mut [file].into_iter() as &mut dyn Iterator<Item = &[u8]>, &mut pieces(file, by)]
    {
        let (records, problem) = scan(pieces, file.len() as u64);
        assert_eq!(records, expected.0);
        assert_eq!(problem, expected.1);
    }
    let (_, problem) = scan(&mut pieces(file, by), file.len() as u64 + 1);
    assert!(problem.is_some(), "truncated but accepted");
}

/// Offset of a record, its header, and its data.
type Found = (u64, RecordHeader, Vec<u8>);

#[derive(Default)]
struct Records(Vec<Found>);

impl RecordSink for Records {
    fn whole(&mut self, record: &Record<'_>) {
        self.0.push((record.position, *record.header, record.data.to_vec()));
    }
    fn begins(&mut self, position: u64, header: &RecordHeader) {
        self.0.push((position, *header, Vec::new()));
    }
    fn part(&mut self, data: &[u8]) {
        self.0.last_mut().expect("a record has begun").2.extend_from_slice(data);
    }
    fn ends(&mut self) {
        let (_, header, data) = self.0.last().expect("a record has begun");
        assert_eq!(header.data_len, data.len() as u64);
    }
}

fn scan(
    pieces: &mut dyn Iterator<Item = &[u8]>,
    size: u64,
) -> (Vec<Found>, Option<StorageProblem>) {
    let mut records = Records::default();
    let run = || -> Result<_, StorageError> {
        let mut scanner = StorageScanner::new(3, 4, size)?;
        for piece in pieces {
            scanner.feed(piece, &mut records)?;
        }
        scanner.finish()
    };
    match run() {
        Ok(summary) => {
            assert_eq!(summary.records, records.0.len() as u64);
            let data_bytes: usize = records.0.iter().map(|record| record.2.len()).sum();
            assert_eq!(summary.data_bytes, data_bytes as u64);
            (records.0, None)
        }
        Err(error) => {
            assert_safe(&error.to_string());
            (records.0, Some(error.problem))
        }
    }
}

fn second_reading(file: &[u8]) -> (Vec<Found>, Option<StorageProblem>) {
    let size = file.len() as u64;
    let mut records = Vec::new();
    if file.is_empty() {
        return (records, Some(StorageProblem::Empty));
    }
    let mut at = 0;
    while let Some(header) = file.get(at..).and_then(<[u8]>::first_chunk::<136>) {
        let number = |from: usize| {
            u64::from_le_bytes(*header[from..].first_chunk().expect("within the header"))
        };
        if header[16..48] == [0; 32] && number(48) == 0 {
            break;
        }
        let (offset, found) = (at as u64, number(8));
        let end = offset.saturating_add(found.saturating_add(136));
        let problem = if found > DATA_BYTES_MAX {
            StorageProblem::DataTooLong { offset, found, limit: DATA_BYTES_MAX }
        } else if end > size {
            StorageProblem::RecordPastEnd { offset, end, size }
        } else if header[96] > 1 {
            StorageProblem::NotAFlag { offset, found: header[96] }
        } else {
            let end = usize::try_from(end).expect("within the file");
            records.push((offset, RecordHeader::parse(header), file[at + 136..end].to_vec()));
            at = end.next_multiple_of(8);
            continue;
        };
        return (records, Some(problem));
    }
    let behind = file.iter().enumerate().skip(at).find(|(_, byte)| **byte != 0);
    let problem = behind
        .map(|(offset, byte)| StorageProblem::NotZero { offset: offset as u64, found: *byte });
    (records, problem)
}
