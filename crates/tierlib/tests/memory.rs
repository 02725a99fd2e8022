//! Which requests free the memory of a tier in memory, as docs/how-to/second-tier-spare-memory.md says.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Numbers, counter, folder, get, open, path, preloaded, run_as};
use tiercache::StatusPage;
use tiercache::status::Request;

workers!(memory_worker);

const PAGE: usize = 16 << 10;
const SIZE: usize = 64 << 20;
/// What else a process takes and gives back meanwhile.
const SLACK: usize = 16 << 20;

#[test]
fn a_resize_frees_the_memory_that_an_emptied_tier_keeps() {
    let test = tempfile::tempdir().expect("a folder");
    let mut worker = preloaded("memory_worker", &test);
    worker.env("UPSHIFT_TIER_SIZE", SIZE.to_string());
    let text = run_as(worker.env("UPSHIFT_TIER_PAGE_SIZE", PAGE.to_string()));
    assert!(counter(&text, "hits") > 0, "{text}");
}

/// Memory of this process, in swap or not.
fn taken_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process is listed");
    let kib = |name: &str| -> usize {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
        value.expect("a line").parse().expect("a number")
    };
    (kib("VmRSS:") + kib("VmSwap:")) << 10
}

fn ask(request: Request) -> String {
    let page = StatusPage::attach(&Path::new(&folder()).join("status")).expect("the page");
    let ticket = page.request(request).expect("nobody else asks");
    page.wait(ticket, Duration::from_secs(30))
        .expect("an answer")
}

fn memory_worker() {
    let before = taken_bytes();
    let fd = open(&path("memory.ibd"), libc::O_RDWR);
    let mut numbers = Numbers(1);
    for offset in (0..SIZE as i64).step_by(PAGE) {
        let data = [numbers.next() as u8; PAGE];
        // SAFETY: the array has as many bytes.
        let answer = unsafe { libc::pwrite64(fd, data.as_ptr().cast(), PAGE, offset) };
        assert_eq!(answer, PAGE as isize);
    }
    get(fd, SIZE as i64 - 4096).expect("a hit");
    let full = taken_bytes();
    assert!(full > before + SIZE - SLACK, "{before} {full}");
    assert!(!ask(Request::Drop).starts_with("0 pages"));
    let emptied = taken_bytes();
    assert!(emptied > full - SLACK, "{full} {emptied}");
    ask(Request::Resize(1 << 20));
    let resized = taken_bytes();
    assert!(resized < full - SIZE + SLACK, "{full} {resized}");
    // As large as the tier: it does not stay behind.
    // SAFETY: the path ends in a zero byte.
    assert_eq!(unsafe { libc::unlink(path("memory.ibd").as_ptr()) }, 0);
}
