//! What our own client never sends, on MySQL's protocol: with and without EOF packets, statements with attributes, long data, resets,
//! requests in one flight.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use testserver::Server;
use wire::Family;
use wire::passive::{Exchange, Kind, ParameterValue};

use crate::relay::Relay;
use crate::{Told, text, told};

const BASIC: u32 =
    0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | (1 << 16) | (1 << 17) | (1 << 18) | (1 << 19);
const ATTRIBUTES: u32 = 1 << 20;
const DEPRECATE_EOF: u32 = 1 << 24;
const SESSION_TRACK: u32 = 1 << 23;
const QUERY_ATTRIBUTES: u32 = 1 << 27;

struct Raw {
    stream: UnixStream,
    deprecates_eof: bool,
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes();
    bytes[3] = number;
    [&bytes[..], payload].concat()
}

fn text_of(text: &str) -> Vec<u8> {
    [&[text.len() as u8][..], text.as_bytes()].concat()
}

impl Raw {
    fn log_in(relay: &Relay, more: u32) -> Self {
        let stream = UnixStream::connect(relay.socket()).expect("the relay");
        let mut raw = Self {
            stream,
            deprecates_eof: more & DEPRECATE_EOF != 0,
        };
        raw.receive();
        let mut payload = (BASIC | more).to_le_bytes().to_vec();
        payload.extend_from_slice(&(1u32 << 24).to_le_bytes());
        payload.push(45);
        payload.extend_from_slice(&[0; 23]);
        payload.extend_from_slice(b"root\0\0passive\0mysql_native_password\0");
        if more & ATTRIBUTES != 0 {
            let all = [
                "_client_name",
                "raw",
                "_client_version",
                "1.2",
                "os_user",
                "geheim",
            ];
            let all: Vec<u8> = all.iter().flat_map(|text| text_of(text)).collect();
            payload.push(all.len() as u8);
            payload.extend_from_slice(&all);
        }
        raw.stream.write_all(&packet(1, &payload)).expect("sent");
        raw.until_let_in(3);
        raw
    }

    /// Answer what the login still asks, always with an empty password.
    fn until_let_in(&mut self, mut number: u8) {
        loop {
            let answer = self.receive();
            match answer[0] {
                0x00 => return,
                0xFE => {
                    self.stream.write_all(&packet(number, b"")).expect("sent");
                    number += 2;
                }
                0x01 => number += 1,
                _ => panic!("{}", String::from_utf8_lossy(&answer)),
            }
        }
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).expect("a packet");
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).expect("a packet");
        payload
    }

    fn send(&mut self, payloads: &[&[u8]]) {
        let all: Vec<u8> = payloads
            .iter()
            .flat_map(|payload| packet(0, payload))
            .collect();
        self.stream.write_all(&all).expect("sent");
    }

    /// One packet for one request.
    fn ask(&mut self, payload: &[u8]) -> Vec<u8> {
        self.send(&[payload]);
        self.receive()
    }

    /// A result with rows, to its end.
    fn result(&mut self) {
        let first = self.receive();
        if matches!(first[0], 0 | 0xFF) {
            return;
        }
        let ends = if self.deprecates_eof { 1 } else { 2 };
        let mut columns = if self.deprecates_eof {
            usize::from(first[0])
        } else {
            0
        };
        let mut ended = 0;
        while ended < ends {
            let payload = self.receive();
            if columns > 0 {
                columns -= 1;
            } else if payload[0] == 0xFE || payload[0] == 0xFF {
                ended += 1;
            }
        }
    }

    fn prepare(&mut self, sql: &str) -> [u8; 4] {
        let answer = self.ask(&[b"\x16", sql.as_bytes()].concat());
        assert_eq!(answer[0], 0, "{sql}");
        let count = |at: usize| usize::from(u16::from_le_bytes([answer[at], answer[at + 1]]));
        for count in [count(7), count(5)] {
            let end = usize::from(count > 0 && !self.deprecates_eof);
            for _ in 0..count + end {
                self.receive();
            }
        }
        answer[1..5].try_into().expect("four")
    }
}

/// The commands; with attributes of statements where the server has them.
fn talk(relay: &Relay, capabilities: u32, has_query_attributes: bool) {
    let mut raw = Raw::log_in(relay, capabilities);
    raw.ask(b"\x0e");
    raw.ask(b"\x02passive");
    raw.ask(b"\x09");
    let query: &[u8] = if has_query_attributes {
        // One attribute, `a` = 7, before the text.
        b"\x03\x01\x01\x00\x01\x08\x00\x01a\x07\0\0\0\0\0\0\0SELECT 1, 'attributes'"
    } else {
        b"\x03SELECT 1, 'attributes'"
    };
    raw.send(&[query]);
    raw.result();
    let id = raw.prepare("SELECT ?, ?, ? UNION ALL SELECT 1, 2, 3");
    // Long data for the second parameter in two parts, then the execution, in one flight.
    let long = |data: &[u8]| [&b"\x18"[..], &id, b"\x01\x00", data].concat();
    let count: &[u8] = if has_query_attributes { b"\x03" } else { b"" };
    let name: &[u8] = if has_query_attributes { b"\x00" } else { b"" };
    let kinds = [&b"\x08\x80"[..], name, b"\xfc\x00", name, b"\x0c\x00", name].concat();
    let at = b"\x0b\xe8\x07\x02\x1d\x17\x3b\x3a\x01\x00\x00\x00";
    let execute = |flags: u8, kinds: &[u8], nulls: u8, values: &[u8]| {
        [
            &b"\x17"[..],
            &id,
            &[flags],
            b"\x01\0\0\0",
            count,
            &[nulls],
            kinds,
            values,
        ]
        .concat()
    };
    let with_kinds = [&b"\x01"[..], &kinds].concat();
    let values = [&u64::MAX.to_le_bytes()[..], at].concat();
    raw.send(&[
        &long(b"abc"),
        &long(b"defg"),
        &execute(0, &with_kinds, 0, &values),
    ]);
    raw.result();
    // The types are remembered; what was sent as long data is not.
    let again = [&5u64.to_le_bytes()[..], b"\x02hi"].concat();
    raw.send(&[&execute(0, b"\x00", 0b100, &again)]);
    raw.result();
    // A cursor that is left open, then a reset of the statement.
    let all_null = execute(1, b"\x00", 0b111, b"");
    raw.send(&[&all_null]);
    // The header, three definitions, and the end of them.
    for _ in 0..5 {
        raw.receive();
    }
    raw.send(&[&[&b"\x1c"[..], &id, b"\x01\0\0\0"].concat()]);
    raw.receive();
    raw.receive();
    raw.ask(&[&b"\x1a"[..], &id].concat());
    // Three requests in one flight, a close among them.
    let unused = raw.prepare("SELECT 1");
    raw.send(&[b"\x0e", &[&b"\x19"[..], &unused].concat(), b"\x0e"]);
    raw.receive();
    raw.receive();
    raw.ask(b"\x1b\x01\x00");
    raw.ask(b"\x1f");
    raw.send(&[b"\x11root\0\0mysql\0\x2d\0mysql_native_password\0\0"]);
    raw.until_let_in(2);
    raw.ask(b"\x63");
    raw.send(&[b"\x01"]);
    let _ = raw.stream.read_to_end(&mut Vec::new());
}

fn kinds(told: &Told) -> Vec<Kind> {
    told.exchanges.iter().map(|each| each.kind).collect()
}

fn values(exchange: &Exchange) -> Vec<ParameterValue> {
    let parameters = exchange.parameters.as_ref().expect("parameters");
    assert!(!parameters.cut);
    parameters.rows[0]
        .iter()
        .map(|parameter| parameter.value.clone())
        .collect()
}

pub fn everything(server: &Server, has_query_attributes: bool) {
    let attributes = if has_query_attributes {
        QUERY_ATTRIBUTES
    } else {
        0
    };
    for more in [
        0,
        DEPRECATE_EOF,
        SESSION_TRACK | ATTRIBUTES,
        DEPRECATE_EOF | SESSION_TRACK,
    ] {
        let relay = Relay::start(server);
        talk(&relay, more | attributes, has_query_attributes);
        let passed = relay.passed().pop().expect("a connection");
        let told = told(Family::Mysql, &passed);
        told.is_whole();
        if more & ATTRIBUTES != 0 {
            let facts = &told.sessions[0];
            assert_eq!(facts.client.as_deref(), Some("raw"));
            assert_eq!(facts.client_version.as_deref(), Some("1.2"));
            assert_eq!(facts.attributes.len(), 2, "{facts:?}");
        }
        use Kind::{
            ChangeUser, CloseStatement, Execute, Fetch, InitDb, LongData, Other, Ping, Prepare,
            Query, Quit, ResetConnection, ResetStatement, Statistics,
        };
        let expected = [
            Ping,
            InitDb,
            Statistics,
            Query,
            Prepare,
            LongData,
            LongData,
            Execute,
            Execute,
            Execute,
            Fetch,
            ResetStatement,
            Prepare,
            Ping,
            CloseStatement,
            Ping,
            Other,
            ResetConnection,
            ChangeUser,
            Other,
            Quit,
        ];
        assert_eq!(kinds(&told), expected);
        let all = &told.exchanges;
        assert_eq!(text(&all[3]).as_deref(), Some("SELECT 1, 'attributes'"));
        let expected = [
            ParameterValue::UInt(u64::MAX),
            ParameterValue::Long(7),
            ParameterValue::Text(b"2024-02-29 23:59:58.000001".to_vec()),
        ];
        assert_eq!(values(&all[7]), expected);
        let expected = [
            ParameterValue::UInt(5),
            ParameterValue::Text(b"hi".to_vec()),
            ParameterValue::Null,
        ];
        assert_eq!(values(&all[8]), expected);
        assert_eq!(
            values(&all[9]),
            [
                ParameterValue::Null,
                ParameterValue::Null,
                ParameterValue::Null
            ]
        );
        assert_eq!(
            [all[7].rows, all[8].rows, all[9].rows, all[10].rows],
            [2, 2, 0, 1]
        );
        assert!(all[9].cursor && !all[8].cursor && all[11].early_close && !all[12].early_close);
        assert_eq!(all[10].fetch_size, Some(1));
        let trips: Vec<_> = all[5..16].iter().map(|each| each.round_trips).collect();
        assert_eq!(trips, [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(all[19].error.as_ref().map(|error| error.code), Some(1047));
    }
}
