//! Tar blocks, for targets that need to get past the checksum.

pub const BLOCK: usize = 512;

/// Returns the stream with correct checksums in the blocks that look like headers, so that
/// mutations reach the bytes after them. Plain sizes are followed. A block mistaken for a header is
/// changed too, which does no harm.
pub fn with_checksums(stream: &[u8]) -> Vec<u8> {
    let mut stream = stream.to_vec();
    let mut at = 0;
    while let Some(block) = stream.get_mut(at..at + BLOCK) {
        at += BLOCK;
        if block.iter().all(|&byte| byte == 0) {
            continue;
        }
        if !checksum_is_right(block) {
            set_checksum(block);
        }
        let size = octal(&block[124..136]).unwrap_or(0);
        at = at.saturating_add(usize::try_from(size).unwrap_or(usize::MAX / 2));
        at = at.next_multiple_of(BLOCK);
    }
    stream
}

/// Returns a header with all fields that parsers require.
pub fn posix_header(typeflag: u8, path: &str, link: &str, size: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..path.len()].copy_from_slice(path.as_bytes());
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = typeflag;
    block[157..][..link.len()].copy_from_slice(link.as_bytes());
    block[257..265].copy_from_slice(b"ustar\x0000");
    set_checksum(&mut block);
    block
}

/// Writes the unsigned sum into a header block.
pub fn set_checksum(block: &mut [u8]) {
    let text = format!("{:06o}\0 ", sums(block).0);
    block[148..156].copy_from_slice(text.as_bytes());
}

/// Returns whether a header's checksum is one of the two that tars have written.
pub fn checksum_is_right(block: &[u8]) -> bool {
    let (unsigned, signed) = sums(block);
    octal(&block[148..156])
        .is_some_and(|stored| stored == unsigned || i64::try_from(stored) == Ok(signed))
}

/// Returns the sums of a header's bytes, as unsigned and as signed numbers.
fn sums(block: &[u8]) -> (u64, i64) {
    let counted = |(index, &byte)| if (148..156).contains(&index) { b' ' } else { byte };
    let bytes = || block.iter().enumerate().map(counted);
    (bytes().map(u64::from).sum(), bytes().map(|byte| i64::from(byte.cast_signed())).sum())
}

/// Parses octal digits, with spaces before them and spaces and NULs after them.
pub fn octal(field: &[u8]) -> Option<u64> {
    let text = str::from_utf8(field).ok()?.trim_start_matches(' ').trim_end_matches([' ', '\0']);
    if text.is_empty() || !text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return None;
    }
    u64::from_str_radix(text, 8).ok()
}

/// Returns the part of a field before the first NUL.
pub fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
