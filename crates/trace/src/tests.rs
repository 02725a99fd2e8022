//! Traces written and read again: whole, cut off, damaged, on a disk without room.

mod masked;
mod slow;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wire::passive::{
    Compression, Counted, Exchange, Kind, Observed, Parameter, ParameterValue, Parameters,
    ServerError, SessionFacts, Side, Text, Totals, Verb, Why,
};

use crate::file::Storage;
use crate::{Begin, Capture, Ending, Record, TraceReader, TraceWriter};

/// A path for a trace, in a folder that goes with the test.
struct Place {
    path: PathBuf,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            path: folder.path().join("trace"),
            _folder: folder,
        }
    }
}

fn begin(masked: bool) -> Begin {
    Begin {
        family: "mysql".to_owned(),
        began_unix_us: 1_700_000_000_000_000,
        capture: Capture::Proxy,
        masked,
        log: None,
    }
}

fn text(sql: &str) -> Option<Text> {
    Some(Text {
        bytes: Arc::from(sql.as_bytes()),
        length: sql.len() as u64,
    })
}

/// An exchange with everything.
fn full(at_ns: u64) -> Exchange {
    let kinds = [
        ParameterValue::Null,
        ParameterValue::Default,
        ParameterValue::Ignore,
        ParameterValue::Int(i64::MIN),
        ParameterValue::UInt(u64::MAX),
        ParameterValue::Float(1.5),
        ParameterValue::Double(-2.5),
        ParameterValue::Text(b"it's".to_vec()),
        ParameterValue::Binary(vec![0, 255]),
        ParameterValue::Long(1 << 40),
        ParameterValue::Masked(3),
        ParameterValue::Unknown,
    ];
    let row = kinds.map(|value| Parameter {
        kind: 0x8008,
        value,
    });
    Exchange {
        verb: Some(Verb::Use),
        text: text("SELECT 'x', 1 FROM t WHERE a = ?"),
        parameters: Some(Parameters {
            rows: vec![row.to_vec(), Vec::new()],
            cut: true,
        }),
        transaction: Some(7),
        request_end_ns: at_ns + 10,
        answer_ns: Some((at_ns + 5, at_ns + 1_000_000)),
        round_trips: 2,
        packets_sent: 3,
        packets_received: 4,
        bytes_sent: 5,
        bytes_received: 6,
        definition_bytes: 7,
        rows: 8,
        affected: u64::MAX,
        warnings: 9,
        fetch_size: Some(0),
        cursor: true,
        early_close: true,
        results: 10,
        error: Some(ServerError {
            code: 1213,
            sqlstate: "40001".to_owned(),
        }),
        in_transaction_after: Some(false),
        autocommit_after: Some(true),
        no_index_used: true,
        no_good_index_used: true,
        answer: Some(u64::MAX - 1),
        backslash_escapes: false,
        incomplete: true,
        counted: Some(Box::new(Counted {
            rows_examined: Some(5_000),
            lock_ns: Some(0),
            full_scan: Some(true),
            sort_rows: None,
            temporary_tables: Some(1),
            temporary_disk_tables: None,
        })),
        ..Exchange::new(Kind::Other, at_ns)
    }
}

fn facts() -> SessionFacts {
    SessionFacts {
        server_version: "9.7.4".to_owned(),
        client: Some("libmysql".to_owned()),
        client_version: None,
        database: Some("shop".to_owned()),
        character_set: Some("latin1".to_owned()),
        attributes: vec![("_os".to_owned(), "Linux".to_owned())],
        tls: true,
        compression: Compression::Zstd,
        joined_late: true,
        login_round_trips: 1,
        packets_sent: 2,
        packets_received: 3,
        bytes_sent: 4,
        bytes_received: 5,
        began_ns: 1000,
        ready_ns: 2000,
        refused: Some(ServerError {
            code: 1045,
            sqlstate: "28000".to_owned(),
        }),
    }
}

fn all(path: &Path) -> (Vec<Record>, Option<Ending>) {
    let mut reader = TraceReader::open(path).expect("a trace");
    let mut records = Vec::new();
    while let Some(record) = reader.next().expect("what a capture writes") {
        records.push(record);
    }
    (records, reader.ending().cloned())
}

fn query(sql: &str, at_ns: u64) -> Observed {
    Observed::Exchange(Box::new(Exchange {
        text: text(sql),
        ..Exchange::new(Kind::Query, at_ns)
    }))
}

#[test]
fn everything_comes_back_as_it_was() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(false), 1000).expect("a file");
    let mode = std::fs::metadata(&place.path)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(writer.connected(1500, true), 1);
    assert_eq!(writer.connected(1400, false), 2);
    writer.observed(2, &Observed::Session(Box::new(facts())));
    writer.observed(1, &Observed::Exchange(Box::new(full(5000))));
    writer.observed(2, &Observed::Exchange(Box::new(full(3000))));
    writer.gap(1, Side::Server, 99, 6000);
    let why = Why::Compressed;
    writer.observed(1, &Observed::Broken { why, at_ns: 7000 });
    let totals = Totals {
        bytes_sent: 1,
        bytes_received: 2,
        unread: 3,
        missing: 4,
    };
    writer.closed(2, 8000, totals);
    let ending = Ending {
        duration_us: 12,
        added_us_p50: Some(1.5),
        ..Ending::default()
    };
    let summary = writer.finish(ending.clone()).expect("room");
    assert_eq!(summary.ending.exchanges, 2);
    assert_eq!(
        summary.bytes,
        std::fs::metadata(&place.path).expect("there").len()
    );
    let exchange = |at_ns: u64| Box::new(full(at_ns - 1000));
    let expected = vec![
        Record::Connected {
            connection: 1,
            at_ns: 500,
            joined_late: true,
        },
        Record::Connected {
            connection: 2,
            at_ns: 400,
            joined_late: false,
        },
        Record::Session {
            connection: 2,
            facts: Box::new(SessionFacts {
                began_ns: 0,
                ready_ns: 1000,
                ..facts()
            }),
        },
        Record::Exchange {
            connection: 1,
            exchange: exchange(5000),
        },
        Record::Exchange {
            connection: 2,
            exchange: exchange(3000),
        },
        Record::Gap {
            connection: 1,
            at_ns: 5000,
            side: Side::Server,
            bytes: 99,
        },
        Record::Unread {
            connection: 1,
            at_ns: 6000,
            why,
        },
        Record::Closed {
            connection: 2,
            at_ns: 7000,
            totals,
        },
    ];
    let (records, ended) = all(&place.path);
    assert_eq!(records, expected);
    assert_eq!(
        ended,
        Some(Ending {
            exchanges: 2,
            ..ending
        })
    );
    let again = TraceWriter::create(&place.path, &begin(false), 0);
    assert!(again.is_err_and(|error| error.hint.contains("another file")));
}

#[test]
fn a_masked_trace_has_no_literal_and_one_text_for_all_of_them() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(true), 0).expect("a file");
    for number in 100..200 {
        writer.observed(1, &query(&format!("SELECT 'geheim', {number} FROM t"), 1));
    }
    let mut exchange = full(1);
    exchange.text = None;
    writer.observed(1, &Observed::Exchange(Box::new(exchange)));
    writer.finish(Ending::default()).expect("room");
    let (records, _) = all(&place.path);
    let texts: std::collections::BTreeSet<_> = records.iter().filter_map(sql).collect();
    let expected = "SELECT '<text of 8 bytes>', 999 FROM t".to_owned();
    assert_eq!(texts, [expected].into());
    let Some(Record::Exchange { exchange, .. }) = records.last() else {
        panic!("{records:?}");
    };
    let row = &exchange.parameters.as_ref().expect("parameters").rows[0];
    let open = row.iter().filter(|parameter| {
        !matches!(
            parameter.value,
            ParameterValue::Null
                | ParameterValue::Default
                | ParameterValue::Ignore
                | ParameterValue::Long(_)
                | ParameterValue::Masked(_)
                | ParameterValue::Unknown
        )
    });
    assert_eq!(open.count(), 0);
}

fn sql(record: &Record) -> Option<String> {
    match record {
        Record::Exchange { exchange, .. } => {
            let text = exchange.text.as_ref()?;
            Some(String::from_utf8(text.bytes.to_vec()).expect("UTF-8"))
        }
        _ => None,
    }
}

/// Statements that are all different, so that the dictionary begins anew between them.
fn many(writer: &TraceWriter, count: u64) {
    for number in 0..count {
        writer.observed(1, &query(&format!("SELECT {number}"), number));
        // The disk is given time.
        if number % 10_000 == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_dictionary_that_begins_anew_loses_no_text() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(false), 0).expect("a file");
    many(&writer, 150_000);
    let summary = writer.finish(Ending::default()).expect("room");
    let (records, _) = all(&place.path);
    let mut next = 0;
    let mut lost = 0;
    for record in &records {
        match record {
            Record::Lost { exchanges } => {
                lost += exchanges;
                next += exchanges;
            }
            record => {
                assert_eq!(sql(record), Some(format!("SELECT {next}")));
                next += 1;
            }
        }
    }
    assert_eq!(summary.ending.exchanges + lost, next);
    assert_eq!(summary.ending.exchanges + summary.ending.lost, 150_000);
}

#[test]
fn who_waits_for_the_disk_loses_nothing() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(false), 0).expect("a file");
    writer.waits();
    for number in 0..300_000 {
        writer.observed(1, &query("SELECT 1", number));
    }
    let summary = writer.finish(Ending::default()).expect("room");
    assert_eq!(
        (summary.ending.exchanges, summary.ending.lost),
        (300_000, 0)
    );
}

#[test]
fn what_is_whole_of_a_cut_or_damaged_trace_is_read() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(false), 0).expect("a file");
    many(&writer, 9_000);
    writer.finish(Ending::default()).expect("room");
    let bytes = std::fs::read(&place.path).expect("there");
    let (whole, ending) = all(&place.path);
    assert_eq!((whole.len(), ending.is_some()), (9_000, true));
    let mut before = 0;
    for length in (200..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        std::fs::write(&place.path, &bytes[..length]).expect("room");
        let (records, ending) = all(&place.path);
        assert!(ending.is_none());
        assert!(records.len() >= before && records[..] == whole[..records.len()]);
        before = records.len();
        let mut damaged = bytes.clone();
        damaged[length] ^= 0x10;
        std::fs::write(&place.path, &damaged).expect("room");
        let (records, ending) = all(&place.path);
        assert!(ending.is_none() && records[..] == whole[..records.len()]);
    }
    assert!(before > 1000);
}

#[test]
fn other_files_are_refused_with_what_wrote_them() {
    let place = Place::new();
    for (bytes, word) in [
        (&b""[..], "is not a trace"),
        (b"SELECT 1; and so on", "is not a trace"),
        (b"UPSHTRCE\x07\0\0\0", "is not a trace"),
        (b"UPSHTRCE\x14\0\0\0", "--record"),
        (b"UPSHTRCE\x03\0\0\0", "older"),
        (b"UPSHTRCE\x06\0\0\0", "older"),
        (b"UPSHTRCE\x08\0\0\0", "newer"),
    ] {
        std::fs::write(&place.path, bytes).expect("room");
        let error = TraceReader::open(&place.path).err().expect("refused");
        assert!(error.message.contains(word), "{error}");
        assert!(!error.hint.is_empty());
    }
    let gone = TraceReader::open(Path::new("/nonexistent/x"));
    assert!(gone.is_err_and(|error| error.message.contains("cannot read")));
}

#[test]
fn a_block_is_written_after_a_second() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(false), 0).expect("a file");
    writer.observed(1, &query("SELECT 1", 1));
    let began = Instant::now();
    while all(&place.path).0.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    writer.finish(Ending::default()).expect("room");
}

/// A disk with room for so many bytes.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Storage for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut held = self.bytes.lock().expect("no panic");
        let fits = bytes.len().min(self.room - held.len());
        held.extend_from_slice(&bytes[..fits]);
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::other("no space left on device")),
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.bytes
            .lock()
            .expect("no panic")
            .truncate(length as usize);
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_trace_with_a_word_about_it() {
    let place = Place::new();
    for room in (3_000..30_000).step_by(1_373) {
        let disk = Disk {
            bytes: Arc::default(),
            room,
        };
        let over = TraceWriter::over(Box::new(disk.clone()), &place.path, &begin(false), 0);
        let writer = over.expect("room for the begin");
        many(&writer, 20_000);
        let error = writer.finish(Ending::default()).expect_err("a full disk");
        assert!(error.message.contains("no space left"), "{error}");
        assert_eq!(writer.failure().as_deref(), Some("no space left on device"));
        std::fs::write(&place.path, &*disk.bytes.lock().expect("no panic")).expect("room");
        let (records, ending) = all(&place.path);
        let ending = ending.expect("an ending");
        assert_eq!(ending.stopped.as_deref(), Some("no space left on device"));
        assert_eq!(ending.exchanges, records.len() as u64);
        assert_eq!(ending.exchanges + ending.lost, 20_000);
    }
}

/// Neither comes from a capture, but both may come from lines.
#[test]
fn what_no_block_has_room_for_is_cut_and_the_rest_is_read() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(false), 0).expect("a file");
    writer.waits();
    let value = ParameterValue::Text(vec![b'x'; 1 << 20]);
    let row = vec![Parameter { kind: 253, value }];
    let long = Exchange {
        text: text(&"SELECT ".repeat(3 << 20)),
        parameters: Some(Parameters {
            rows: vec![row; 17],
            cut: false,
        }),
        ..full(1)
    };
    writer.observed(1, &Observed::Exchange(Box::new(long)));
    writer.observed(1, &query("SELECT 2", 2));
    writer.finish(Ending::default()).expect("room");
    let (records, ending) = all(&place.path);
    let [Record::Exchange { exchange, .. }, second] = &records[..] else {
        panic!("{} records", records.len());
    };
    let cut = Parameters {
        rows: Vec::new(),
        cut: true,
    };
    assert_eq!(exchange.parameters, Some(cut));
    let text = exchange.text.as_ref().expect("its begin");
    assert_eq!((text.bytes.len(), text.length), (4 << 20, 21 << 20));
    assert_eq!(sql(second).as_deref(), Some("SELECT 2"));
    assert_eq!(ending.expect("an end").exchanges, 2);
}
