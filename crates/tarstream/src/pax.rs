//! Parser for the body of a PAX header: records of the form `length key=value\n`.
//!
//! A record ends exactly where its declared length says: values may contain newlines. The length
//! counts the whole record, including its own digits and the newline.

use crate::printable;
use thiserror::Error;

/// One record. The key is not empty. Neither part is interpreted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'b> {
    /// Position of the record's first byte in the body.
    pub(crate) position: usize,
    pub(crate) key: &'b [u8],
    pub(crate) value: &'b [u8],
}

/// Iterator over the records of a body, up to the first malformed one, which it returns with its
/// position.
pub(crate) struct Records<'b> {
    body: &'b [u8],
    position: usize,
}

/// A defect of a PAX record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PaxProblem {
    /// The record does not start with decimal digits and one space.
    #[error("it does not start with its length")]
    Length,
    /// The declared length exceeds the header.
    #[error("its length is {found}, but only {available} bytes of the header are left")]
    LengthOutOfRange {
        /// The declared length.
        found: u64,
        /// Bytes from the record's start to the header's end.
        available: u64,
    },
    /// No newline where the declared length ends.
    #[error("there is no newline at the end given by its length")]
    Newline,
    /// No equals sign, or a key that is empty or contains a NUL.
    #[error("it has no key")]
    Key,
    /// An empty path or link target.
    #[error("{key} is empty")]
    EmptyValue {
        /// The record's key.
        key: &'static str,
    },
    /// A path or link target that contains a NUL.
    #[error("{key} contains a NUL")]
    NulInValue {
        /// The record's key.
        key: &'static str,
    },
    /// A key that matters occurs twice. Readers disagree on which one applies.
    #[error("{key} occurs twice")]
    DuplicateKey {
        /// The repeated key.
        key: &'static str,
    },
    /// The size is not made of decimal digits, or does not fit a signed 64-bit number.
    #[error("size is not a decimal number in range: \"{found}\"")]
    Size {
        /// The value, escaped for display.
        found: String,
    },
    /// A global header that would change the entries after it.
    #[error("a global header must not set {key}")]
    GlobalKey {
        /// The record's key, escaped for display.
        key: String,
    },
}

pub(crate) fn records(body: &[u8]) -> Records<'_> {
    Records { body, position: 0 }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<Record<'b>, (usize, PaxProblem)>;

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.position;
        let rest = self.body.get(position..).filter(|rest| !rest.is_empty())?;
        match split_record(rest) {
            Ok((length, key, value)) => {
                self.position += length;
                Some(Ok(Record { position, key, value }))
            }
            Err(problem) => {
                self.position = self.body.len();
                Some(Err((position, problem)))
            }
        }
    }
}

/// Parses the value of a `size` record: decimal digits, at most `i64::MAX`.
pub(crate) fn size(value: &[u8]) -> Result<u64, PaxProblem> {
    decimal(value)
        .filter(|&size| i64::try_from(size).is_ok())
        .ok_or_else(|| PaxProblem::Size { found: printable(value) })
}

fn split_record(rest: &[u8]) -> Result<(usize, &[u8], &[u8]), PaxProblem> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if rest.get(digits) != Some(&b' ') || rest[0] == b'0' {
        return Err(PaxProblem::Length);
    }
    let found = decimal(&rest[..digits]).ok_or(PaxProblem::Length)?;
    let available = rest.len() as u64;
    let out_of_range = PaxProblem::LengthOutOfRange { found, available };
    let length =
        usize::try_from(found).ok().filter(|&length| length <= rest.len()).ok_or(out_of_range)?;

    // A length that ends within its own digits leaves no newline to find.
    let Some([content @ .., b'\n']) = rest.get(digits + 1..length) else {
        return Err(PaxProblem::Newline);
    };
    let equals = content.iter().position(|&byte| byte == b'=').ok_or(PaxProblem::Key)?;
    let (key, value) = (&content[..equals], &content[equals + 1..]);
    if key.is_empty() || key.contains(&0) {
        return Err(PaxProblem::Key);
    }
    Ok((length, key, value))
}

/// Parses decimal digits only. Returns `None` for anything else and on overflow.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &[u8]) -> (usize, PaxProblem) {
        let mut errors = records(body).filter_map(Result::err);
        let first = errors.next().expect("the body is malformed");
        assert_eq!(errors.next(), None, "iteration stops at the first error");
        first
    }

    #[test]
    fn records_are_cut_by_length_not_by_newline() {
        let body = b"12 path=a\nb\n25 comment=11 path=trap\n\n6 a=b\n8 c==\n\n\n";
        let read: Vec<_> = records(body).collect::<Result<_, _>>().expect("well formed");
        let record = |position, key, value| Record { position, key, value };
        assert_eq!(
            read,
            [
                record(0, b"path", b"a\nb"),
                record(12, b"comment", b"11 path=trap\n"),
                record(37, b"a", b"b"),
                record(43, b"c", b"=\n\n"),
            ]
        );
        assert_eq!(records(b"").count(), 0);
    }

    #[test]
    fn malformed_lengths() {
        for body in
            [&b" 6 a=b\n"[..], b"+6 a=b\n", b"-6 a=b\n", b"06 a=b\n", b"6  a=b", b"6\ta=b\n"]
        {
            let (position, problem) = problem(body);
            let is_length = matches!(problem, PaxProblem::Length | PaxProblem::Newline);
            assert!(is_length && position == 0, "{}: {problem:?}", printable(body));
        }
        assert_eq!(problem(b"6"), (0, PaxProblem::Length));
        assert_eq!(problem(b"a=b\n"), (0, PaxProblem::Length));
        assert_eq!(problem(b"0 "), (0, PaxProblem::Length));
        assert_eq!(problem(&[b'9'; 600]), (0, PaxProblem::Length));
        assert_eq!(problem(b"99999999999999999999 a=b\n"), (0, PaxProblem::Length));
        assert_eq!(problem(b"6 a=b\n\0\0"), (6, PaxProblem::Length));
        let out_of_range = PaxProblem::LengthOutOfRange { found: 7, available: 6 };
        assert_eq!(problem(b"6 a=b\n7 c=d\n"), (6, out_of_range));
    }

    #[test]
    fn malformed_contents() {
        assert_eq!(problem(b"5 a=b\n"), (0, PaxProblem::Newline));
        assert_eq!(problem(b"1 a=b\n"), (0, PaxProblem::Newline));
        assert_eq!(problem(b"2 a=b\n"), (0, PaxProblem::Newline));
        assert_eq!(problem(b"3 \n"), (0, PaxProblem::Key));
        assert_eq!(problem(b"6 abc\n"), (0, PaxProblem::Key));
        assert_eq!(problem(b"6 =bc\n"), (0, PaxProblem::Key));
        assert_eq!(problem(b"8 a\0b=c\n"), (0, PaxProblem::Key));
    }

    #[test]
    fn sizes() {
        assert_eq!(size(b"0"), Ok(0));
        assert_eq!(size(b"9223372036854775807"), Ok(i64::MAX as u64));
        for value in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"0x1", b"9223372036854775808", b"1e3"]
        {
            assert_eq!(size(value), Err(PaxProblem::Size { found: printable(value) }));
        }
    }
}
