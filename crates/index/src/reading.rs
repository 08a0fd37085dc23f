//! Exact reads.

use std::io;

use unsnap_decode::ReadAt;

use crate::IndexError;

/// Fills a buffer from `offset` on.
pub(crate) fn read_into(
    archive: &dyn ReadAt,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), IndexError> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        match archive.read_at(&mut buffer[filled..], at) {
            Ok(0) => {
                let source = io::ErrorKind::UnexpectedEof.into();
                return Err(IndexError::Read { offset: at, source });
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(IndexError::Read { offset: at, source }),
        }
    }
    Ok(())
}

/// Reads `BYTES` bytes from `offset` on.
pub(crate) fn read_exact<const BYTES: usize>(
    archive: &dyn ReadAt,
    offset: u64,
) -> Result<[u8; BYTES], IndexError> {
    let mut bytes = [0; BYTES];
    read_into(archive, &mut bytes, offset)?;
    Ok(bytes)
}
