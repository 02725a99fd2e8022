//! A disk that is too slow.

use std::io;
use std::sync::{Arc, Mutex};

use super::{Disk, Place, all, begin, query};
use crate::file::Storage;
use crate::{Ending, Record, TraceWriter};

/// A disk that takes nothing while the gate is held.
struct SlowDisk {
    disk: Disk,
    gate: Arc<Mutex<()>>,
}

impl Storage for SlowDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _open = self.gate.lock().expect("no panic");
        self.disk.append(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.cut(length)
    }
}

#[test]
fn records_tell_of_every_exchange_that_was_left_out() {
    let place = Place::new();
    let disk = Disk {
        bytes: Arc::default(),
        room: 1 << 30,
    };
    let gate = Arc::new(Mutex::new(()));
    let slow = SlowDisk {
        disk: disk.clone(),
        gate: Arc::clone(&gate),
    };
    let writer = TraceWriter::over(Box::new(slow), &place.path, &begin(false), 0).expect("room");
    let closed = gate.lock().expect("no panic");
    // Some 64 KiB a block: several blocks more than may wait.
    let count = 150_000;
    for number in 0..count {
        writer.observed(1, &query(&format!("SELECT {number}"), number));
    }
    drop(closed);
    writer.waits();
    writer.observed(1, &query("SELECT 1", count));
    let summary = writer.finish(Ending::default()).expect("room");
    std::fs::write(&place.path, &*disk.bytes.lock().expect("no panic")).expect("room");
    let told = all(&place.path)
        .0
        .into_iter()
        .filter_map(|record| match record {
            Record::Lost { exchanges } => Some(exchanges),
            _ => None,
        });
    assert!(summary.ending.lost > 10_000, "{summary:?}");
    assert_eq!(told.sum::<u64>(), summary.ending.lost);
}
