//! What is sent for a file: which values, how often, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::SeedableRng;
use wire::{Cell, ColumnDefinition, Done, Error, Family, RowSink, Value};

use crate::script::client::{Flow, ScriptClient, Sender, Values};
use crate::script::file::{File, read};
use crate::session::StatementId;
use crate::workload::{Client, Random};

fn file(text: &str) -> Arc<File> {
    let (file, problems) = read(text, Family::Mysql.into());
    assert!(!problems.has_errors(), "{problems:?}");
    Arc::new(file)
}

/// Notes what is sent, and answers with a row of numbers.
struct Sent {
    file: Arc<File>,
    said: Vec<String>,
    row: Option<Vec<&'static [u8]>>,
}

impl Sent {
    fn new(file: &Arc<File>) -> Self {
        Self {
            file: Arc::clone(file),
            said: Vec::new(),
            row: None,
        }
    }
}

impl Sender for Sent {
    fn family(&self) -> Family {
        Family::Mysql
    }

    fn send(
        &mut self,
        id: StatementId,
        parameters: &[Value],
        sink: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        let spec = &self.file.statements.specs[usize::from(id.0)];
        let sql = wire::render(Family::Mysql, &spec.sql, parameters);
        self.said.push(sql);
        if let Some(row) = &self.row {
            for kind in [8, 253, 246] {
                sink.column(&ColumnDefinition {
                    name: b"",
                    kind,
                    length: 0,
                    collation: 0,
                    flags: 0,
                    decimals: 0,
                });
            }
            let cells: Vec<Cell<'_>> = row.iter().map(|cell| Cell::Bytes(cell)).collect();
            sink.row(&cells);
            sink.row(&[Cell::Null, Cell::Null, Cell::Null]);
        }
        Ok(Done::default())
    }
}

/// What the first transaction of a file sends on one of several connections, so many times.
fn sent(text: &str, times: usize, number: u32, connections: u32) -> Vec<String> {
    let file = file(text);
    let mut values = Values::new(&file, number, connections);
    let mut to = Sent::new(&file);
    for seed in 0..times as u64 {
        values.begin();
        values.attempt(seed);
        let steps = &file.transactions[0].steps;
        values.run(steps, &mut to).expect("nothing fails");
    }
    to.said
}

#[test]
fn values_are_drawn_once_a_transaction_or_where_asked() {
    let text = "[variables]\na = { uniform = [1, 1000000000] }\nu = { uniform = [1, 1000000000], draw = 'use' }\n\
                c = { uniform = [1, 1000000000], draw = 'connection' }\n[transactions.t]\n\
                statements = [':a :a', { sql = ':a', redraw = ['a'] }, { sql = ':a', repeat = 2, redraw = ['a'] }, ':u :u', ':c']\n";
    let said = sent(text, 2, 0, 1);
    let words: Vec<&str> = said.iter().flat_map(|sql| sql.split(' ')).collect();
    let [a, same, anew, round, other_round, u, other_u, c] = words[..8] else {
        panic!("{words:?}")
    };
    assert_eq!(a, same);
    let drawn: BTreeSet<&str> = [a, anew, round, other_round, u, other_u, c].into();
    assert_eq!(drawn.len(), 7, "{words:?}");
    assert_ne!(words[8], a, "the next transaction draws its own");
    assert_eq!(words[15], c, "a connection keeps its own");
}

#[test]
fn a_retry_sends_the_same_again() {
    let text = "[variables]\na = { uniform = [1, 1000000000] }\ns = { sequence = 5 }\n\
                c = { text = 8, draw = 'connection' }\n[transactions.t]\nstatements = ['SELECT :a, :s, :c']\n";
    let file = file(text);
    let mut values = Values::new(&file, 0, 1);
    let mut to = Sent::new(&file);
    for transaction in 0..2 {
        values.begin();
        for _ in 0..2 {
            values.attempt(transaction);
            let flow = values.run(&file.transactions[0].steps, &mut to);
            assert_eq!(flow.expect("nothing fails"), Flow::On);
        }
    }
    assert_eq!(to.said[0], to.said[1]);
    assert_eq!(to.said[2], to.said[3]);
    assert_ne!(to.said[0], to.said[2]);
    assert!(
        to.said[0].contains(", 5, ") && to.said[2].contains(", 6, "),
        "{:?}",
        to.said
    );
}

#[test]
fn connections_have_parts_and_sequences_of_their_own() {
    let text = "[variables]\np = { uniform = [1, 10], partition = true, draw = 'use' }\n\
                z = { zipf = [1, 10], partition = true, draw = 'use' }\n\
                s = { sequence = 100, draw = 'use' }\n[transactions.t]\nstatements = [':p :z :s']\n";
    let mut parts: BTreeMap<i64, u32> = BTreeMap::new();
    let mut sequences = BTreeSet::new();
    for number in 0..3 {
        for said in sent(text, 200, number, 3) {
            let words: Vec<i64> = said
                .split(' ')
                .map(|word| word.parse().expect("a number"))
                .collect();
            for value in &words[..2] {
                assert_eq!(*parts.entry(*value).or_insert(number), number, "{value}");
            }
            assert!(sequences.insert(words[2]), "{said}");
        }
    }
    assert_eq!(parts.len(), 10, "{parts:?}");
    assert_eq!(
        (sequences.first(), sequences.last()),
        (Some(&100), Some(&699))
    );
}

#[test]
fn every_source_draws_what_it_says() {
    let text = "[variables]\nd = { uniform = [0.5, 1.25] }\nt = { text = [2, 3] }\n\
                o = { one_of = ['Rome', 7, 2.50], weights = [1, 0, 1] }\n\
                day = { uniform = [2026-01-01, 2026-01-02] }\nat = { uniform = [2026-01-01 00:00:00, 2026-01-01 00:00:01] }\n\
                z = { zipf = [1, 1000], exponent = 2.0 }\nk = 'it''s'\n".replace("'it''s'", "\"it's\"")
        + "[transactions.t]\nstatements = [':d|:t|:o|:day|:at|:z|:k']\n";
    let mut seen: Vec<BTreeSet<String>> = vec![BTreeSet::new(); 7];
    let mut low = 0;
    for said in sent(&text, 300, 0, 1) {
        for (place, word) in said.split('|').enumerate() {
            seen[place].insert(word.to_owned());
        }
        low += usize::from(said.contains("|1|"));
    }
    let d: Vec<f64> = seen[0]
        .iter()
        .map(|word| word.parse().expect("a number"))
        .collect();
    assert!(d.iter().all(|one| (0.5..=1.25).contains(one)), "{d:?}");
    assert!(
        seen[0].contains("0.50") && seen[0].contains("1.25"),
        "{:?}",
        seen[0]
    );
    let letters = |word: &String| word.trim_matches('\'').len();
    assert!(
        seen[1].iter().all(|word| matches!(letters(word), 2 | 3)),
        "{:?}",
        seen[1]
    );
    assert_eq!(Vec::from_iter(&seen[2]), ["'Rome'", "2.50"]);
    assert_eq!(
        Vec::from_iter(&seen[3]),
        ["'2026-01-01 00:00:00'", "'2026-01-02 00:00:00'"]
    );
    assert_eq!(
        Vec::from_iter(&seen[4]),
        ["'2026-01-01 00:00:00'", "'2026-01-01 00:00:01'"]
    );
    // Zipf with exponent 2: 61 % of 1000 values' draws are the first.
    assert!((150..220).contains(&low), "{low}");
    assert_eq!(Vec::from_iter(&seen[6]), ["'it''s'"]);
}

#[test]
fn a_row_gives_values_of_its_columns_types() {
    let text = "[transactions.t]\nstatements = [{ sql = 'SELECT', into = ['n', 's', 'd'] }, ':n|:s|:d', { sql = 'r', repeat = 'n' }]\n";
    let file = file(text);
    let mut values = Values::new(&file, 0, 1);
    for (row, expected, rounds) in [
        (Some(vec![&b"2"[..], b"007", b"1.50"]), "2|'007'|1.50", 2),
        (None, "NULL|NULL|NULL", 0),
    ] {
        let mut to = Sent::new(&file);
        to.row = row;
        values.begin();
        values.attempt(1);
        let flow = values.run(&file.transactions[0].steps, &mut to);
        assert_eq!(flow.expect("nothing fails"), Flow::On);
        assert_eq!(to.said[1], expected);
        assert_eq!(to.said.len(), 2 + rounds);
    }
}

#[test]
fn a_row_repeats_a_step_by_the_whole_part_of_its_number() {
    let text = "[transactions.t]\nstatements = [{ sql = 'SELECT', into = ['n', 's', 'd'] }, { sql = 'r', repeat = 'd' }]\n";
    let file = file(text);
    let mut values = Values::new(&file, 0, 1);
    // As AVG and SUM return them.
    for (number, rounds) in [("3.0000", 3), ("2.9", 2), ("-1.5", 0)] {
        let mut to = Sent::new(&file);
        to.row = Some(vec![b"1", b"", number.as_bytes()]);
        values.begin();
        values.attempt(1);
        let flow = values.run(&file.transactions[0].steps, &mut to);
        assert_eq!(flow.expect("nothing fails"), Flow::On);
        assert_eq!(to.said.len(), 1 + rounds);
    }
}

#[test]
fn a_transaction_may_end_where_there_is_no_row() {
    let text = "[transactions.t]\nstatements = [{ repeat = 3, statements = [{ sql = 'SELECT', into = ['n'], no_row = 'end' }] }, ':n']\n";
    let file = file(text);
    let mut values = Values::new(&file, 0, 1);
    let mut to = Sent::new(&file);
    values.begin();
    values.attempt(1);
    let flow = values.run(&file.transactions[0].steps, &mut to);
    assert_eq!(flow.expect("nothing fails"), Flow::End);
    assert_eq!(to.said, ["SELECT"]);
}

#[test]
fn a_given_value_stays_where_its_variable_says() {
    let text = "[variables]\nk = { sequence = 1, draw = 'connection' }\n[transactions.t]\n\
                statements = [':k', { sql = 'SELECT', into = ['k'] }]\n";
    let file = file(text);
    let mut values = Values::new(&file, 0, 1);
    let mut to = Sent::new(&file);
    to.row = Some(vec![b"77", b"", b"0.0"]);
    for _ in 0..2 {
        values.begin();
        values.attempt(1);
        values
            .run(&file.transactions[0].steps, &mut to)
            .expect("nothing fails");
    }
    assert_eq!(to.said, ["1", "SELECT", "77", "SELECT"]);
}

#[test]
fn transactions_come_by_weight_and_a_seed_draws_the_same_in_every_version() {
    let text = "[transactions.a]\nweight = 3\nstatements = ['x']\n[transactions.b]\nweight = 0\nstatements = ['x']\n\
                [transactions.c]\nstatements = ['x', 'y']\n";
    let file = file(text);
    let begins: Vec<bool> = file.transactions.iter().map(|one| one.begin).collect();
    assert_eq!(begins, [false, false, true]);
    let mut client = ScriptClient::new(&file, 0, 1);
    let mut random = Random::seed_from_u64(1);
    let kinds: Vec<u16> = (0..4000)
        .map(|_| client.draw(&mut random).expect("always one").0)
        .collect();
    let count = |kind| kinds.iter().filter(|one| **one == kind).count();
    assert_eq!(count(1), 0);
    assert!((2850..3150).contains(&count(0)), "{}", count(0));
    let text = "[variables]\na = { uniform = [1, 1000000] }\nz = { zipf = [1, 1000] }\nt = { text = 8 }\n\
                o = { one_of = [1, 2, 3] }\n[transactions.t]\nstatements = [':a :z :t :o']\n";
    let said = sent(text, 1000, 0, 1).join("\n");
    assert_eq!(
        xxhash_rust::xxh3::xxh3_64(said.as_bytes()),
        9_299_774_178_824_395_622,
        "{}",
        &said[..60]
    );
}
