//! What a capture keeps of long requests, printed and made into a trace again.

use trace::{Begin, Ending, TraceWriter};
use wire::passive::{Exchange, Kind, Observed, Parameter, ParameterValue, Parameters, Text, Verb};

use crate::common::Folder;
use crate::printed::{again, begin, full, lines};

/// A trace of these exchanges, printed; it comes back as it was.
fn come_back(masked: bool, exchanges: Vec<Exchange>) -> String {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    let begin = Begin {
        masked,
        ..begin("mysql")
    };
    let writer = TraceWriter::create(&trace, &begin, 0).expect("room");
    let connection = writer.connected(0, false);
    for exchange in exchanges {
        writer.observed(connection, &Observed::Exchange(Box::new(exchange)));
    }
    writer.finish(Ending::default()).expect("room");
    let printed = lines(&trace);
    assert!(again(&printed, &folder, &[]).1 == printed);
    printed
}

/// A row of an INT takes 5 bytes of the 64 KiB that are kept as they were sent.
#[test]
fn all_rows_of_a_long_bulk_execution_come_back() {
    let value = ParameterValue::Int(12_345);
    let row = vec![Parameter { kind: 3, value }];
    let parameters = Parameters {
        rows: vec![row; 13_000],
        cut: false,
    };
    let bulk = Exchange {
        parameters: Some(parameters),
        ..full(Kind::BulkExecute, Verb::Insert, 1)
    };
    let printed = come_back(false, vec![bulk]);
    assert_eq!(printed.matches("[12345]").count(), 13_000);
}

/// Masked, a text is several times as long.
#[test]
fn all_of_a_long_masked_text_comes_back() {
    let sql = format!("INSERT INTO t VALUES {}", vec!["('a')"; 20_000].join(","));
    let insert = Exchange {
        text: Some(Text {
            length: sql.len() as u64,
            bytes: sql.into_bytes().into(),
        }),
        ..full(Kind::Query, Verb::Insert, 0)
    };
    let printed = come_back(true, vec![insert]);
    let count = printed.matches("'<text of 3 bytes>'").count();
    assert_eq!(count, 20_000);
}
