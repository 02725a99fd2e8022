use std::time::Duration;

use super::layout::Page;
use super::snapshot::quantile_ns;
use super::{Counter, FileStatus, Reason, Request, StatusError, StatusPage};
use crate::config::{Config, Mode};
use crate::testing::Folder;

#[test]
fn a_reader_sees_what_the_tier_counts() {
    let folder = Folder::new("status-read");
    let path = folder.path("status");
    let writer = StatusPage::create(&path, &Config::default()).expect("create");
    writer.add(Counter::Hits, 3);
    writer.bypass(Reason::Sequential);
    writer.record_hit_ns(1000);
    writer.publish_files(&[FileStatus {
        name: "t.ibd".into(),
        hits: 1,
        misses: 2,
        pages: 3,
    }]);
    let snapshot = StatusPage::attach(&path).expect("attach").snapshot();
    assert_eq!(snapshot.counter(Counter::Hits), 3);
    assert_eq!(snapshot.bypass(Reason::Sequential), 1);
    assert_eq!(snapshot.hit_ns[9], 1);
    assert_eq!(quantile_ns(&snapshot.hit_ns, 0.5), Some(1024));
    assert_eq!(quantile_ns(&snapshot.miss_ns, 0.5), None);
    assert_eq!((snapshot.pid, snapshot.alive), (std::process::id(), true));
    assert_eq!(
        (snapshot.mode, snapshot.medium.as_str()),
        (Some(Mode::WriteThrough), "memory")
    );
    assert_eq!(snapshot.files.len(), 1);
}

#[test]
fn other_files_and_versions_are_refused() {
    let folder = Folder::new("status-refuse");
    let path = folder.path("other");
    std::fs::write(&path, b"precious").expect("write");
    assert!(matches!(
        StatusPage::attach(&path),
        Err(StatusError::NotAStatusPage(_))
    ));
    assert!(matches!(
        StatusPage::create(&path, &Config::default()),
        Err(StatusError::NotAStatusPage(_))
    ));
    assert_eq!(std::fs::read(&path).expect("read"), b"precious");
    let path = folder.path("status");
    drop(StatusPage::create(&path, &Config::default()).expect("create"));
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[8] = 99;
    std::fs::write(&path, &bytes).expect("write");
    assert!(matches!(
        StatusPage::attach(&path),
        Err(StatusError::OtherVersion(_, 99, _))
    ));
    assert!(
        StatusPage::create(&path, &Config::default()).is_ok(),
        "a page of another version may be replaced"
    );
}

#[test]
fn a_second_tier_on_the_page_is_refused() {
    let folder = Folder::new("status-lock");
    let path = folder.path("status");
    let first = StatusPage::create(&path, &Config::default()).expect("create");
    first.add(Counter::Hits, 1);
    assert!(
        matches!(StatusPage::create(&path, &Config::default()), Err(StatusError::InUse(_, pid)) if pid == std::process::id())
    );
    assert_eq!(
        first.snapshot().counter(Counter::Hits),
        1,
        "the first one's counters stay"
    );
}

#[test]
fn a_request_is_answered_or_taken_back() {
    let page = StatusPage::private(&Config::default()).expect("page");
    let ticket = page
        .request(Request::Mode(Mode::WriteAround))
        .expect("request");
    assert!(page.request(Request::Drop).is_err(), "one at a time");
    assert!(page.wait(ticket, Duration::from_millis(5)).is_err());
    assert!(!page.pending(), "taken back");
    let ticket = page.request(Request::Resize(7)).expect("request");
    page.answer(|request| {
        assert_eq!(request, Request::Resize(7));
        Err("too small".into())
    });
    assert_eq!(
        page.wait(ticket, Duration::from_secs(1)),
        Err("too small".into())
    );
    assert!(page.request(Request::Drop).is_ok());
}

#[test]
fn the_page_keeps_its_layout() {
    assert_eq!(align_of::<Page>(), 4096);
    assert!(size_of::<Page>() < 64 << 10, "{}", size_of::<Page>());
}
