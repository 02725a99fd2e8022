//! What a masked trace keeps.

use wire::passive::{Exchange, Kind, Observed};

use super::{Place, all, begin, query, sql, text};
use crate::{Ending, TraceWriter};

/// A statement of the same bytes is masked, whichever comes first.
#[test]
fn the_name_of_a_database_stays() {
    let place = Place::new();
    let writer = TraceWriter::create(&place.path, &begin(true), 0).expect("a file");
    for (name, is_first) in [("shop 2024", true), ("7 shops", false)] {
        let statement = query(name, 1);
        let mut init_db = Exchange::new(Kind::InitDb, 1);
        init_db.text = text(name);
        let init_db = Observed::Exchange(Box::new(init_db));
        let both = match is_first {
            true => [&init_db, &statement],
            false => [&statement, &init_db],
        };
        for each in both {
            writer.observed(1, each);
        }
    }
    writer.finish(Ending::default()).expect("room");
    let (records, _) = all(&place.path);
    let texts: Vec<_> = records.iter().filter_map(sql).collect();
    assert_eq!(texts, ["shop 2024", "shop 9999", "9 shops", "7 shops"]);
}
