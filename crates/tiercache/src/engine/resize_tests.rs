//! Changes of size from several threads: tests of control.rs.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Tier;
use crate::config::Config;
use crate::index::Index;
use crate::medium::{Medium, MediumError};
use crate::status::{Request, StatusPage};

const PAGE: u64 = 4096;

/// A medium that takes its time to resize and refuses a second resize meanwhile.
#[derive(Default)]
struct OneAtATime(AtomicBool);

impl Medium for OneAtATime {
    fn read(&self, _slot: u32, _offset: usize, _dst: &mut [u8]) -> Result<(), MediumError> {
        Ok(())
    }

    fn write(&self, _slot: u32, _data: &[u8]) -> Result<(), MediumError> {
        Ok(())
    }

    fn resize(&self, _size_bytes: u64) -> io::Result<()> {
        if self.0.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other("a resize is under way"));
        }
        thread::sleep(Duration::from_millis(20));
        self.0.store(false, Ordering::Release);
        Ok(())
    }
}

#[test]
fn of_two_resizes_at_once_one_waits() {
    let config = Config {
        size_bytes: 16 * PAGE,
        page_size_bytes: PAGE as usize,
        ..Config::default()
    };
    let status = StatusPage::private(&config).expect("a page");
    let index = Index::new(16, 64, None).expect("an index");
    let medium = Box::new(OneAtATime::default());
    let tier = Tier::with_medium(config, status, medium, index, 64 * PAGE).expect("a tier");
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for pages in [8, 64] {
            let (tier, both) = (&tier, &both);
            scope.spawn(move || {
                both.wait();
                let answer = tier.perform(Request::Resize(pages * PAGE));
                assert_eq!(answer, Ok(format!("the tier has room for {pages} pages")));
            });
        }
    });
}
