//! Numbers and texts as bytes, in captures and in the recordings of the load client: LEB128, zigzag before it for signed numbers.

/// Bytes that are not what a trace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block has contents that no trace has")]
pub struct Malformed;

/// LEB128: seven bits a byte, the lowest first.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number that may be negative; small ones of both signs are short.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// A number that may be none: 0 for that, else one more.
pub fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    put_number(out, number.map_or(0, |number| number.saturating_add(1)));
}

/// Bytes after their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes bytes apart.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next one.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// What [`put_number`] put there.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// A number that fits into less.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// What [`put_signed`] put there.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// What [`put_option`] put there.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn option(&mut self) -> Result<Option<u64>, Malformed> {
        Ok(self.number()?.checked_sub(1))
    }

    /// So many, as they are.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// What [`put_bytes`] put there.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.small()?;
        self.take(length)
    }

    /// The same, as UTF-8.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn text(&mut self) -> Result<String, Malformed> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed)
    }

    /// So many, as they are.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}
