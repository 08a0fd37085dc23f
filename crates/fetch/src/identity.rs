//! Identity of an archive on a server.

use crate::{Address, FetchError, head::Head};

/// What must stay the same while an archive is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Length in bytes.
    pub bytes: u64,
    /// Strong tag.
    pub etag: Option<String>,
    /// Time of the last change, if there is no tag.
    pub last_modified: Option<String>,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Offset in the archive of its first byte.
    pub first: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The archive.
    pub identity: Identity,
    /// The connection can be used again after it.
    pub keeps: bool,
}

impl Body {
    /// Returns the body that follows a head: the bytes from `first` on, no more than to `last`, or all
    /// of the archive.
    pub fn of(
        head: Head,
        address: &Address,
        first: u64,
        last: Option<u64>,
    ) -> Result<Self, FetchError> {
        let refused = |reason: String| FetchError::Protocol { address: address.clone(), reason };
        if let Some(encoded) = head.encoded {
            return Err(refused(format!("the archive would come in another form ({encoded})")));
        }
        let (at, bytes, total) = match (head.status, head.range, head.content_bytes) {
            (200, _, Some(bytes)) => (0, bytes, bytes),
            (206, Some(range), length) => {
                let is_too_long = last.is_some_and(|last| range.last > last);
                let contradicts = length.is_some_and(|length| length != range.bytes());
                if range.first != first || is_too_long || contradicts {
                    return Err(refused(format!(
                        "bytes {first} to {} were requested, and bytes {} to {} of {} are sent{}",
                        last.map_or_else(|| "the end".to_owned(), |last| last.to_string()),
                        range.first,
                        range.last,
                        range.total,
                        if contradicts { ", with another length" } else { "" },
                    )));
                }
                (range.first, range.bytes(), range.total)
            }
            (200 | 206, _, _) => {
                return Err(refused(
                    "the server does not tell the length of the archive".to_owned(),
                ));
            }
            (412, _, _) => {
                return Err(FetchError::Changed {
                    address: address.clone(),
                    what: "its tag",
                    expected: "known".to_owned(),
                    found: "another one".to_owned(),
                });
            }
            _ => {
                let status = head.status_line;
                return Err(FetchError::Status { address: address.clone(), status });
            }
        };
        if bytes == 0 {
            return Err(refused("the archive is empty".to_owned()));
        }
        let last_modified = if head.etag.is_some() { None } else { head.last_modified };
        let identity = Identity { bytes: total, etag: head.etag, last_modified };
        Ok(Self { first: at, bytes, identity, keeps: !head.closes })
    }

    /// Returns whether the server has sent the requested range only.
    pub fn is_part(&self) -> bool {
        self.bytes < self.identity.bytes
    }
}

impl Identity {
    /// Refuses an archive that is not the first one any more.
    pub fn hold(&self, now: &Self, address: &Address) -> Result<(), FetchError> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let differs = [
            ("its length", self.bytes.to_string(), now.bytes.to_string()),
            ("its tag", text(&self.etag), text(&now.etag)),
            ("the time of its change", text(&self.last_modified), text(&now.last_modified)),
        ];
        match differs.into_iter().find(|(_, expected, found)| expected != found) {
            None => Ok(()),
            Some((what, expected, found)) => {
                Err(FetchError::Changed { address: address.clone(), what, expected, found })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unsnap_failure::{Failure, Family};

    use super::*;
    use crate::head::ContentRange;

    fn address() -> Address {
        Address::parse("http://a/x").unwrap()
    }

    fn part(first: u64, last: u64, total: u64) -> Head {
        let range = Some(ContentRange { first, last, total });
        Head { status: 206, range, ..Head::default() }
    }

    fn whole(bytes: Option<u64>) -> Head {
        Head { status: 200, content_bytes: bytes, ..Head::default() }
    }

    #[test]
    fn a_body_is_what_was_requested_or_everything() {
        let body = Body::of(part(5, 9, 100), &address(), 5, Some(9)).unwrap();
        assert_eq!((body.first, body.bytes, body.identity.bytes), (5, 5, 100));
        assert!(body.is_part() && body.keeps);
        // The archive may end before.
        assert!(Body::of(part(95, 99, 100), &address(), 95, Some(200)).is_ok());
        let body = Body::of(whole(Some(7)), &address(), 5, Some(6)).unwrap();
        assert_eq!((body.first, body.bytes, body.is_part()), (0, 7, false));
    }

    #[test]
    fn other_bodies_are_refused() {
        let of = |head| Body::of(head, &address(), 5, Some(9)).unwrap_err();
        for head in [
            part(4, 9, 100),
            part(5, 10, 100),
            Head { content_bytes: Some(4), ..part(5, 9, 100) },
            Head { status: 206, ..Head::default() },
            whole(None),
            whole(Some(0)),
            Head { encoded: Some("Content-Encoding: gzip".to_owned()), ..whole(Some(5)) },
            Head { status: 404, status_line: "404 Not Found".to_owned(), ..Head::default() },
        ] {
            assert_eq!(of(head).family(), Family::Environment);
        }
        assert_eq!(of(Head { status: 412, ..Head::default() }).family(), Family::BadArchive);
    }

    #[test]
    fn an_archive_that_changes_is_noticed() {
        let first = Identity { bytes: 5, etag: Some("\"a\"".to_owned()), last_modified: None };
        assert!(first.hold(&first.clone(), &address()).is_ok());
        for now in [
            Identity { bytes: 6, ..first.clone() },
            Identity { etag: Some("\"b\"".to_owned()), ..first.clone() },
            Identity { etag: None, ..first.clone() },
            Identity { last_modified: Some("then".to_owned()), ..first.clone() },
        ] {
            assert_eq!(first.hold(&now, &address()).unwrap_err().family(), Family::BadArchive);
        }
    }
}
