//! The servers' own command-line programs through a relay.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use testserver::{Kind, MYSQLD, Server};
use wire::Family;
use wire::passive::{Compression, Kind as Request, Verb};

use crate::relay::Relay;
use crate::{Told, text, told};

/// What a program says; its standard input is a script.
fn run(command: &mut Command, script: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("an installed client");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(script.as_bytes())
        .expect("a script");
    let output = child.wait_with_output().expect("an end");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn only(relay: &Relay) -> Told {
    let mut passed = relay.passed();
    let told = told(Family::Postgres, &passed.pop().expect("a connection"));
    assert!(passed.is_empty());
    told.is_whole();
    told
}

/// MariaDB's client, or the one that was built beside the MySQL under test; without compression and with it.
pub fn mysql(server: &Server) {
    let Some(plain) = script(server, &[]) else {
        return;
    };
    plain.is_whole();
    learned(&plain);
    let methods: &[(&str, Compression)] = match server.kind() {
        Kind::MySql => &[
            ("--compression-algorithms=zlib", Compression::Zlib),
            ("--compression-algorithms=zstd", Compression::Zstd),
        ],
        _ => &[("--compress", Compression::Zlib)],
    };
    for (option, method) in methods {
        let packed = script(server, &[option]).expect("a client");
        assert_eq!(packed.broken, None, "{option}: {packed:#?}");
        assert_eq!(packed.sessions[0].compression, *method);
        assert_eq!(packed.totals.unread, 0);
        learned(&packed);
        // The same, whatever it was packed in.
        let all = |told: &Told| -> Vec<_> {
            let each = told.exchanges.iter().map(|each| {
                let counts = [each.packets_sent, each.packets_received, each.bytes_sent];
                (
                    text(each),
                    each.kind,
                    each.rows,
                    each.answer,
                    counts,
                    each.bytes_received,
                )
            });
            each.collect()
        };
        assert_eq!(all(&packed), all(&plain), "{option}");
        assert_eq!(packed.round_trips(), plain.round_trips());
        let [_, _, sent, received] = packed.sums();
        let totals = packed.totals;
        assert!(totals.bytes_sent + totals.bytes_received < sent + received);
    }
}

/// What a client says that runs a script; none where there is no client.
fn script(server: &Server, options: &[&str]) -> Option<Told> {
    let built = std::env::var_os(MYSQLD).map(|path| PathBuf::from(path).with_file_name("mysql"));
    let client = match (server.kind(), built) {
        (Kind::MySql, Some(built)) if built.exists() => built,
        (Kind::MySql, _) => {
            eprintln!("NOT RUN: there is no client beside the MySQL that {MYSQLD} names");
            return None;
        }
        _ => "mariadb".into(),
    };
    let relay = Relay::start(server);
    let file = server.folder().join("rows");
    std::fs::write(&file, "1\n2\n3\n").expect("room");
    let said = run(
        Command::new(client)
            .args([
                "--no-defaults",
                "--local-infile=1",
                "--force",
                "--default-character-set=latin1",
                "-u",
                "root",
                "-N",
            ])
            .args(options)
            .arg(format!("--socket={}", relay.socket().display()))
            .arg("passive"),
        &format!(
            "CREATE TABLE f (id INT);\nLOAD DATA LOCAL INFILE '{}' INTO TABLE f;\nSELEC 1;\nSELECT COUNT(*) FROM f;\n\
             delimiter //\nSELECT 1; SET @a = 2; SELECT @a, 3 UNION ALL SELECT 4, 5;\n//\n\
             CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END//\nCALL p()//\n\
             SET PASSWORD = PASSWORD('geheim')//\nSET PASSWORD = ''//\n\
             SELECT SEQ FROM (WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < 900) SELECT * FROM n) AS numbers//\n\
             SELECT LENGTH('{}')//\nDROP TABLE f//\nDROP PROCEDURE p//\nuse mysql\n",
            file.display(),
            "long ".repeat(200_000),
        ),
    );
    assert!(said.contains('3'), "{said}");
    let mut passed = relay.passed();
    let told = told(Family::Mysql, &passed.pop().expect("a connection"));
    assert!(passed.is_empty());
    Some(told)
}

/// What of the script's statements is known.
fn learned(told: &Told) {
    let facts = &told.sessions[0];
    let client = facts.client.as_deref();
    assert!(
        matches!(client, Some("libmysql" | "libmariadb")),
        "{client:?}"
    );
    let version = facts.client_version.as_deref().unwrap_or_default();
    assert!(version.starts_with(char::is_numeric), "{facts:?}");
    assert_eq!(facts.database.as_deref(), Some("passive"));
    assert_eq!(facts.character_set.as_deref(), Some("latin1"));
    assert!(facts.attributes.iter().any(|(name, _)| name == "_os"));
    assert!(
        facts
            .attributes
            .iter()
            .all(|(name, _)| !name.contains("user"))
    );
    let find = |part: &str| {
        let found = told
            .exchanges
            .iter()
            .find(|each| text(each).is_some_and(|sql| sql.contains(part)));
        found.unwrap_or_else(|| panic!("{part}: {:#?}", told.exchanges))
    };
    let load = find("LOAD DATA");
    assert_eq!(
        (load.affected, load.round_trips, load.verb),
        (3, 2, Some(Verb::Load))
    );
    let several = find("SET @a");
    assert_eq!(
        (several.results, several.rows, several.round_trips),
        (3, 3, 1)
    );
    let call = find("CALL p");
    assert_eq!((call.results, call.rows), (3, 2));
    assert_eq!(
        find("SELEC 1").error.as_ref().map(|error| error.code),
        Some(1064)
    );
    assert!(
        find("SET PASSWORD")
            .text
            .as_ref()
            .is_some_and(|text| !text.bytes.ends_with(b"geheim')"))
    );
    // A client changes the database by the command, or by the text.
    let is_change = |kind, verb| kind == Request::InitDb || verb == Some(Verb::Use);
    assert!(
        told.exchanges
            .iter()
            .any(|each| is_change(each.kind, each.verb))
    );
}

pub fn postgres(server: &Server) {
    assert_eq!(server.kind(), Kind::Postgres);
    let relay = Relay::start(server);
    let said = run(
        Command::new("psql")
            .args(["-X", "-A", "-t", "-U", "postgres", "-d", "passive", "-h"])
            .arg(relay.folder())
            .env("PGAPPNAME", "shop")
            .env("PGCLIENTENCODING", "latin1"),
        "CREATE TABLE f (id int);\nCOPY f FROM STDIN;\n1\n2\n3\n\\.\nCOPY f TO STDOUT;\nSELECT 1\\; SELECT 2, 3\\; SELECT 4;\n\
         SELEC 1;\nBEGIN;\nDO $$ BEGIN RAISE NOTICE 'hm'; END $$;\nSELECT 1/0;\nROLLBACK;\n\
         COPY f FROM STDIN;\nx\n\\.\nALTER ROLE postgres PASSWORD 'geheim';\n;\n",
    );
    assert!(said.contains('3'), "{said}");
    let told = only(&relay);
    assert_eq!(told.sessions[0].client.as_deref(), Some("shop"));
    assert_eq!(told.sessions[0].database.as_deref(), Some("passive"));
    // The server's name for it.
    let character_set = told.sessions[0].character_set.as_deref();
    assert_eq!(character_set, Some("LATIN1"));
    assert!(
        told.sessions[0]
            .attributes
            .iter()
            .all(|(name, _)| name != "user")
    );
    let find = |part: &str| {
        let found = told
            .exchanges
            .iter()
            .find(|each| text(each).is_some_and(|sql| sql.contains(part)));
        found.unwrap_or_else(|| panic!("{part}: {:#?}", told.exchanges))
    };
    let copied = find("COPY f FROM");
    assert_eq!(
        (copied.kind, copied.affected, copied.round_trips),
        (Request::Copy, 3, 2)
    );
    let out = find("COPY f TO");
    assert_eq!((out.kind, out.rows, out.round_trips), (Request::Copy, 3, 1));
    let several = find("SELECT 2, 3");
    assert_eq!((several.results, several.rows), (3, 3));
    let notice = find("DO $$");
    assert_eq!(
        (notice.warnings, notice.in_transaction_after),
        (1, Some(true))
    );
    let divided = find("1/0");
    assert_eq!(
        divided.error.as_ref().map(|error| error.sqlstate.as_str()),
        Some("22012")
    );
    assert_eq!(divided.transaction, notice.transaction);
    let failed: Vec<_> = told
        .exchanges
        .iter()
        .filter(|each| each.kind == Request::Copy && each.error.is_some())
        .collect();
    assert_eq!(failed.len(), 1);
    let secret = text(find("ALTER ROLE")).expect("a text");
    assert!(
        !secret.contains("geheim") && secret.contains("PASSWORD '<text"),
        "{secret}"
    );
}

/// libpq's prepared statements and its pipelines.
pub fn pgbench(server: &Server) {
    let relay = Relay::start(server);
    let script = relay.folder().join("script");
    let text = "\\set id random(1, 9)\nBEGIN;\nSELECT :id;\nEND;\n\\startpipeline\nSELECT :id + 1;\nSELECT 2;\n\\endpipeline\n";
    std::fs::write(&script, text).expect("room");
    let program = server.program().with_file_name("pgbench");
    for (mode, prepares) in [("extended", 25), ("prepared", 5)] {
        let said = run(
            Command::new(&program)
                .args([
                    "-n", "-c", "1", "-t", "5", "-U", "postgres", "-M", mode, "-h",
                ])
                .arg(relay.folder())
                .arg("-f")
                .arg(&script)
                .arg("passive"),
            "",
        );
        assert!(said.contains("5/5"), "{said}");
        let all: Vec<Told> = relay
            .passed()
            .iter()
            .map(|passed| told(Family::Postgres, passed))
            .collect();
        all.iter().for_each(Told::is_whole);
        let of = |kind: Request| {
            let each = all.iter().flat_map(|told| &told.exchanges);
            each.filter(move |each| each.kind == kind)
        };
        assert_eq!(
            (of(Request::Execute).count(), of(Request::Prepare).count()),
            (25, prepares),
            "{mode}"
        );
        assert!(of(Request::Execute).all(|each| each.error.is_none() && each.text.is_some()));
        assert_eq!(of(Request::Execute).map(|each| each.rows).sum::<u64>(), 15);
        // BEGIN, a SELECT and END are one transaction, what a pipeline runs up to its Sync another.
        let mut numbers: Vec<_> = of(Request::Execute)
            .filter_map(|each| each.transaction)
            .collect();
        assert_eq!(numbers.len(), 25);
        numbers.dedup();
        assert_eq!(numbers.len(), 10, "{mode}");
    }
}
