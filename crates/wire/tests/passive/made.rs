//! Conversations made by hand: what no server here says, or no client here asks.

use wire::Family;
use wire::passive::{Kind, ParameterValue, Side, Stream, Verb, Why};

use crate::held::most;
use crate::{Told, read, text, told};

use Side::{Client, Server};

pub type Passed = Vec<(Side, Vec<u8>)>;

/// A message of PostgreSQL.
pub fn m(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &length, body].concat()
}

pub fn startup() -> Passed {
    let body = b"\0\x03\0\0user\0geheim\0application_name\0shop\0\0";
    let length = (body.len() as u32 + 4).to_be_bytes();
    vec![
        (Client, [&length[..], body].concat()),
        (Server, m(b'R', &[0, 0, 0, 10, b'S', 0, 0])),
        (Client, m(b'p', b"SCRAM\0\0\0\x06geheim")),
        (Server, m(b'R', &[0; 4])),
        (Server, m(b'S', b"server_version\x0017.2\0")),
        (Server, m(b'Z', b"I")),
    ]
}

pub fn postgres(more: Passed) -> Told {
    let passed = [startup(), more].concat();
    told(Family::Postgres, &passed)
}

pub fn bind(portal: &str, statement: &str) -> Vec<u8> {
    m(
        b'B',
        format!("{portal}\0{statement}\0\0\0\0\0\0\0").as_bytes(),
    )
}

pub fn execute(portal: &str, limit: u32) -> Vec<u8> {
    m(
        b'E',
        &[portal.as_bytes(), b"\0", &limit.to_be_bytes()].concat(),
    )
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    m(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

pub const SYNC: &[u8] = b"S\0\0\0\x04";

#[test]
fn an_error_skips_what_comes_before_the_next_sync() {
    let flight = [
        parse("a", "SELECT 1"),
        bind("", "a"),
        execute("", 0),
        bind("", "a"),
        execute("", 0),
        SYNC.to_vec(),
        bind("", "a"),
        execute("", 0),
        SYNC.to_vec(),
    ];
    let row = m(b'D', b"\0\0");
    let answer = [
        m(b'1', b""),
        m(b'2', b""),
        m(b'E', b"SERROR\0C22012\0Mdivision\0\0"),
        m(b'Z', b"I"),
        m(b'2', b""),
        row.clone(),
        row,
        m(b'C', b"SELECT 2\0"),
        m(b'Z', b"I"),
    ];
    let told = postgres(vec![(Client, flight.concat()), (Server, answer.concat())]);
    told.is_whole();
    let seen: Vec<_> = told
        .exchanges
        .iter()
        .map(|each| (each.kind, each.error.is_some(), each.rows, each.round_trips))
        .collect();
    assert_eq!(
        seen,
        [
            (Kind::Prepare, false, 0, 1),
            (Kind::Execute, true, 0, 0),
            (Kind::Execute, true, 0, 0),
            (Kind::Execute, false, 2, 0),
        ]
    );
    assert!(
        told.exchanges
            .iter()
            .all(|each| each.verb == Some(Verb::Select))
    );
    // The first Sync ends a transaction, the second one another.
    let numbers: Vec<_> = told.exchanges[1..]
        .iter()
        .map(|each| each.transaction)
        .collect();
    assert_eq!(numbers, [Some(0), Some(0), Some(1)]);
}

#[test]
fn what_follows_an_error_and_is_sent_later_is_skipped_too() {
    let flush = m(b'H', b"");
    let told = postgres(vec![
        (Client, [parse("a", "SELEC"), flush].concat()),
        (Server, m(b'E', b"SERROR\0C42601\0\0")),
        (Client, [bind("", "a"), execute("", 0)].concat()),
        (Client, SYNC.to_vec()),
        (Server, m(b'Z', b"I")),
        (Client, SYNC.to_vec()),
        (Server, m(b'Z', b"I")),
    ]);
    told.is_whole();
    let seen: Vec<_> = told
        .exchanges
        .iter()
        .map(|each| (each.kind, each.error.is_some()))
        .collect();
    let expected = [
        (Kind::Prepare, true),
        (Kind::Execute, true),
        (Kind::Ping, false),
    ];
    assert_eq!(seen, expected);
}

/// Its text may have said that they are passwords.
#[test]
fn parameters_of_a_statement_that_was_not_seen_are_kept_as_their_length() {
    let bind = m(b'B', b"\0old\0\0\0\0\x01\0\0\0\x06geheim\0\0");
    let flight = [bind, execute("", 0), SYNC.to_vec()].concat();
    let answer = [m(b'2', b""), m(b'C', b"UPDATE 1\0"), m(b'Z', b"I")].concat();
    let late = Stream::joined_late(Family::Postgres);
    let told = read(late, &[(Client, flight), (Server, answer)]);
    told.is_whole();
    let parameters = told.exchanges[0].parameters.as_ref().expect("one");
    assert_eq!(parameters.rows[0][0].value, ParameterValue::Masked(6));
}

#[test]
fn a_portal_is_closed_early_by_its_name_or_the_end_of_the_transaction() {
    let suspended = [m(b'2', b""), m(b'D', b"\0\0"), m(b's', b"")].concat();
    let told = postgres(vec![
        (Client, m(b'Q', b"BEGIN\0")),
        (Server, [m(b'C', b"BEGIN\0"), m(b'Z', b"T")].concat()),
        (
            Client,
            [
                parse("a", "SELECT 1"),
                bind("p", "a"),
                execute("p", 1),
                SYNC.to_vec(),
            ]
            .concat(),
        ),
        (
            Server,
            [m(b'1', b""), suspended.clone(), m(b'Z', b"T")].concat(),
        ),
        (Client, [execute("p", 1), SYNC.to_vec()].concat()),
        (
            Server,
            [m(b'D', b"\0\0"), m(b's', b""), m(b'Z', b"T")].concat(),
        ),
        (Client, [m(b'C', b"Pp\0"), SYNC.to_vec()].concat()),
        (Server, [m(b'3', b""), m(b'Z', b"T")].concat()),
        (
            Client,
            [bind("q", "a"), execute("q", 1), SYNC.to_vec()].concat(),
        ),
        (Server, [suspended, m(b'Z', b"T")].concat()),
        (Client, m(b'Q', b"COMMIT\0")),
        (Server, [m(b'C', b"COMMIT\0"), m(b'Z', b"I")].concat()),
    ]);
    told.is_whole();
    let seen: Vec<_> = told
        .exchanges
        .iter()
        .map(|each| {
            (
                each.kind,
                each.fetch_size,
                each.cursor,
                each.early_close,
                each.transaction,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (Kind::Query, None, false, false, Some(0)),
            (Kind::Prepare, None, false, false, Some(0)),
            (Kind::Execute, Some(1), true, false, Some(0)),
            (Kind::Fetch, Some(1), true, false, Some(0)),
            (Kind::Other, None, false, true, Some(0)),
            (Kind::Execute, Some(1), true, false, Some(0)),
            (Kind::Query, None, false, true, Some(0)),
        ]
    );
    assert_eq!(text(&told.exchanges[4]).as_deref(), Some("SELECT 1"));
}

#[test]
fn the_sync_before_the_rows_of_an_extended_copy_is_not_answered() {
    let told = postgres(vec![
        (
            Client,
            [
                parse("", "COPY t FROM STDIN"),
                bind("", ""),
                execute("", 0),
                SYNC.to_vec(),
            ]
            .concat(),
        ),
        (
            Server,
            [m(b'1', b""), m(b'2', b""), m(b'G', b"\0\0\0")].concat(),
        ),
        (
            Client,
            [
                m(b'd', b"1\n"),
                m(b'd', b"2\n"),
                m(b'c', b""),
                SYNC.to_vec(),
            ]
            .concat(),
        ),
        (Server, [m(b'C', b"COPY 2\0"), m(b'Z', b"I")].concat()),
        (Client, m(b'X', b"")),
    ]);
    told.is_whole();
    let copy = &told.exchanges[1];
    assert_eq!(
        (copy.kind, copy.affected, copy.packets_sent),
        (Kind::Copy, 2, 7)
    );
    assert_eq!((told.exchanges.len(), told.round_trips()), (3, 4));
}

#[test]
fn encryption_cancels_and_goodbyes_of_postgres() {
    let ssl = b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec();
    let gss = b"\0\0\0\x08\x04\xd2\x16\x30".to_vec();
    let refused = [vec![(Client, gss), (Server, b"N".to_vec())], startup()].concat();
    let told_refused = told(Family::Postgres, &refused);
    told_refused.is_whole();
    assert_eq!(told_refused.sessions[0].login_round_trips, 3);
    assert_eq!(told_refused.sessions[0].server_version, "17.2");
    let encrypted = vec![
        (Client, ssl),
        (Server, b"S".to_vec()),
        (Client, vec![22; 300]),
    ];
    let told_encrypted = told(Family::Postgres, &encrypted);
    assert_eq!(told_encrypted.broken, Some(Why::Encrypted));
    assert!(told_encrypted.sessions[0].tls);
    assert_eq!(told_encrypted.totals.unread, 300);
    let mut ends = Stream::new(Family::Postgres);
    ends.decrypts();
    let decrypted = read(ends, &[encrypted[..2].to_vec(), startup()].concat());
    decrypted.is_whole();
    assert_eq!(decrypted.sessions[0].client.as_deref(), Some("shop"));
    let direct = told(Family::Postgres, &[(Client, b"\x16\x03\x01\x02".to_vec())]);
    assert_eq!(direct.broken, Some(Why::Encrypted));
    let cancel = told(
        Family::Postgres,
        &[(Client, b"\0\0\0\x10\x04\xd2\x16\x2e12345678".to_vec())],
    );
    cancel.is_whole();
    assert_eq!(cancel.exchanges.len(), 1);
    let goodbye = postgres(vec![(Server, m(b'E', b"SFATAL\0C57P01\0\0"))]);
    goodbye.is_whole();
    let error = goodbye.exchanges[0].error.as_ref().expect("an error");
    assert_eq!(error.sqlstate, "57P01");
    let no_login = [&startup()[..2], &[(Server, m(b'E', b"SFATAL\0C28P01\0\0"))]].concat();
    let refused = told(Family::Postgres, &no_login).sessions.remove(0).refused;
    assert_eq!(refused.expect("refused").sqlstate, "28P01");
}

/// A packet of MySQL.
pub fn p(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// A login with these capabilities on both sides.
pub fn login(capabilities: u32) -> Passed {
    let [a, b, c, d] = (capabilities | 0x0008_8201).to_le_bytes();
    let greeting = [
        &b"\x0a8.0\0\0\0\0\x0012345678\0"[..],
        &[a, b, 45, 2, 0, c, d, 21],
        &[0; 10],
        b"123456789012\0mysql_native_password\0",
    ];
    let response = [
        &[a, b, c, d, 0, 0, 0, 1, 45][..],
        &[0; 23],
        b"geheim\0\x06geheimmysql_native_password\0",
    ];
    vec![
        (Server, p(0, &greeting.concat())),
        (Client, p(1, &response.concat())),
        (Server, p(2, OK)),
    ]
}

pub const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const SSL: u32 = 1 << 11;

fn mysql(more: Passed) -> Told {
    told(Family::Mysql, &[login(0), more].concat())
}

#[test]
fn requests_that_were_sent_before_an_answer_began_share_a_flight() {
    let query = |sql: &str| p(0, &[b"\x03", sql.as_bytes()].concat());
    let told = mysql(vec![
        (Client, query("SELECT 1")),
        (Client, query("DO 2")),
        (Client, [query("DO 3"), query("DO 4")].concat()),
        (Server, p(1, OK)),
        (Client, query("DO 5")),
        (Server, [p(1, OK), p(1, OK), p(1, OK), p(1, OK)].concat()),
        (Client, query("DO 6")),
        (Server, p(1, OK)),
    ]);
    told.is_whole();
    let trips: Vec<_> = told.exchanges.iter().map(|each| each.round_trips).collect();
    assert_eq!(trips, [1, 0, 0, 0, 0, 1]);
}

#[test]
fn mariadb_executes_what_it_is_still_preparing() {
    let execute = b"\x17\xff\xff\xff\xff\0\x01\0\0\0\0\x01\x08\0\x05\0\0\0\0\0\0\0";
    let told = mysql(vec![
        (Client, [p(0, b"\x16SELECT ?"), p(0, execute)].concat()),
        (
            Server,
            [p(1, b"\0\x09\0\0\0\0\0\x01\0\0\0\0"), p(2, b"\x03def")].concat(),
        ),
        // The login left EOF packets in.
        (Server, [p(3, b"\xfe\0\0\x02\0"), p(1, OK)].concat()),
        (Server, p(0, b"\xff\xbe\x0f#HY000idle")),
    ]);
    told.is_whole();
    let [prepare, execute, goodbye] = &told.exchanges[..] else {
        panic!("{told:#?}");
    };
    assert_eq!((prepare.round_trips, execute.round_trips), (1, 0));
    assert_eq!(text(execute).as_deref(), Some("SELECT ?"));
    assert_eq!(execute.parameters.as_ref().expect("one").rows[0].len(), 1);
    assert_eq!(goodbye.error.as_ref().expect("an error").code, 4030);
}

#[test]
fn news_of_progress_is_no_end() {
    let told = mysql(vec![
        (Client, p(0, b"\x03ALTER TABLE t ENGINE=InnoDB")),
        (Server, p(1, b"\xff\xff\xff\x01\x01\x02\0\0\0\x01x")),
        (Server, p(2, OK)),
    ]);
    told.is_whole();
    let [alter] = &told.exchanges[..] else {
        panic!("{told:#?}");
    };
    assert_eq!((alter.error.as_ref(), alter.packets_received), (None, 2));
}

#[test]
fn what_cannot_be_read_is_named_and_counted() {
    let request = p(1, &[&(SSL | 0x200).to_le_bytes()[..], &[0; 28]].concat());
    let mut encrypted = login(SSL);
    encrypted.truncate(1);
    encrypted.extend([
        (Client, request.clone()),
        (Client, vec![22; 500]),
        (Server, vec![22; 400]),
    ]);
    let seen = told(Family::Mysql, &encrypted);
    assert_eq!(
        (seen.broken, seen.totals.unread),
        (Some(Why::Encrypted), 900)
    );
    assert!(seen.sessions[0].tls && seen.exchanges.is_empty());
    let mut ends = Stream::new(Family::Mysql);
    ends.decrypts();
    let [greeting, mut response, mut ok] = <[_; 3]>::try_from(login(SSL)).expect("three");
    response.1[3] = 2;
    ok.1[3] = 3;
    let seen = read(ends, &[greeting, (Client, request), response, ok]);
    seen.is_whole();
    assert!(seen.sessions[0].tls);

    let replica = mysql(vec![
        (Client, p(0, b"\x12\x04\0\0\0\0\0\x01\0\0\0")),
        (Server, p(1, b"\0abc")),
        (Server, vec![0; 1000]),
    ]);
    assert_eq!(replica.broken, Some(Why::Replication));
    for (family, first) in [
        (Family::Mysql, (Server, m(b'E', b"SFATAL\0\0"))),
        (Family::Mysql, (Client, p(0, b"\x03SELECT 1"))),
        (
            Family::Postgres,
            (Client, b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ),
        (Family::Postgres, (Server, login(0).remove(0).1)),
    ] {
        let seen = told(family, &[first]);
        assert_eq!(
            seen.broken,
            Some(Why::NotTheProtocol),
            "{family:?} {seen:?}"
        );
        assert!(seen.exchanges.is_empty());
    }
}

#[test]
fn a_long_message_is_never_held() {
    let part = vec![b'x'; 1 << 16];
    for side in [Client, Server] {
        let held = most(|| {
            let mut stream = Stream::new(Family::Mysql);
            let mut told = Told::default();
            let mut add = |observed| told.add(observed);
            for (side, bytes) in login(1 << 24) {
                stream.bytes(side, &bytes, 0, &mut add);
            }
            if side == Server {
                stream.bytes(Client, &p(0, b"\x03SELECT x"), 0, &mut add);
                let header = [p(1, b"\x01"), p(2, b"\x03def")].concat();
                stream.bytes(Server, &header, 0, &mut add);
            }
            for number in 0..8 {
                let head = [
                    0xFF,
                    0xFF,
                    0xFF,
                    number + if side == Server { 3 } else { 0 },
                ];
                stream.bytes(side, &head, 0, &mut add);
                if (side, number) == (Client, 0) {
                    stream.bytes(side, b"\x03SELECT 'x", 0, &mut add);
                }
                let mut left = 0xFF_FFFF - if (side, number) == (Client, 0) { 10 } else { 0 };
                while left > 0 {
                    let now = left.min(part.len());
                    stream.bytes(side, &part[..now], 0, &mut add);
                    left -= now;
                }
            }
            stream.end(0, &mut add);
            let totals = stream.totals();
            assert!(totals.bytes_sent + totals.bytes_received > 128 << 20);
            assert_eq!((told.broken, totals.unread), (None, 0));
        });
        assert!(held < 2 << 20, "{held} bytes");
    }
}

#[test]
fn many_requests_without_answers_are_bounded() {
    let query = p(0, &[b"\x03SELECT '", &[b'x'; 200_000][..], b"'"].concat());
    let held = most(|| {
        let mut stream = Stream::new(Family::Mysql);
        let mut told = Told::default();
        for (side, bytes) in login(0) {
            stream.bytes(side, &bytes, 0, &mut |observed| told.add(observed));
        }
        for _ in 0..1000 {
            stream.bytes(Client, &query, 0, &mut |observed| told.add(observed));
        }
        assert!(told.exchanges.is_empty());
    });
    assert!(held < 24 << 20, "{held} bytes");
    let ping = p(0, b"\x0e");
    let flood = mysql(vec![(Client, ping.repeat(70_000))]);
    assert_eq!(flood.broken, Some(Why::TooMuch));
    let flood = postgres(vec![(Client, execute("", 0).repeat(70_000))]);
    assert_eq!(flood.broken, Some(Why::TooMuch));
}
