//! A capture or a server that is killed under its clients.

use testserver::{Kind, Server, one};
use wire::{Cell, RowSink, ServerUrl};

use super::common::{Capture, Folder, records, statements, until};
use super::{at, beside, connect, system};

/// What was captured before a kill is in the trace.
pub fn capture(server: &Server) {
    let folder = Folder::new();
    let (capture, listen) = beside(server, &folder, &[]);
    let mut client = connect(&at(server, &listen, system(server)));
    let trace = folder.file("t");
    let has = |number: u32| {
        let wanted = format!("SELECT {number}");
        statements(&records(&trace))
            .iter()
            .any(|(_, sql)| *sql == wanted)
    };
    let mut number = 0;
    until("a block is written", || {
        number += 1;
        assert_eq!(
            one(&mut *client, &format!("SELECT {number}")),
            number.to_string()
        );
        has(1)
    });
    capture.signal(libc::SIGKILL);
    assert!(client.query("SELECT 0", testserver::ALL, &mut ()).is_err());
    drop(capture.wait());
    let all = records(&trace);
    assert_eq!(all.last().expect("an end")["whole"], false);
    // The place is taken over by the next capture.
    std::fs::remove_file(&trace).expect("removes");
    let (capture, _) = beside(server, &folder, &[]);
    drop(connect(&at(server, &listen, system(server))));
    assert_eq!(capture.stop().code, Some(0));
}

/// Kills the capture when the first row comes, and counts those that come all the same.
struct Killing {
    capture: Option<Capture>,
    rows: u64,
}

impl RowSink for Killing {
    fn row(&mut self, _: &[Cell<'_>]) {
        self.rows += 1;
        if let Some(capture) = self.capture.take() {
            capture.signal(libc::SIGKILL);
            assert_eq!(capture.wait().code, None);
        }
    }
}

/// A real client never takes the beginning of an answer for all of it.
pub fn within_an_answer(server: &Server) {
    const ROWS: u64 = 200_000;
    let folder = Folder::new();
    let (capture, listen) = beside(server, &folder, &[]);
    let mut client = connect(&at(server, &listen, system(server)));
    let numbers = match server.kind() {
        Kind::Postgres => "generate_series(1, 200000) AS numbers (n)".to_owned(),
        _ => {
            let digits = "(SELECT 0 UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
                UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
            let two = "(SELECT 1 UNION ALL SELECT 2)";
            let tens = ["a", "b", "c", "d", "e"].map(|name| format!("{digits} AS {name}"));
            format!("{two} AS two, {}", tens.join(", "))
        }
    };
    let mut rows = Killing {
        capture: Some(capture),
        rows: 0,
    };
    let sql = format!("SELECT REPEAT('x', 1000) FROM {numbers}");
    let ended = client.query(&sql, testserver::ALL, &mut rows);
    assert!(ended.expect_err("cut").is_disconnect());
    assert!(rows.capture.is_none() && rows.rows < ROWS, "{}", rows.rows);
}

/// The server is killed under its clients, and started again.
pub fn server(server: &mut Server) {
    let folder = Folder::new();
    let (capture, listen) = beside(server, &folder, &["--json"]);
    let url = at(server, &listen, system(server));
    let mut client = connect(&url);
    assert_eq!(one(&mut *client, "SELECT 1"), "1");
    server.kill();
    let lost = client.query("SELECT 1", testserver::ALL, &mut ());
    assert!(lost.expect_err("gone").is_disconnect());
    let refused = wire::connect(&ServerUrl::parse(&url).expect("valid"));
    assert!(refused.err().expect("gone").is_disconnect());
    server.restart();
    assert_eq!(one(&mut *connect(&url), "SELECT 1"), "1");
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(summary["proxy"]["unreached"], 1);
}
