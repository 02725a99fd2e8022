//! One direction of a TCP connection, put together by its sequence numbers.

use std::collections::BTreeMap;

/// Bytes that came ahead of a hole are kept up to here: more than any window that a database's clients use.
const AHEAD_BYTES: usize = 16 * 1024 * 1024;
/// A sequence number farther away than this belongs to another connection on the same ports.
const FAR: i32 = 64 * 1024 * 1024;

/// What a direction turns out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// So many bytes were sent that the capture does not have.
    Gap(u64),
}

/// Takes parts in order.
pub type Out<'a> = &'a mut dyn FnMut(Part);

/// What came ahead of a hole: bytes, and how many behind them the capture cut off.
#[derive(Debug)]
struct Ahead {
    bytes: Vec<u8>,
    cut: u64,
}

/// The direction, as far as it is known.
#[derive(Debug, Default)]
pub struct Half {
    /// Sequence number of offset 0; none before anything was seen of the direction.
    origin: Option<u32>,
    /// Up to here all is known or said to be missing.
    next: u64,
    ahead: BTreeMap<u64, Ahead>,
    ahead_bytes: usize,
    /// Where the direction ends.
    fin: Option<u64>,
    /// Segments that brought nothing new.
    pub repeated: u64,
}

impl Half {
    /// The next byte will have this number, where that is not known already.
    pub fn start(&mut self, seq: u32) {
        self.origin.get_or_insert(seq);
    }

    /// Whether the direction began with this number.
    #[must_use]
    pub fn began_at(&self, seq: u32) -> bool {
        self.origin == Some(seq)
    }

    /// Whether a number cannot be one of this direction's.
    #[must_use]
    pub fn is_far(&self, seq: u32) -> bool {
        self.distance(seq)
            .is_some_and(|far| far.unsigned_abs() > FAR.unsigned_abs())
    }

    /// How far a number is from the next one.
    fn distance(&self, seq: u32) -> Option<i32> {
        let next = self.origin?.wrapping_add(self.next as u32);
        Some(seq.wrapping_sub(next) as i32)
    }

    /// A number's offset; 0 for one from before the origin.
    fn offset(&mut self, seq: u32) -> u64 {
        self.start(seq);
        let distance = self.distance(seq).unwrap_or_default();
        self.next.saturating_add_signed(distance.into())
    }

    /// How many bytes of a segment lie before the origin.
    fn early(&self, seq: u32) -> u64 {
        let distance = i64::from(self.distance(seq).unwrap_or_default());
        let at = i64::try_from(self.next).unwrap_or(i64::MAX) + distance;
        if at < 0 { at.unsigned_abs() } else { 0 }
    }

    /// A segment: its bytes, and how many behind them the capture cut off.
    pub fn take(&mut self, seq: u32, bytes: &[u8], cut: u64, out: Out) {
        let start = self.offset(seq);
        // The end of a direction has a number, too: one who only acknowledges behind it says nothing of bytes.
        if bytes.is_empty() && cut == 0 {
            return;
        }
        let early = self.early(seq);
        let skipped = usize::try_from(early)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let cut = cut.saturating_sub(early - skipped as u64);
        let bytes = &bytes[skipped..];
        let end = start + bytes.len() as u64 + cut;
        if end <= self.next {
            self.repeated += u64::from(end > start || early > 0);
            return;
        }
        if start <= self.next {
            self.pass(start, bytes, cut, out);
            self.pass_ahead(out);
            return;
        }
        let known = self.ahead.get(&start);
        if known.is_some_and(|known| known.bytes.len() >= bytes.len()) {
            self.repeated += 1;
            return;
        }
        self.ahead_bytes += bytes.len();
        let ahead = Ahead {
            bytes: bytes.to_vec(),
            cut,
        };
        if let Some(shorter) = self.ahead.insert(start, ahead) {
            self.ahead_bytes -= shorter.bytes.len();
        }
        while self.ahead_bytes > AHEAD_BYTES {
            self.skip_to_ahead(out);
        }
    }

    /// The other side has all bytes before this number: what the capture lacks of them was lost to it. Whether it says so with bytes of its
    /// own: nobody answers an end, so that a byte is missing where one number is.
    pub fn acked(&mut self, ack: u32, with_bytes: bool, out: Out) {
        let mut target = self.offset(ack);
        if let Some(fin) = self.fin {
            target = target.min(fin);
        }
        while self.next < target {
            match self.ahead.first_key_value() {
                Some((&start, _)) if start <= target => self.skip_to_ahead(out),
                // One number more than there are bytes: the end of the direction, which the capture may not have seen, has one, too.
                None if target == self.next + 1 && self.fin.is_none() && !with_bytes => return,
                _ => {
                    self.gap(target, out);
                    self.pass_ahead(out);
                }
            }
        }
    }

    /// Whether bytes before this number are known to be lost: see [`Self::acked`].
    pub fn lacks(&mut self, ack: u32, with_bytes: bool) -> bool {
        let target = self.offset(ack).min(self.fin.unwrap_or(u64::MAX));
        let may_be_the_end = self.fin.is_none() && !with_bytes && self.ahead.is_empty();
        target > self.next + u64::from(may_be_the_end)
    }

    /// Pass on what came ahead and lies before this number; nobody waits for the holes before it.
    pub fn pass_before(&mut self, seq: u32, out: Out) {
        let end = self.offset(seq);
        while self
            .ahead
            .first_key_value()
            .is_some_and(|(&start, _)| start < end)
        {
            self.skip_to_ahead(out);
        }
    }

    /// The direction ends behind so many bytes from this number on.
    pub fn finish(&mut self, seq: u32, len: u64) {
        self.fin = Some(self.offset(seq) + len);
    }

    /// Whether everything up to the end was seen.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next >= fin)
    }

    /// Nothing more will come: what lies behind holes is passed on.
    pub fn flush(&mut self, out: Out) {
        while !self.ahead.is_empty() {
            self.skip_to_ahead(out);
        }
        if let Some(fin) = self.fin {
            self.gap(fin, out);
        }
    }

    /// What tells its segments from another connection's, without what was held.
    #[must_use]
    pub fn remembered(self) -> Self {
        Self {
            origin: self.origin,
            next: self.next,
            ..Self::default()
        }
    }

    /// Say that the hole before the first that came ahead is one.
    fn skip_to_ahead(&mut self, out: Out) {
        if let Some((&start, _)) = self.ahead.first_key_value() {
            self.gap(start, out);
        }
        self.pass_ahead(out);
    }

    fn gap(&mut self, to: u64, out: Out) {
        if to > self.next {
            out(Part::Gap(to - self.next));
            self.next = to;
        }
    }

    /// Pass on what is new of a segment that begins at or before the next byte.
    fn pass(&mut self, start: u64, bytes: &[u8], cut: u64, out: Out) {
        let known = usize::try_from(self.next - start).unwrap_or(usize::MAX);
        if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
            out(Part::Bytes(new));
            self.next += new.len() as u64;
        }
        if cut > 0 {
            self.gap(start + bytes.len() as u64 + cut, out);
        }
    }

    /// Pass on what came ahead and is next now.
    fn pass_ahead(&mut self, out: Out) {
        while let Some(first) = self.ahead.first_entry() {
            let start = *first.key();
            if start > self.next {
                return;
            }
            let ahead = first.remove();
            self.ahead_bytes -= ahead.bytes.len();
            self.pass(start, &ahead.bytes, ahead.cut, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &[u8] = b"the quick brown fox jumps over the lazy dog";

    /// Bytes by their places; gaps as so many `_`.
    struct Seen(Vec<u8>);

    impl Seen {
        fn take(&mut self, half: &mut Half, seq: u32, bytes: &[u8], cut: u64) {
            half.take(seq, bytes, cut, &mut |part| self.part(part));
        }

        fn part(&mut self, part: Part) {
            match part {
                Part::Bytes(bytes) => self.0.extend_from_slice(bytes),
                Part::Gap(len) => self.0.extend(std::iter::repeat_n(b'_', len as usize)),
            }
        }
    }

    /// A direction that began at this number, and what was seen of it.
    fn half(seq: u32) -> (Half, Seen) {
        let mut half = Half::default();
        half.start(seq);
        (half, Seen(Vec::new()))
    }

    #[test]
    fn what_comes_late_is_put_in_order_across_the_turn_of_the_numbers() {
        let first = u32::MAX - 9;
        let (mut half, mut seen) = half(first);
        let at = |from: usize| first.wrapping_add(from as u32);
        seen.take(&mut half, at(20), &STREAM[20..43], 0);
        seen.take(&mut half, at(10), &STREAM[10..20], 0);
        assert!(seen.0.is_empty());
        seen.take(&mut half, at(0), &STREAM[..12], 0);
        assert_eq!(seen.0, STREAM);
        // Sent again, in part and whole.
        seen.take(&mut half, at(30), &STREAM[30..], 0);
        seen.take(&mut half, at(0), &STREAM[..5], 0);
        assert_eq!((seen.0.as_slice(), half.repeated), (STREAM, 2));
        half.finish(at(43), 0);
        assert!(half.is_finished());
    }

    #[test]
    fn what_was_acknowledged_and_not_seen_is_a_gap_before_anything_else() {
        let (mut half, mut seen) = half(5);
        seen.take(&mut half, 5, b"abc", 0);
        seen.take(&mut half, 12, b"hij", 0);
        half.acked(8, true, &mut |part| seen.part(part));
        assert_eq!(seen.0, b"abc", "nothing is missing yet");
        half.acked(15, true, &mut |part| seen.part(part));
        assert_eq!(seen.0, b"abc____hij");
        half.acked(20, false, &mut |part| seen.part(part));
        assert_eq!(seen.0, b"abc____hij_____");
        seen.take(&mut half, 8, b"defg", 0);
        assert_eq!(seen.0.len(), 15, "too late");
    }

    #[test]
    fn an_end_that_was_not_seen_is_no_missing_byte() {
        let (mut half, mut seen) = half(0);
        seen.take(&mut half, 0, b"bye", 0);
        half.acked(4, false, &mut |part| seen.part(part));
        assert_eq!(seen.0, b"bye");
        half.finish(3, 0);
        half.acked(4, false, &mut |part| seen.part(part));
        assert!(half.is_finished() && seen.0 == b"bye");
    }

    #[test]
    fn a_last_byte_that_was_answered_and_not_seen_is_missing() {
        let (mut half, mut seen) = half(0);
        seen.take(&mut half, 0, b"SELECT ", 0);
        half.acked(8, true, &mut |part| seen.part(part));
        assert_eq!(seen.0, b"SELECT _");
    }

    #[test]
    fn what_is_missing_before_an_end_that_was_seen_is_known() {
        let (mut half, mut seen) = half(0);
        half.finish(3, 0);
        // The acknowledgement of the other side's end, behind our own.
        seen.take(&mut half, 4, b"", 0);
        half.flush(&mut |part| seen.part(part));
        assert_eq!(seen.0, b"___");
    }

    #[test]
    fn what_the_capture_cut_off_is_a_gap() {
        let (mut half, mut seen) = half(0);
        seen.take(&mut half, 10, b"efg", 2);
        seen.take(&mut half, 0, b"abcd", 6);
        assert_eq!(seen.0, b"abcd______efg__");
        seen.take(&mut half, 15, b"h", 0);
        assert_eq!(seen.0, b"abcd______efg__h");
    }

    #[test]
    fn a_keepalive_and_what_lies_before_the_first_byte_are_nothing_new() {
        let (mut half, mut seen) = half(100);
        seen.take(&mut half, 99, b"x", 0);
        seen.take(&mut half, 98, b"xxab", 0);
        assert_eq!(seen.0, b"ab");
        assert!(half.is_far(100 + 2 * FAR as u32) && !half.is_far(90));
    }

    #[test]
    fn what_waits_behind_a_hole_is_bounded() {
        let (mut half, mut seen) = half(0);
        let segment = vec![7; 1024 * 1024];
        for number in 0..20_u32 {
            seen.take(&mut half, 10 + number * 1024 * 1024, &segment, 0);
            assert!(half.ahead_bytes <= AHEAD_BYTES);
        }
        assert_eq!(&seen.0[..11], b"__________\x07");
        half.flush(&mut |part| seen.part(part));
        assert_eq!(seen.0.len(), 10 + 20 * 1024 * 1024);
    }

    proptest! {
        /// Segments of one stream, in any order, overlapping, repeated and lost: every byte comes once, at its place, or is said to be
        /// missing, and none is missing that a segment had in time.
        #[test]
        fn any_segments_make_the_stream_or_say_what_is_missing(
            origin in any::<u32>(),
            stream in proptest::collection::vec(128_u8..255, 1..400),
            pieces in proptest::collection::vec((0_usize..400, 1_usize..80, 0_usize..2000), 0..80),
            with_bytes in any::<bool>(),
        ) {
            let (mut half, mut seen) = half(origin);
            let mut had = vec![false; stream.len()];
            for (from, len, ack) in pieces {
                let from = from.min(stream.len());
                let to = (from + len).min(stream.len());
                if ack <= stream.len() {
                    half.acked(origin.wrapping_add(ack as u32), with_bytes, &mut |part| seen.part(part));
                }
                had[from.max(seen.0.len()).min(to)..to].fill(true);
                seen.take(&mut half, origin.wrapping_add(from as u32), &stream[from..to], 0);
            }
            half.flush(&mut |part| seen.part(part));
            prop_assert!(seen.0.len() <= stream.len());
            for (place, &byte) in seen.0.iter().enumerate() {
                let right = if had[place] { stream[place] } else { b'_' };
                prop_assert_eq!(byte, right, "at {}", place);
            }
            prop_assert!(!had[seen.0.len()..].contains(&true));
        }
    }
}
