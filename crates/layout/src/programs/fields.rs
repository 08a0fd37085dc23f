//! Fields read one after the other.

/// The data ends too early, or a mark in it has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The rest of an account's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'d>(pub &'d [u8]);

impl<'d> Fields<'d> {
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (value, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*value)
    }

    pub fn key(&mut self) -> Result<[u8; 32], Malformed> {
        self.array()
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    /// Reads a value of bincode that may be absent: a byte, then the value if that is 1.
    pub fn option<T>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        match self.byte()? {
            0 => Ok(None),
            1 => value(self).map(Some),
            _ => Err(Malformed),
        }
    }

    /// Reads a value of the token program that may be absent: four bytes, then the value in any case.
    pub fn c_option<T>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let is_some = match self.u32()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        value(self).map(|value| is_some.then_some(value))
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'d [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads the items of a bincode sequence: their number, then `N` bytes for each.
    pub fn items<const N: usize>(&mut self) -> Result<&'d [[u8; N]], Malformed> {
        let count = usize::try_from(self.u64()?).map_err(|_| Malformed)?;
        let bytes = self.bytes(count.checked_mul(N).ok_or(Malformed)?)?;
        Ok(bytes.as_chunks().0)
    }
}
