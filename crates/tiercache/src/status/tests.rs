use std::time::Duration;

use super::layout::{Page, VERSION};
use super::snapshot::quantile_ns;
use super::{Counter, FileStatus, Reason, Request, RequestError, StatusError, StatusPage};
use crate::config::{Config, Mode};
use crate::testing::Folder;

#[test]
fn a_reader_sees_what_the_tier_counts() {
    let folder = Folder::new();
    let path = folder.path("status");
    let writer = StatusPage::create(&path, &Config::default()).expect("create");
    writer.add(Counter::Hits, 3);
    writer.bypass(Reason::Sequential);
    writer.record_hit_ns(1000);
    writer.publish(&[FileStatus {
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
    let folder = Folder::new();
    let path = folder.path("other");
    crate::private::open(&path).expect("a file of this user's");
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
    let folder = Folder::new();
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
    let folder = Folder::new();
    let path = folder.path("status");
    let tier = StatusPage::create(&path, &Config::default()).expect("create");
    let page = StatusPage::attach(&path).expect("attach");
    let ticket = page
        .request(Request::Mode(Mode::WriteAround))
        .expect("request");
    assert!(page.request(Request::Drop).is_err(), "one at a time");
    let unanswered = page.wait(ticket, Duration::from_millis(5));
    assert!(matches!(unanswered, Err(RequestError::Unanswered(_))));
    assert!(!tier.answer(|_| panic!("taken back")));
    let ticket = page.request(Request::Resize(7)).expect("request");
    let answered = tier.answer(|request| {
        assert_eq!(request, Request::Resize(7));
        Err("too small".into())
    });
    assert!(answered && !tier.answer(|_| panic!("answered")));
    assert_eq!(
        page.wait(ticket, Duration::from_secs(1)),
        Err(RequestError::Refused("too small".into()))
    );
    // Asked and gone, before and after the answer: the next one is heard all the same.
    page.request(Request::Drop).expect("request");
    assert!(tier.answer(|_| Ok("nobody reads this".into())));
    let next = StatusPage::attach(&path).expect("attach");
    let ticket = next.request(Request::Flush).expect("request");
    assert!(tier.answer(|_| Ok("done".into())));
    assert_eq!(next.wait(ticket, Duration::from_secs(1)), Ok("done".into()));
}

#[test]
fn a_cut_file_grows_again() {
    let folder = Folder::new();
    let path = folder.path("status");
    let tier = StatusPage::create(&path, &Config::default()).expect("create");
    let reader = StatusPage::attach(&path).expect("attach");
    std::fs::File::create(&path).expect("cut to nothing");
    tier.add(Counter::Hits, 5);
    tier.publish(&[]);
    assert!(!tier.answer(|_| panic!("nobody asked")));
    let later = StatusPage::attach(&path);
    let seen = later.expect("whole again").snapshot();
    assert_eq!(seen.counter(Counter::Hits), 5);
    std::fs::File::create(&path).expect("cut to nothing");
    assert_eq!(reader.pid(), std::process::id(), "what it read before");
}

/// Another layout is another version: whoever changes one of these numbers changes the first of them.
#[test]
fn another_layout_has_another_version() {
    let places = [
        std::mem::offset_of!(Page, medium),
        std::mem::offset_of!(Page, shards),
        std::mem::offset_of!(Page, files),
        std::mem::offset_of!(Page, control),
        size_of::<Page>(),
    ];
    let counted = (Counter::ALL.len(), Reason::ALL.len());
    assert_eq!(
        (VERSION, places, counted),
        (2, [120, 1280, 17664, 36104, 36864], (23, 14))
    );
}
