//! The producer of an archive, guessed from its frames.
//!
//! | frames | made by |
//! |---|---|
//! | one, without content size and checksum | Agave up to 4.2 (window 512 KiB at the validator's level 1, 2 MiB at level 3) |
//! | of 32 MiB decoded, which they declare, without checksums; the last one shorter | Agave from 4.3 on (`multiframe.rs`) |
//! | a skippable one with Firedancer's tag first, or a frame of one tar header first and skippable ones between | Firedancer |
//! | a seek table at the end | unsnap (`repack`), or another writer of the seekable format |
//! | a checksum | the `zstd` command, whose default that is |

use serde::Serialize;
use unsnap_decode::FrameHeader;
use unsnap_index::TableSource;

use crate::FrameFacts;

/// Decoded size of Agave's frames.
const AGAVE_FRAME_BYTES: u64 = 32 << 20;

/// Size of a tar header, which Firedancer puts into a frame of its own.
const TAR_HEADER_BYTES: u64 = 512;

/// Tag in the skippable frame at the beginning of Firedancer's archives, little-endian.
pub(crate) const FIREDANCER_TAG: u64 = 0xf212_f209_fd94_4ba2;

/// A guess, and its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Producer {
    /// The likely producer.
    pub guess: &'static str,
    /// Evidence for the guess, in words.
    pub evidence: Vec<String>,
}

/// Evidence about the producer.
pub(crate) struct Evidence<'a> {
    /// Compression: "zstd", "lz4" or "tar".
    pub compression: &'a str,
    /// Header of the first frame that is not skippable.
    pub header: Option<&'a FrameHeader>,
    /// Whether Firedancer's tag was found.
    pub tag: bool,
    pub frames: &'a FrameFacts,
    pub table: Option<TableSource>,
    /// Whether the bank file ends with a block id, if it was read.
    pub block_id: Option<bool>,
}

impl Evidence<'_> {
    pub fn guess(&self) -> Producer {
        let mut evidence = Vec::new();
        let guess = self.by_frames(&mut evidence);
        match self.block_id {
            Some(true) => {
                evidence.push("the bank file ends in a block id, as from Agave 4.1 on".to_owned());
            }
            Some(false) => {
                evidence.push("the bank file has no block id, as before Agave 4.1".to_owned());
            }
            None => {}
        }
        Producer { guess, evidence }
    }

    fn by_frames(&self, evidence: &mut Vec<String>) -> &'static str {
        let frames = self.frames;
        match self.compression {
            "lz4" => {
                evidence.push("it is compressed by lz4, an option of validators".to_owned());
                return "Agave, with lz4";
            }
            "tar" => {
                evidence.push("it is not compressed; Agave always compresses".to_owned());
                return "tar, or Firedancer";
            }
            _ => {}
        }
        let Some(header) = self.header else { return "unknown" };
        if self.tag {
            evidence.push("it begins with Firedancer's tag in a skippable frame".to_owned());
            return "Firedancer";
        }
        if header.content_bytes == Some(TAR_HEADER_BYTES) && frames.skippable_frames > 0 {
            evidence.push(
                "a tar header is a frame of its own, and skippable frames align what follows"
                    .to_owned(),
            );
            return "Firedancer";
        }
        if self.table == Some(TableSource::SeekTable) {
            evidence.push("there is a seek table at its end".to_owned());
            return "unsnap (repack), or another writer of the seekable format";
        }
        if header.has_checksum {
            evidence.push("its frames end in checksums, which no validator writes".to_owned());
            return "the zstd command";
        }
        let window = header.window_bytes;
        match header.content_bytes {
            None if frames.frames <= 1 => {
                evidence.push(format!(
                    "one frame without content size and checksum, with a window of {} KiB{}",
                    window >> 10,
                    match window >> 10 {
                        512 => " (level 1, the validator's)",
                        2048 => " (level 3, agave-ledger-tool's)",
                        _ => "",
                    }
                ));
                if !frames.complete {
                    evidence.push("no frame ends in the part that was read".to_owned());
                }
                "Agave up to 4.2"
            }
            Some(AGAVE_FRAME_BYTES) => {
                evidence
                    .push("frames of 32 MiB that declare their size, without checksums".to_owned());
                "Agave from 4.3 on"
            }
            Some(bytes) if frames.frames == 1 && bytes < AGAVE_FRAME_BYTES => {
                evidence.push("one frame of less than 32 MiB that declares its size".to_owned());
                "Agave from 4.3 on, or the zstd command"
            }
            Some(_) | None => {
                evidence.push("its frames differ from those of all known validators".to_owned());
                "unknown"
            }
        }
    }
}
