//! Traces: what is written is read, and what is damaged is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng;
use tempfile::TempDir;
use wire::{BatchWay, Connection, Error, Value};

use super::format::{BLOCK_HEAD_BYTES, BlockKind, HEAD_BYTES, block};
use super::writer::Ended;
use super::{Counts, Event, Meta, RecordedStatement, Recording, Tape, Trace, TraceWriter};
use crate::failure::Failure;
use crate::session::{Knobs, Session, StatementId, StatementSpec};
use crate::workload::{Client, Outcome, Random, TransactionKind, Workload};

/// A path for a file of this test's own, in a folder that goes with it.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    _folder: TempDir,
}

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            path: folder.path().join(name),
            _folder: folder,
        }
    }
}

pub(super) fn meta() -> Meta {
    let statement = |name: &str| RecordedStatement {
        name: name.into(),
        sql: "SELECT ?".into(),
        database: None,
        types: Vec::new(),
        first_row: name == "b",
        of_session: name == "b",
        way: None,
    };
    Meta {
        workload: "test".into(),
        family: "mysql".into(),
        version: "1".into(),
        connections: 3,
        seed: 7,
        knobs: serde_json::json!({"statements": "text"}),
        transactions: vec!["one".into(), "two".into()],
        statements: vec![statement("a"), statement("b")],
    }
}

pub(super) fn tape(events: &[Event]) -> Tape {
    let mut tape = Tape::default();
    for event in events {
        match event {
            Event::Begin => tape.begin(),
            Event::Commit => tape.commit(),
            Event::Rollback => tape.rollback(),
            Event::Ping => tape.ping(),
            Event::Reset => tape.reset(),
            Event::Statement {
                id,
                parameters,
                counts,
            } => {
                tape.statement(*id, parameters);
                tape.answered(*counts);
            }
            Event::Batch {
                id,
                rows,
                way,
                counts,
            } => {
                tape.batch(*id, rows, *way);
                tape.answered(*counts);
            }
        }
    }
    tape
}

/// Connection n runs transaction n of the list; each begins when the one before it has ended, or all at once.
pub(super) fn write(path: &Path, transactions: &[Vec<Event>], in_turn: bool) {
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(path, &meta(), Arc::clone(&stop)).expect("creates");
    for (number, events) in transactions.iter().enumerate() {
        let ended = Ended::ALL[number % 3];
        let kind = TransactionKind(number as u16 % 2);
        writer.add(
            number as u32,
            kind,
            5_000_000 + 250 * number as u64,
            if in_turn { writer.written() } else { 0 },
            ended,
            &tape(events),
        );
    }
    writer.lost();
    let ending = writer.finish().expect("writes");
    assert_eq!(ending.transactions, transactions.len() as u64);
    assert!(!stop.load(Ordering::Relaxed));
}

fn read(trace: &Trace) -> Vec<Vec<Event>> {
    let mut transactions = Vec::new();
    let mut ordinal = 1;
    let mut reader = trace.reader().expect("opens");
    while let Some(recorded) = reader.next_transaction().expect("reads") {
        assert_eq!(recorded.connection, transactions.len() as u32);
        assert_eq!(recorded.ordinal, ordinal);
        assert_eq!(recorded.refused, recorded.connection % 3 == 2);
        let since_first = Duration::from_micros(250 * u64::from(recorded.connection));
        assert_eq!(recorded.since_first(), since_first);
        assert_eq!(recorded.after + 1, recorded.number);
        ordinal += recorded.events;
        transactions.push(recorded.events().expect("decodes"));
    }
    transactions
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        // No NaN, which equals nothing.
        proptest::num::f64::ANY.prop_filter_map("NaN", |number| {
            (!number.is_nan()).then_some(Value::Double(number))
        }),
        (any::<i64>(), any::<u8>())
            .prop_map(|(unscaled, scale)| Value::Decimal { unscaled, scale }),
        ".{0,8}".prop_map(Value::Text),
        proptest::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
        any::<i64>().prop_map(Value::Timestamp),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let id = || (0u16..2).prop_map(StatementId);
    let values = || proptest::collection::vec(value(), 0..5);
    let way = prop_oneof![
        Just(BatchWay::Single),
        Just(BatchWay::Bulk),
        Just(BatchWay::Pipeline)
    ];
    let counts = || any::<(u64, u64)>().prop_map(|(rows, affected)| Counts { rows, affected });
    prop_oneof![
        Just(Event::Begin),
        Just(Event::Commit),
        Just(Event::Rollback),
        Just(Event::Ping),
        Just(Event::Reset),
        (id(), values(), counts()).prop_map(|(id, parameters, counts)| Event::Statement {
            id,
            parameters,
            counts
        }),
        (
            id(),
            proptest::collection::vec(values(), 0..4),
            way,
            counts()
        )
            .prop_map(|(id, rows, way, counts)| Event::Batch {
                id,
                rows,
                way,
                counts
            }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_recorded_is_read(
        transactions in proptest::collection::vec(proptest::collection::vec(event(), 0..12), 0..40)
    ) {
        let file = Scratch::new("trace-roundtrip");
        write(&file.path, &transactions, true);
        let trace = Trace::open(&file.path, false).expect("opens");
        prop_assert_eq!(&trace.meta, &meta());
        prop_assert_eq!(trace.ending.lost, 1);
        prop_assert_eq!(read(&trace), transactions);
    }

    #[test]
    fn a_changed_byte_is_noticed(at in any::<proptest::sample::Index>(), bit in 0u8..8) {
        let file = Scratch::new("trace-changed");
        write(&file.path, &many(50), true);
        let mut bytes = std::fs::read(&file.path).expect("reads");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        std::fs::write(&file.path, bytes).expect("writes");
        prop_assert!(Trace::open(&file.path, false).is_err());
        // What is whole can be had, and never more than that.
        if let Ok(trace) = Trace::open(&file.path, true) {
            prop_assert_eq!(read(&trace), many(50)[..trace.ending.transactions as usize].to_vec());
        }
    }
}

/// So many transactions of three requests; 1000 of them fill more than one block.
fn many(count: i64) -> Vec<Vec<Event>> {
    let transaction = |number| {
        let statement = Event::Statement {
            id: StatementId(0),
            parameters: vec![Value::Int(number), Value::Text("x".repeat(100))],
            counts: Counts::default(),
        };
        vec![Event::Begin, statement, Event::Commit]
    };
    (0..count).map(transaction).collect()
}

#[test]
fn a_cut_trace_says_what_is_whole_and_that_can_be_read() {
    let file = Scratch::new("trace-cut");
    let transactions = many(1000);
    write(&file.path, &transactions, true);
    let bytes = std::fs::read(&file.path).expect("reads");
    let id = Trace::open(&file.path, false).expect("opens").id;
    // Within the second block, and just before the ending.
    for cut in [bytes.len() * 2 / 3, bytes.len() - 18] {
        std::fs::write(&file.path, &bytes[..cut]).expect("writes");
        let error = Trace::open(&file.path, false).expect_err("cut").to_string();
        let trace = Trace::open(&file.path, true).expect("the whole part");
        let whole = trace.ending.transactions as usize;
        assert!(!trace.whole && trace.id != id);
        assert!((300..=1000).contains(&whole), "{whole}");
        let said = format!(
            "{whole} transactions with {} statements",
            trace.ending.statements
        );
        assert!(
            error.contains("truncated") && error.contains(&said),
            "{error}"
        );
        assert_eq!(read(&trace), transactions[..whole]);
    }
}

#[test]
fn a_trace_without_the_newest_values_is_read() {
    let file = Scratch::new("trace-older");
    let transactions = many(3);
    write(&file.path, &transactions, true);
    let mut bytes = std::fs::read(&file.path).expect("reads");
    bytes[8] = 22;
    std::fs::write(&file.path, bytes).expect("writes");
    let trace = Trace::open(&file.path, false).expect("opens");
    assert_eq!(read(&trace), transactions);
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let file = Scratch::new("trace-other");
    write(&file.path, &many(3), true);
    let bytes = std::fs::read(&file.path).expect("reads");
    let mut newer = bytes.clone();
    newer[8] = 9;
    let mut captured = bytes.clone();
    captured[8] = ::trace::VERSION as u8;
    let meta_cut = bytes[..40].to_vec();
    let (head, length) = (HEAD_BYTES + BLOCK_HEAD_BYTES, &bytes[HEAD_BYTES + 1..]);
    let length = u32::from_le_bytes(*length.first_chunk().expect("whole"));
    let foreign = block(BlockKind::Transactions, &[0xFF; 4]);
    let foreign = [&bytes[..head + length as usize], &foreign].concat();
    let mut later = bytes.clone();
    later[8] += 1;
    for (content, said, hint) in [
        (newer, "version 9", "capture again"),
        (captured, "version 7", "load import"),
        (later, "version 24", "record it again"),
        (b"SELECT 1;\n".to_vec(), "is not a trace", "name a file"),
        (Vec::new(), "is not a trace", "name a file"),
        (b"UPSHTRCE".to_vec(), "is not a trace", "name a file"),
        (meta_cut, "not a complete trace", "record it again"),
        (foreign, "contents that no trace has", "record it again"),
    ] {
        std::fs::write(&file.path, content).expect("writes");
        for allow_truncated in [false, true] {
            let error = Trace::open(&file.path, allow_truncated).expect_err(said);
            assert!(error.to_string().contains(said), "{error}");
            let failure = error.downcast_ref::<Failure>();
            assert!(failure.is_some_and(|failure| failure.hint.contains(hint)));
        }
    }
    let missing = Trace::open(Path::new("/no/such"), false).expect_err("none");
    assert!(missing.to_string().contains("/no/such"));
}

#[test]
fn a_full_disk_ends_the_recording_and_the_run() {
    // Writes to it are refused as a full disk's are.
    let stop = Arc::new(AtomicBool::new(false));
    let refused = TraceWriter::create(Path::new("/dev/full"), &meta(), Arc::clone(&stop));
    let error = refused.err().expect("no room").to_string();
    assert!(error.contains("No space left"), "{error}");
    let missing = TraceWriter::create(Path::new("/no/such/trace"), &meta(), stop);
    assert!(
        missing
            .err()
            .expect("no folder")
            .to_string()
            .contains("/no/such/trace")
    );
}

/// A client that differs from the default in all that it can.
struct Slow;

impl Client for Slow {
    fn is_ready(&mut self) -> bool {
        false
    }
    fn draw(&mut self, _random: &mut Random) -> Option<TransactionKind> {
        None
    }
    fn due(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
    fn keying(&mut self) -> Duration {
        Duration::from_secs(18)
    }
    fn thinking(&mut self, _random: &mut Random) -> Duration {
        Duration::from_secs(12)
    }
    fn retries(&self, error: &Error) -> bool {
        matches!(error, Error::Server { code: 1062, .. })
    }
    fn run(&mut self, _session: &mut Session) -> Result<Outcome, Error> {
        Ok(Outcome::RolledBack)
    }
}

struct SlowWorkload;

impl Workload for SlowWorkload {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn statements(&self) -> &[StatementSpec] {
        &[]
    }
    fn transactions(&self) -> &[&'static str] {
        &["slow"]
    }
    fn check(&self, _connection: &mut dyn Connection) -> anyhow::Result<()> {
        anyhow::bail!("checked")
    }
    fn client(&self, _number: u32, _connections: u32) -> Box<dyn Client> {
        Box::new(Slow)
    }
    fn tpmc(&self) -> Option<TransactionKind> {
        Some(TransactionKind(0))
    }
    fn options(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::from_iter([("a".to_owned(), 1.into())])
    }
    fn statements_prepared(&self, _knobs: &Knobs) -> usize {
        3
    }
    fn notes(&self) -> Vec<String> {
        vec!["slow".to_owned()]
    }
}

#[test]
fn recording_changes_nothing_of_a_load() {
    let scratch = Scratch::new("recording");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = TraceWriter::create(&scratch.path, &meta(), stop).expect("creates");
    let recording = Recording::new(Arc::new(SlowWorkload), writer);
    assert_eq!(recording.tpmc(), SlowWorkload.tpmc());
    assert_eq!(recording.options(), SlowWorkload.options());
    assert_eq!(recording.statements_prepared(&Knobs::default()), 3);
    assert_eq!(recording.notes(), ["slow"]);
    let mut client = recording.client(0, 1);
    let mut random = Random::seed_from_u64(1);
    assert!(!client.is_ready());
    assert_eq!(client.draw(&mut random), None);
    assert_eq!(client.due(), Slow.due());
    assert_eq!(client.keying(), Slow.keying());
    assert_eq!(client.thinking(&mut random), Duration::from_secs(12));
    for code in [1062, 1213] {
        let error = Error::Server {
            code,
            sqlstate: "23000".into(),
            message: String::new(),
        };
        assert_eq!(client.retries(&error), code == 1062);
    }
}
