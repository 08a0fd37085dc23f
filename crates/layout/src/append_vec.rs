//! Append vecs: the account storages that a snapshot archive carries as `accounts/<slot>.<id>`.
//!
//! A storage is a sequence of records without a file header. All numbers are little-endian. Each
//! record begins at a multiple of 8, so up to 7 bytes of padding follow its data:
//!
//! ```text
//!   0   8  write version    obsolete; 0 in newer files
//!   8   8  data length
//!  16  32  public key
//!  48   8  lamports
//!  56   8  rent epoch
//!  64  32  owner
//!  96   1  executable       0 or 1
//!  97   7  padding          whatever was in memory; zero since Agave 4.5
//! 104  32  account hash     obsolete; 0 in newer files, its old value in older ones
//! 136   …  data
//! ```
//!
//! Source: `append_vec.rs` and `append_vec/meta.rs` of `solana-accounts-db` 4.2.2, and genuine
//! archives. The order is that of two C structures followed by a hash, which explains the padding
//! in the middle. The end of the records is not stored anywhere: a reader stops when fewer than
//! [`RECORD_HEADER_BYTES`] bytes are left, or at a header without lamports and with a public key of
//! zeros ([`RecordHeader::is_end`]).
//!
//! Each field is loaded at its own width from one array of known length, so the compiler checks
//! bounds once per header and each number is one load.

/// Length of a record's header, before its data.
pub const RECORD_HEADER_BYTES: usize = 136;

/// Alignment of records within a storage.
pub const RECORD_ALIGNMENT: u64 = 8;

/// Largest data length of an account: 10 MiB, `MAX_PERMITTED_DATA_LENGTH` of Solana's runtime.
pub const ACCOUNT_DATA_BYTES_MAX: u64 = 10 << 20;

/// Largest storage: 16 GiB, `MAXIMUM_APPEND_VEC_FILE_SIZE` of `solana-accounts-db`.
pub const STORAGE_BYTES_MAX: u64 = 16 << 30;

/// The fields of a record before its data. None of them has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Length of the data in bytes.
    pub data_len: u64,
    /// The account's address.
    pub pubkey: [u8; 32],
    /// Its balance. 0 means that the account has been closed.
    pub lamports: u64,
    /// The epoch in which rent was last collected. Obsolete.
    pub rent_epoch: u64,
    /// The program that owns it.
    pub owner: [u8; 32],
    /// 1 if its data is a program, otherwise 0.
    pub executable: u8,
}

impl RecordHeader {
    /// Parses a header. Accepts any bytes.
    #[inline]
    pub fn parse(bytes: &[u8; RECORD_HEADER_BYTES]) -> Self {
        Self {
            data_len: u64_at::<8>(bytes),
            pubkey: key_at::<16>(bytes),
            lamports: u64_at::<48>(bytes),
            rent_epoch: u64_at::<56>(bytes),
            owner: key_at::<64>(bytes),
            executable: bytes[96],
        }
    }

    /// Returns the header at `at` in `bytes`, or `None` if `bytes` ends before the header does.
    #[inline]
    pub fn parse_at(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self::parse(bytes.get(at..)?.first_chunk()?))
    }

    /// Serialises the header. Write version, padding and account hash are zero, as Agave 4.5 writes
    /// them.
    pub fn to_bytes(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[8..16].copy_from_slice(&self.data_len.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.pubkey);
        bytes[48..56].copy_from_slice(&self.lamports.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.rent_epoch.to_le_bytes());
        bytes[64..96].copy_from_slice(&self.owner);
        bytes[96] = self.executable;
        bytes
    }

    /// Returns whether this header marks the end of the records.
    #[inline]
    pub fn is_end(&self) -> bool {
        self.lamports == 0 && self.pubkey == [0; 32]
    }

    /// Returns the number of bytes from the record's beginning to the end of its data. Saturates,
    /// so a hostile length still exceeds every limit.
    #[inline]
    pub fn record_bytes(&self) -> u64 {
        self.data_len.saturating_add(RECORD_HEADER_BYTES as u64)
    }

    /// Returns the position of the next record if this one begins at `position`, or `None` beyond
    /// `u64`.
    #[inline]
    pub fn next_position(&self, position: u64) -> Option<u64> {
        position.checked_add(self.record_bytes())?.checked_next_multiple_of(RECORD_ALIGNMENT)
    }
}

#[inline]
fn u64_at<const AT: usize>(bytes: &[u8; RECORD_HEADER_BYTES]) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[AT..AT + 8]);
    u64::from_le_bytes(field)
}

#[inline]
fn key_at<const AT: usize>(bytes: &[u8; RECORD_HEADER_BYTES]) -> [u8; 32] {
    let mut field = [0; 32];
    field.copy_from_slice(&bytes[AT..AT + 32]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> [u8; RECORD_HEADER_BYTES] {
        std::array::from_fn(|index| u8::try_from(index).unwrap())
    }

    #[test]
    fn every_field_is_read_from_its_place() {
        let header = RecordHeader::parse(&numbered());
        assert_eq!(header.data_len, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(header.pubkey, std::array::from_fn(|index| 16 + u8::try_from(index).unwrap()));
        assert_eq!(header.lamports, 0x3736_3534_3332_3130);
        assert_eq!(header.rent_epoch, 0x3f3e_3d3c_3b3a_3938);
        assert_eq!(header.owner, std::array::from_fn(|index| 64 + u8::try_from(index).unwrap()));
        assert_eq!(header.executable, 96);
    }

    #[test]
    fn a_header_survives_the_round_trip_with_obsolete_fields_zero() {
        let header = RecordHeader::parse(&numbered());
        let written = header.to_bytes();
        assert_eq!(RecordHeader::parse(&written), header);
        assert_eq!(written[..8], [0; 8]);
        assert_eq!(written[97..], [0; 39]);
    }

    #[test]
    fn a_header_needs_all_its_bytes() {
        let bytes = [numbered().as_slice(), &[0; 4]].concat();
        assert_eq!(RecordHeader::parse_at(&bytes, 0), Some(RecordHeader::parse(&numbered())));
        assert!(RecordHeader::parse_at(&bytes, 4).is_some());
        assert!(RecordHeader::parse_at(&bytes, 5).is_none());
        assert!(RecordHeader::parse_at(&bytes, usize::MAX).is_none());
    }

    #[test]
    fn the_next_record_is_aligned_and_a_hostile_length_does_not_wrap() {
        let mut header = RecordHeader::parse(&[0; RECORD_HEADER_BYTES]);
        assert_eq!(header.next_position(0), Some(136));
        header.data_len = 1;
        assert_eq!(header.next_position(8), Some(152));
        header.data_len = 8;
        assert_eq!(header.next_position(8), Some(152));
        header.data_len = u64::MAX - 140;
        assert_eq!(header.next_position(0), None);
        header.data_len = u64::MAX;
        assert_eq!((header.record_bytes(), header.next_position(0)), (u64::MAX, None));
    }

    #[test]
    fn only_no_lamports_and_no_key_are_an_end() {
        let mut header = RecordHeader::parse(&[0; RECORD_HEADER_BYTES]);
        assert!(header.is_end());
        header.data_len = 5;
        assert!(header.is_end());
        header.lamports = 1;
        assert!(!header.is_end(), "the system program's address is all zeros");
        header.lamports = 0;
        header.pubkey[31] = 1;
        assert!(!header.is_end());
    }
}
