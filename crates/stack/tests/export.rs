//! From bytes that passed to tables.

use std::path::{Path, PathBuf};

use trace::{Begin, Capture, Ending, TraceWriter};
use wire::Family;
use wire::passive::{Side, Stream};

#[path = "../../wire/tests/common/captured.rs"]
mod captured;

#[test]
fn look() {
    let folder = std::env::temp_dir().join("codec-look");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("t.trace");
    let begin = Begin {
        family: "mysql".into(),
        began_unix_us: 1_700_000_000_123_456,
        capture: Capture::Proxy,
        masked: false,
    };
    let writer = TraceWriter::create(&path, &begin, 0).unwrap();
    for name in ["mysql-9.7.txt", "mariadb-10.11.txt"] {
        let connection = writer.connected(1, false);
        let mut stream = Stream::new(Family::Mysql);
        for (at, (side, bytes)) in captured::captured(name).iter().enumerate() {
            stream.bytes(*side, bytes, 1000 * at as u64, &mut |observed| {
                writer.observed(connection, &observed)
            });
        }
        stream.end(99_000, &mut |observed| {
            writer.observed(connection, &observed)
        });
        writer.closed(connection, 99_000, stream.totals());
    }
    writer.finish(Ending::default()).unwrap();
    stack::export::run(&path, &folder.join("out")).unwrap();
    stack::dump::run(
        &path,
        &mut std::fs::File::create(folder.join("dump")).unwrap(),
    )
    .unwrap();
}
