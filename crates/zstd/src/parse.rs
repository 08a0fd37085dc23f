//! Stage 1: literals and sequences of a chunk, independently of all other chunks.

use std::ops::Range;

use crate::{
    BlockKind, Defect,
    bits::BackwardBits,
    kernels,
    literals::{LiteralKind, LiteralsHeader},
    offsets::Offsets,
    section::SequencesHeader,
    sequences::{Decode, Totals},
    slot::{BlockDefect, Content, Literals, Parsed, Permitted, Slot, Stored},
    tables::{Descriptions, Tables},
};

/// Decodes the first stage of slots, one after the other. Each thread has its own.
pub struct Parser {
    tables: Tables,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Creates a parser.
    pub fn new() -> Self {
        Self { tables: Tables::new() }
    }

    /// Decodes literals and sequences of all blocks of `slot`. If one is damaged, the blocks in
    /// front of it are complete.
    pub fn parse(&mut self, slot: &mut Slot) -> Result<(), BlockDefect> {
        self.tables.begin(&slot.descriptions);
        slot.parsed.clear();
        slot.offsets = Offsets::UNKNOWN;
        let mut used = Used::default();
        let mut frame = 0;
        for index in 0..slot.stored.len() {
            let block = slot.stored[index];
            if block.frame != frame {
                frame = block.frame;
                self.tables.begin(&Descriptions::none());
                slot.offsets = Offsets::START;
            }
            let parsed = self
                .block(slot, block, &mut used)
                .map_err(|defect| BlockDefect { index, defect })?;
            slot.parsed.push(parsed);
        }
        Ok(())
    }

    fn block(&mut self, slot: &mut Slot, block: Stored, used: &mut Used) -> Result<Parsed, Defect> {
        let Stored { header, start, frame } = block;
        match header.kind {
            BlockKind::Raw => {
                Ok(Parsed { content: Content::Raw { start }, raw_bytes: header.size })
            }
            BlockKind::Repeated => {
                let byte = slot.input[start];
                Ok(Parsed { content: Content::Repeated { byte }, raw_bytes: header.size })
            }
            BlockKind::Compressed => {
                let permitted = slot.frames[frame];
                self.compressed(slot, start..start + header.size, permitted, used)
            }
        }
    }

    fn compressed(
        &mut self,
        slot: &mut Slot,
        block: Range<usize>,
        permitted: Permitted,
        used: &mut Used,
    ) -> Result<Parsed, Defect> {
        let Range { start, end } = block;
        let header = LiteralsHeader::parse(&slot.input[start..end], permitted.block_bytes_max)?;
        let literals = self.literals(slot, header, start + header.header_bytes, used)?;
        let start = start + header.bytes();
        let header = SequencesHeader::parse(&slot.input[start..end])?;
        let first = used.sequences;
        let mut totals = Totals::default();
        if header.count > 0 {
            let coded = start + header.header_bytes..end;
            totals = self.sequences(slot, header, coded, permitted, first)?;
        }
        if totals.literals > literals.count {
            return Err(Defect::LiteralsExceeded);
        }
        let raw_bytes = literals.count + totals.copied;
        if raw_bytes > permitted.block_bytes_max {
            return Err(Defect::BlockSize);
        }
        used.sequences += totals.written;
        let content = Content::Compressed { literals, sequences: first..used.sequences };
        Ok(Parsed { content, raw_bytes })
    }

    fn literals(
        &mut self,
        slot: &mut Slot,
        header: LiteralsHeader,
        start: usize,
        used: &mut Used,
    ) -> Result<Literals, Defect> {
        let count = header.count;
        if header.kind == LiteralKind::Raw {
            return Ok(Literals { stored: true, start, count });
        }
        let input = std::mem::take(&mut slot.input);
        let target = slot.room_for_literals(used.literals, count);
        let decoded = if header.kind == LiteralKind::Repeated {
            target.fill(input[start]);
            Ok(())
        } else {
            decode_literals(header, &input, start, &mut self.tables, target)
        };
        slot.input = input;
        decoded?;
        let literals = Literals { stored: false, start: used.literals, count };
        used.literals += count;
        Ok(literals)
    }

    fn sequences(
        &mut self,
        slot: &mut Slot,
        header: SequencesHeader,
        coded: Range<usize>,
        permitted: Permitted,
        first: usize,
    ) -> Result<Totals, Defect> {
        let Range { start, end } = coded;
        let start = start + self.tables.read_codes(&header, &slot.input[start..end])?;
        if header.count > permitted.block_bytes_max / 3 {
            // Matches have three bytes at least.
            return Err(Defect::BlockSize);
        }
        slot.room_for_sequences(first, header.count);
        let stream = BackwardBits::new(&slot.input, start, end).ok_or(Defect::SequenceStream)?;
        kernels::run(Decode {
            stream,
            tables: self.tables.codes(),
            count: header.count,
            offsets: &mut slot.offsets,
            window_bytes: permitted.window_bytes,
            target: &mut slot.sequences[first..],
        })
    }
}

/// Decodes Huffman codes into `target`. The codes and the description of their table begin at
/// `input[start]`.
fn decode_literals(
    header: LiteralsHeader,
    input: &[u8],
    start: usize,
    tables: &mut Tables,
    target: &mut [u8],
) -> Result<(), Defect> {
    let end = start + header.stored_bytes;
    let input = &input[..end];
    let (table, described) = match header.kind {
        LiteralKind::Coded => tables.read_huffman(input, start)?,
        _ => (tables.huffman()?, 0),
    };
    let start = start + described;
    if header.four_streams {
        table.decode_four(input, start, end, target)
    } else {
        table.decode(input, start, end, target)
    }
}

/// Parts of a slot's memory that its blocks have used.
#[derive(Default)]
struct Used {
    literals: usize,
    sequences: usize,
}
