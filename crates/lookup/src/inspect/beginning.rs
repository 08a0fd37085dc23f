//! Facts from the first bytes of an archive.

use unsnap_decode::{FRAME_HEADER_BYTES_MAX, Format, FrameHeader, FrameStart, frame_start};

use crate::producer::FIREDANCER_TAG;

/// Number of bytes read: the first header may follow a skippable frame.
pub const HEAD_BYTES: usize = 4096;

/// Facts from the first bytes.
#[derive(Default)]
pub struct Beginning {
    pub header: Option<FrameHeader>,
    pub firedancer_tag: bool,
}

impl Beginning {
    pub fn of(head: &[u8], format: Option<Format>) -> Self {
        let mut beginning = Self::default();
        if format != Some(Format::Zstd) {
            return beginning;
        }
        let mut rest = head;
        loop {
            match frame_start(&rest[..rest.len().min(FRAME_HEADER_BYTES_MAX)]) {
                Ok(FrameStart::Frame(header)) => {
                    beginning.header = Some(header);
                    return beginning;
                }
                Ok(FrameStart::Skippable { bytes }) => {
                    let tag = rest.get(8..16).and_then(|tag| tag.first_chunk());
                    beginning.firedancer_tag |=
                        tag.is_some_and(|tag| u64::from_le_bytes(*tag) == FIREDANCER_TAG);
                    let passed = usize::try_from(bytes).ok().and_then(|bytes| rest.get(bytes..));
                    let Some(after) = passed else { return beginning };
                    rest = after;
                }
                Ok(FrameStart::Incomplete | FrameStart::Foreign) | Err(_) => return beginning,
            }
        }
    }
}
