use super::*;
use proptest::prelude::*;

/// A record's position, key, data.
type Found = (u64, u8, Vec<u8>);

#[derive(Default)]
struct Collected {
    found: Vec<Found>,
    open: bool,
}

impl RecordSink for Collected {
    fn whole(&mut self, record: &Record<'_>) {
        assert!(!self.open);
        self.found.push((record.position, record.header.pubkey[0], record.data.to_vec()));
    }
    fn begins(&mut self, position: u64, header: &RecordHeader) {
        assert!(!std::mem::replace(&mut self.open, true));
        self.found.push((position, header.pubkey[0], Vec::new()));
    }
    fn part(&mut self, data: &[u8]) {
        assert!(self.open);
        self.found.last_mut().unwrap().2.extend_from_slice(data);
    }
    fn ends(&mut self) {
        assert!(std::mem::take(&mut self.open));
    }
}

fn header(key: u8, data_len: usize) -> RecordHeader {
    RecordHeader {
        data_len: data_len as u64,
        pubkey: [key; 32],
        lamports: 7,
        rent_epoch: 0,
        owner: [2; 32],
        executable: key & 1,
    }
}

/// Returns a storage of records with data of these lengths, ending with the last one's data.
fn storage(lengths: &[usize]) -> (Vec<u8>, Vec<Found>) {
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for (key, &length) in (1..).zip(lengths) {
        bytes.resize(bytes.len().next_multiple_of(8), 0xee); // padding may have any value
        let data: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap() ^ key).collect();
        expected.push((bytes.len() as u64, key, data.clone()));
        let mut head = header(key, length).to_bytes();
        head[..8].fill(0xaa);
        head[97..].fill(0xbb); // obsolete fields and padding may have any value
        bytes.extend(head);
        bytes.extend(data);
    }
    (bytes, expected)
}

fn scan(bytes: &[u8], piece: usize) -> Result<(Collected, StorageSummary), StorageProblem> {
    scan_announced(bytes, bytes.len() as u64, piece)
}

fn scan_announced(
    bytes: &[u8],
    size: u64,
    piece: usize,
) -> Result<(Collected, StorageSummary), StorageProblem> {
    let mut collected = Collected::default();
    let run = |collected: &mut Collected| {
        let mut scanner = StorageScanner::new(5, 6, size)?;
        for piece in bytes.chunks(piece) {
            scanner.feed(piece, collected)?;
        }
        scanner.finish()
    };
    match run(&mut collected) {
        Ok(summary) => {
            assert!(!collected.open);
            Ok((collected, summary))
        }
        Err(StorageError { slot: 5, id: 6, problem }) => Err(problem),
        Err(error) => panic!("another storage: {error}"),
    }
}

#[test]
fn the_same_records_are_found_in_pieces_of_any_size() {
    let (bytes, expected) = storage(&[0, 1, 8, 165, 0, 300, 7]);
    for piece in 1..=bytes.len() {
        let (collected, summary) = scan(&bytes, piece).unwrap();
        assert_eq!(collected.found, expected, "pieces of {piece}");
        assert_eq!(summary, StorageSummary { records: 7, data_bytes: 481 });
    }
}

#[test]
fn zeros_may_follow_the_last_record_and_nothing_else() {
    let (bytes, expected) = storage(&[3, 40]);
    let aligned = bytes.len().next_multiple_of(8);
    for zeros in [1, 7, 8, 135, 136, 137, 5000] {
        let mut longer = bytes.clone();
        longer.resize(aligned + zeros, 0);
        for piece in [1, 100, 136, longer.len()] {
            assert_eq!(scan(&longer, piece).unwrap().0.found, expected);
        }
        for at in [aligned, aligned + zeros / 2, aligned + zeros - 1] {
            let mut spoilt = longer.clone();
            spoilt[at] = 9;
            for piece in [1, 100, 136, longer.len()] {
                let problem = scan(&spoilt, piece).err().unwrap();
                // If a header fits, the byte may turn it into a record.
                if zeros < 136 {
                    let expected = StorageProblem::NotZero { offset: at as u64, found: 9 };
                    assert_eq!(problem, expected, "{zeros} zeros, pieces of {piece}");
                }
            }
        }
    }
}

#[test]
fn padding_behind_the_last_data_may_hold_anything() {
    let (mut bytes, expected) = storage(&[3]);
    bytes.resize(144, 0xcc);
    assert_eq!(scan(&bytes, 10).unwrap().0.found, expected);
}

#[test]
fn an_end_mark_must_be_all_zeros() {
    let (mut bytes, _) = storage(&[8]);
    let end = bytes.len();
    bytes.resize(end + 200, 0);
    bytes[end + 8] = 1; // a data length, but no lamports and no key
    for piece in [1, 50, 1000] {
        let expected = StorageProblem::NotZero { offset: end as u64 + 8, found: 1 };
        assert_eq!(scan(&bytes, piece).err(), Some(expected));
    }
}

#[test]
fn a_storage_without_records_is_one_of_zeros() {
    for size in [1, 135, 136, 4096] {
        assert_eq!(scan(&vec![0; size], 100).unwrap().1, StorageSummary::default());
    }
}

#[test]
fn every_lie_of_a_header_is_reported_with_its_place() {
    let (bytes, _) = storage(&[8, 16]);
    let second = 144;
    for piece in [1, 90, 1000] {
        let with = |at: usize, patch: &[u8]| {
            let mut spoilt = bytes.clone();
            spoilt[second + at..second + at + patch.len()].copy_from_slice(patch);
            scan(&spoilt, piece).err()
        };
        let offset = second as u64;
        assert_eq!(
            with(96, &[2]),
            Some(StorageProblem::NotAFlag { offset, found: 2 }),
            "pieces of {piece}"
        );
        assert_eq!(
            with(8, &17_u64.to_le_bytes()),
            Some(StorageProblem::RecordPastEnd { offset, end: 297, size: 296 })
        );
        for found in [ACCOUNT_DATA_BYTES_MAX + 1, u64::MAX, u64::MAX - 135] {
            assert_eq!(
                with(8, &found.to_le_bytes()),
                Some(StorageProblem::DataTooLong { offset, found, limit: 10 << 20 })
            );
        }
    }
}

#[test]
fn sizes_are_checked_against_their_limits() {
    assert_eq!(scan(&[], 1).err(), Some(StorageProblem::Empty));
    let (found, limit) = (STORAGE_BYTES_MAX + 1, STORAGE_BYTES_MAX);
    let expected = StorageProblem::TooLarge { found, limit };
    assert_eq!(scan_announced(&[], found, 1).err(), Some(expected));
    assert!(StorageScanner::new(0, 0, limit).is_ok());

    let (bytes, _) = storage(&[8]);
    let expected = StorageProblem::WrongSize { expected: 150, found: 144 };
    assert_eq!(scan_announced(&bytes, 150, 50).err(), Some(expected));
    let mut longer = bytes.clone();
    longer.push(0);
    let expected = StorageProblem::WrongSize { expected: 144, found: 145 };
    assert_eq!(scan_announced(&longer, 144, 1).err(), Some(expected));
}

#[test]
fn an_error_says_which_storage_it_is_about() {
    let error = StorageScanner::new(17, 4, 0).unwrap_err();
    assert_eq!(error.to_string(), "accounts/17.4: it is empty");
}

#[test]
fn an_account_of_ten_mebibytes_goes_through_without_being_put_together() {
    struct Lengths(u64, usize);
    impl RecordSink for Lengths {
        fn whole(&mut self, _: &Record<'_>) {
            panic!("it straddles pieces");
        }
        fn begins(&mut self, _: u64, _: &RecordHeader) {}
        fn part(&mut self, data: &[u8]) {
            self.0 += data.len() as u64;
            self.1 = self.1.max(data.len());
        }
        fn ends(&mut self) {}
    }
    let (bytes, _) = storage(&[10 << 20]);
    let mut scanner = StorageScanner::new(0, 0, bytes.len() as u64).unwrap();
    let mut lengths = Lengths(0, 0);
    for piece in bytes.chunks(1 << 20) {
        scanner.feed(piece, &mut lengths).unwrap();
    }
    assert_eq!(scanner.finish().unwrap().data_bytes, 10 << 20);
    assert_eq!(lengths.0, 10 << 20);
}

proptest! {
    #[test]
    fn any_bytes_are_scanned_the_same_in_pieces_of_any_size(
        lengths in prop::collection::vec(0_usize..400, 0..6),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..300),
        piece in 1_usize..500,
    ) {
        let (mut bytes, _) = storage(&lengths);
        bytes.extend(noise);
        for (at, value) in flips {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        let at_once =
            scan(&bytes, usize::MAX).map(|(collected, summary)| (collected.found, summary));
        let in_pieces = scan(&bytes, piece).map(|(collected, summary)| (collected.found, summary));
        prop_assert_eq!(at_once, in_pieces);
    }
}

#[test]
fn each_line_ahead_is_requested_once_and_none_behind_the_piece() {
    let piece = vec![1; 3 * AHEAD_BYTES + 7];
    let mut ahead = Ahead::default();
    let mut before = 0;
    for at in (0..piece.len()).step_by(304) {
        ahead.request(&piece, at);
        let next = ahead.next;
        assert!(next >= before && next - before <= AHEAD_BYTES + LINE_BYTES, "{before} {next}");
        assert!(next >= piece.len().min(at + AHEAD_BYTES), "{at} {next}");
        assert!(next < piece.len() + LINE_BYTES, "{at} {next}");
        before = next;
    }
    ahead.request(&piece, usize::MAX);
    assert_eq!(ahead.next, before);
    // After a long record, what it skipped is not requested.
    let mut ahead = Ahead::default();
    ahead.request(&piece, 2 * AHEAD_BYTES);
    assert_eq!(ahead.next, 3 * AHEAD_BYTES);
}
