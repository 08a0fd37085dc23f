//! Bytes from a client, cut into lines.

use crate::protocol::REQUEST_BYTES_MAX;

/// What has been read of a client and not yet been looked at: never more than a line that is too
/// long and what was read along with it.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    begin: usize,
    /// Up to here there is no end of a line.
    searched: usize,
}

/// The next line, if there is one.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole line, without its end.
    Line(&'a [u8]),
    /// A line is longer than it may be. So is every answer after this one.
    TooLong,
    /// More must be read.
    Incomplete,
}

impl Lines {
    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next line. Empty lines are passed over.
    pub fn next(&mut self) -> Next<'_> {
        loop {
            let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.bytes.len();
                if self.searched - self.begin > REQUEST_BYTES_MAX {
                    return Next::TooLong;
                }
                if self.begin == self.searched {
                    // Nothing is kept for clients that have nothing to say.
                    *self = Self::default();
                }
                return Next::Incomplete;
            };
            if end - self.begin > REQUEST_BYTES_MAX {
                // It stays the next one.
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

    /// Takes what is left when nothing more will come: a last line without an end.
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

    /// All lines of a text that is pushed in pieces, each taken as soon as it is there.
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
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0..60),
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
