//! The passive codec on exchanges that were captured from real servers.

use wire::Family;
use wire::passive::{Observed, Side, Stream};

#[path = "common/captured.rs"]
mod captured;

use captured::captured;

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
