//! Archives built block by block, so that the test controls every byte.

use std::ops::{Deref, DerefMut};

pub const BLOCK: usize = 512;
pub const GNU: [u8; 8] = *b"ustar  \0";
pub const POSIX: [u8; 8] = *b"ustar\x0000";
pub const V7: [u8; 8] = [0; 8];

/// A header block. Change its bytes through `DerefMut`. The checksum is computed when it is
/// written.
#[derive(Clone)]
pub struct Header([u8; BLOCK]);

impl Header {
    /// A header as the archiver of account files writes it: GNU magic, name, size, mtime 0, all
    /// else NUL.
    pub fn new(name: impl AsRef<[u8]>, size: u64) -> Self {
        let mut header = Self([0; BLOCK]);
        header.field(0, name.as_ref());
        header.field(124, format!("{size:011o}").as_bytes());
        header.field(136, b"00000000000");
        header.field(257, &GNU);
        header
    }

    pub fn of_type(typeflag: u8, name: impl AsRef<[u8]>, size: u64) -> Self {
        let mut header = Self::new(name, size);
        header[156] = typeflag;
        header
    }

    pub fn link(mut self, target: impl AsRef<[u8]>) -> Self {
        self.field(157, target.as_ref());
        self
    }

    pub fn magic(mut self, magic: [u8; 8]) -> Self {
        self.field(257, &magic);
        self
    }

    pub fn field(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the block with its checksum.
    pub fn block(&self) -> [u8; BLOCK] {
        self.block_with_sum(|bytes| bytes.iter().map(|&byte| i64::from(byte)).sum())
    }

    /// Returns the block with the checksum of a tar whose `char` was signed.
    pub fn block_with_signed_sum(&self) -> [u8; BLOCK] {
        self.block_with_sum(|bytes| bytes.iter().map(|&byte| i64::from(byte.cast_signed())).sum())
    }

    fn block_with_sum(&self, sum: impl Fn(&[u8]) -> i64) -> [u8; BLOCK] {
        let mut block = self.0;
        block[148..156].fill(b' ');
        let sum = format!("{:06o}\0 ", sum(&block));
        block[148..156].copy_from_slice(sum.as_bytes());
        block
    }
}

impl Deref for Header {
    type Target = [u8; BLOCK];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Header {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// An archive under construction.
#[derive(Clone, Default)]
pub struct Archive(Vec<u8>);

impl Archive {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn header(self, header: &Header) -> Self {
        self.raw(&header.block())
    }

    /// Appends bytes and their padding.
    pub fn content(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    pub fn file(self, name: impl AsRef<[u8]>, content: &[u8]) -> Self {
        self.header(&Header::new(name, content.len() as u64)).content(content)
    }

    pub fn directory(self, name: impl AsRef<[u8]>) -> Self {
        self.header(&Header::of_type(b'5', name, 0))
    }

    /// Appends a GNU long name (`L`) or long link (`K`), with its terminating NUL.
    pub fn long(self, typeflag: u8, name: impl AsRef<[u8]>) -> Self {
        let body = [name.as_ref(), b"\0"].concat();
        self.extension(typeflag, GNU, &body)
    }

    /// Appends a PAX header (`x` or `g`) with this body.
    pub fn pax(self, typeflag: u8, body: &[u8]) -> Self {
        self.extension(typeflag, POSIX, body)
    }

    pub fn extension(self, typeflag: u8, magic: [u8; 8], body: &[u8]) -> Self {
        let header = Header::of_type(typeflag, "extension", body.len() as u64).magic(magic);
        self.header(&header).content(body)
    }

    /// Appends the two zero blocks and returns the archive.
    pub fn end(self) -> Vec<u8> {
        self.raw(&[0; 2 * BLOCK]).0
    }

    /// Returns the archive without an end marker.
    pub fn cut(self) -> Vec<u8> {
        self.0
    }
}

/// Returns one PAX record with its computed length.
pub fn record(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    let content = [b" ", key.as_ref(), b"=", value.as_ref(), b"\n"].concat();
    let mut length = content.len();
    while length != content.len() + length.to_string().len() {
        length = content.len() + length.to_string().len();
    }
    [length.to_string().as_bytes(), &content].concat()
}

/// Returns a small archive with every construct that the walker accepts.
pub fn every_construct() -> Vec<u8> {
    let long = "long/".repeat(30) + "name";
    let ustar = {
        let mut header = Header::of_type(b'0', "name", 3).magic(POSIX);
        header.field(345, b"some/prefix");
        header
    };
    let sparse = {
        let mut header = Header::of_type(b'S', "sparse", 600);
        header[482] = 1;
        header
    };
    let (mut map_goes_on, map_ends) = ([7; BLOCK], [0; BLOCK]);
    map_goes_on[504] = 1;
    Archive::new()
        .pax(b'g', &record("comment", "0123456789abcdef"))
        .file("version", b"1.2.0")
        .directory("snapshots/")
        .file("empty", b"")
        .file("whole", &[1; BLOCK])
        .long(b'L', &long)
        .file("shortened", &[2; 700])
        .long(b'K', &long)
        .long(b'L', &long)
        .header(&Header::of_type(b'2', "symlink", 0).link("shortened"))
        .pax(b'x', &[record("path", "päx/path"), record("size", "1025")].concat())
        .header(&Header::of_type(b'0', "pax", 0).magic(POSIX))
        .content(&[3; 1025])
        .header(&ustar)
        .content(b"abc")
        .header(&sparse)
        .raw(&map_goes_on)
        .raw(&map_ends)
        .content(&[4; 600])
        .header(&Header::of_type(b'V', "label", 0))
        .header(&Header::of_type(b'1', "hard", 0).link("version").magic(V7))
        .end()
}
