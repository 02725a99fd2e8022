//! A process that may not even reserve addresses for a later resize has a tier of exactly its size. Alone in its program:
//! the limit is the process's.

use tiercache::status::Request;
use tiercache::{Config, MediumChoice, Tier};

#[test]
fn a_tier_opens_where_addresses_are_scarce() {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this process");
    let pages: u64 = text
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok())
        .expect("pages");
    let size_bytes = 256u64 << 20;
    let most = pages * 4096 + 4 * size_bytes;
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: plain data.
    let answer = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(answer, 0);
    for medium in [MediumChoice::Memory, MediumChoice::MemoryLz4] {
        let config = Config {
            size_bytes,
            medium,
            ..Config::default()
        };
        let tier = Tier::open(config).expect("a tier of its size");
        let grown = tier.perform(Request::Resize(2 * size_bytes));
        assert!(grown.is_err_and(|why| why.contains("can grow to")));
        tier.perform(Request::Resize(size_bytes / 2)).expect("less");
    }
}
