//! Properties of frame tables from any source.

use unsnap_index::FrameTable;

/// Checks that frames are contiguous, in the archive and in the decoded stream, and add up to both,
/// and that each byte of the stream is found in the frame that holds it.
pub fn assert_adjoin(table: &FrameTable) {
    let (mut offset, mut raw_offset) = (0, 0);
    for (number, frame) in table.frames().iter().enumerate() {
        assert_eq!((frame.offset, frame.raw_offset), (offset, raw_offset));
        assert!(frame.bytes > 0, "frame {number} is not empty");
        assert!(
            !frame.skippable || frame.raw_bytes == 0,
            "skippable frame {number} has no content"
        );
        if frame.raw_bytes > 0 {
            let (first, end) = (frame.raw_offset, frame.raw_extent().end);
            for byte in [first, end - 1] {
                let holding = table.holding(&(byte..byte + 1));
                assert!(holding.contains(&number), "byte {byte} is in frame {number}");
            }
        }
        (offset, raw_offset) = (frame.extent().end, frame.raw_extent().end);
    }
    assert_eq!((table.archive_bytes(), table.raw_bytes()), (offset, raw_offset));
}
