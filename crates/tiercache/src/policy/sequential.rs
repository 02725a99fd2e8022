//! Which misses belong to a long sequential run.

/// A miss this far past the end of a run still continues it: the pages between were there.
const GAP_BYTES: u64 = 256 << 10;

#[derive(Default, Clone, Copy)]
struct Stream {
    end: u64,
    run_bytes: u64,
}

/// The latest runs of one file.
#[derive(Default)]
pub struct Streams {
    streams: [Stream; 4],
    next: usize,
}

impl Streams {
    /// Notes a miss; true when its run is now longer than `cutoff_bytes` (0: never).
    pub fn is_sequential(&mut self, offset: u64, length: u64, cutoff_bytes: u64) -> bool {
        if cutoff_bytes == 0 {
            return false;
        }
        let end = offset.saturating_add(length);
        let known = self
            .streams
            .iter_mut()
            .find(|s| s.run_bytes > 0 && offset >= s.end && offset - s.end <= GAP_BYTES);
        if let Some(stream) = known {
            stream.run_bytes = stream.run_bytes.saturating_add(end - stream.end);
            stream.end = end;
            return stream.run_bytes > cutoff_bytes;
        }
        self.streams[self.next] = Stream {
            end,
            run_bytes: length,
        };
        self.next = (self.next + 1) % self.streams.len();
        length > cutoff_bytes
    }
}
