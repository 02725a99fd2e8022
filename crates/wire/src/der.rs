//! As much of DER as a public key and the outside of a certificate need. What it reads comes from servers that have proven nothing yet.

/// The types that are read here.
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Takes elements apart from the begin on.
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element; `None` where it is of another type, or ends too late.
    pub(crate) fn next(&mut self, kind: u8) -> Option<&'a [u8]> {
        let (&[found, first], mut rest) = self.0.split_first_chunk()?;
        let length = match first {
            0..=0x7F => usize::from(first),
            0x81 => {
                let (&[low], after) = rest.split_first_chunk()?;
                rest = after;
                low.into()
            }
            0x82 => {
                let (bytes, after) = rest.split_first_chunk()?;
                rest = after;
                u16::from_be_bytes(*bytes).into()
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        (found == kind).then_some(content)
    }

    /// The next element's own elements.
    pub(crate) fn inside(&mut self) -> Option<Self> {
        self.next(SEQUENCE).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_each_length() {
        let long = [&[INTEGER, 0x82, 1, 0][..], &[7; 256]].concat();
        assert_eq!(Der(&long).next(INTEGER), Some(&[7; 256][..]));
        assert_eq!(Der(&[INTEGER, 0x81, 1, 9]).next(INTEGER), Some(&[9][..]));
        let mut two = Der(&[SEQUENCE, 3, INTEGER, 1, 5, OBJECT, 0]);
        assert_eq!(
            two.inside().and_then(|mut one| one.next(INTEGER)),
            Some(&[5][..])
        );
        assert_eq!(two.next(OBJECT), Some(&[][..]));
        for cut_off in [
            &[][..],
            &[INTEGER],
            &[INTEGER, 2, 1],
            &[INTEGER, 0x84, 0, 0, 0, 1, 1],
        ] {
            assert_eq!(Der(cut_off).next(INTEGER), None);
        }
        assert_eq!(Der(&[OBJECT, 0]).next(INTEGER), None);
    }
}
