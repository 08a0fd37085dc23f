//! Splitting a client's bytes into lines.

use crate::protocol::REQUEST_BYTES_MAX;

/// Bytes read from a client and not yet parsed: never more than one oversized line plus the read
/// that completed it.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Offset of the next line.
    begin: usize,
    /// Offset up to which there is no newline.
    searched: usize,
}

/// Result of [`Lines::next`].
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A complete line, without its newline.
    Line(&'a [u8]),
    /// The line exceeds [`REQUEST_BYTES_MAX`]. Every later call returns this as well.
    TooLong,
    /// No complete line yet.
    Incomplete,
}

impl Lines {
    /// Appends bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next line. Skips empty lines.
    pub fn next(&mut self) -> Next<'_> {
        loop {
            let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.bytes.len();
                if self.searched - self.begin > REQUEST_BYTES_MAX {
                    return Next::TooLong;
                }
                if self.begin == self.searched {
                    // An idle client holds no buffer.
                    *self = Self::default();
                }
                return Next::Incomplete;
            };
            if end - self.begin > REQUEST_BYTES_MAX {
                // The oversized line stays the next one.
                self.searched = end;
                return Next::TooLong;
            }
            let begin = std::mem::replace(&mut self.begin, end + 1);
            self.searched = self.begin;
            if end > begin {
                return Next::Line(&self.bytes[begin..end]);
            }
        }
    }

    /// Takes the last line, which has no newline, once the client has stopped sending.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.bytes.split_off(self.begin);
        *self = Self::default();
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all lines of a text pushed in pieces, each taken as soon as it is complete.
    fn cut(text: &[u8], pieces: &[usize]) -> (Vec<Vec<u8>>, bool, Option<Vec<u8>>) {
        let (mut lines, mut found, mut rest) = (Lines::default(), Vec::new(), text);
        let mut pieces = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(pieces.next().unwrap().min(rest.len()));
            rest = after;
            lines.push(piece);
            loop {
                match lines.next() {
                    Next::Line(line) => found.push(line.to_vec()),
                    Next::TooLong => return (found, true, None),
                    Next::Incomplete => break,
                }
            }
        }
        let last = lines.rest();
        (found, false, last)
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_arrive(
            text in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()],
                0..60,
            ),
            pieces in proptest::collection::vec(1..9_usize, 0..20),
        ) {
            let (found, too_long, rest) = cut(&text, &pieces);
            prop_assert!(!too_long);
            let mut expected: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let last = expected.pop().unwrap();
            expected.retain(|line| !line.is_empty());
            prop_assert_eq!(found, expected);
            prop_assert_eq!(rest.unwrap_or_default(), last);
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_it_says_and_no_longer() {
        let mut text = vec![b'a'; REQUEST_BYTES_MAX];
        text.push(b'\n');
        for pieces in [&[][..], &[1, 4096], &[REQUEST_BYTES_MAX, 1]] {
            assert_eq!(cut(&text, pieces).0, [&text[..REQUEST_BYTES_MAX]]);
        }
        text.insert(0, b'a');
        for pieces in [&[][..], &[1, 4096], &[REQUEST_BYTES_MAX + 1, 1]] {
            assert!(cut(&text, pieces).1, "{pieces:?}");
        }
        let mut lines = Lines::default();
        lines.push(b"{}\n");
        lines.push(&text);
        assert_eq!(lines.next(), Next::Line(b"{}"));
        assert_eq!((lines.next() == Next::TooLong, lines.next()), (true, Next::TooLong));
    }
}
