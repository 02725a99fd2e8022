//! The passive codec on exchanges that were captured from real servers.

use wire::Family;
use wire::passive::{Exchange, Observed, Side, Stream};

fn captured(name: &str) -> Vec<(Side, Vec<u8>)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/exchanges")
        .join(name);
    let text = std::fs::read_to_string(path).expect("a captured exchange");
    let lines = text.lines().filter_map(|line| {
        let side = match line.split_at(2) {
            ("> ", _) => Side::Client,
            ("< ", _) => Side::Server,
            _ => return None,
        };
        let digits = &line[2..];
        let bytes = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal"));
        Some((side, bytes.collect()))
    });
    lines.collect()
}

#[test]
fn look() {
    for name in [
        "mysql-9.7.txt",
        "mariadb-10.11.txt",
        "mysql-9.7-metadata-off.txt",
        "mariadb-10.11-metadata-off.txt",
    ] {
        println!("{name}");
        let mut stream = Stream::new(Family::Mysql);
        for (at, (side, bytes)) in captured(name).iter().enumerate() {
            stream.bytes(*side, bytes, at as u64, &mut |observed| match observed {
                Observed::Exchange(e) => println!(
                    "{:?} {:?} {:?} tx {:?} rt {} p {}/{} b {}/{} def {} rows {} aff {} {:?} {:?}",
                    e.kind,
                    e.verb,
                    e.text,
                    e.transaction,
                    e.round_trips,
                    e.packets_sent,
                    e.packets_received,
                    e.bytes_sent,
                    e.bytes_received,
                    e.definition_bytes,
                    e.rows,
                    e.affected,
                    e.error,
                    e.parameters
                ),
                other => println!("{other:?}"),
            });
        }
        stream.end(9999, &mut |o| println!("{o:?}"));
    }
}
