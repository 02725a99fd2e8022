//! What is wrong with files: each with its place and a hint.

use std::path::Path;
use std::sync::Arc;

use wire::{Family, Statement};

use crate::script::file::read;
use crate::script::{Script, may_return};

/// The errors and notes of a file, as a user sees them.
fn said(text: &str, notes: bool) -> Vec<String> {
    let (_, problems) = read(text, Family::Mysql.into());
    problems.lines(Path::new("f.toml"), text, notes)
}

#[test]
fn each_error_has_its_place_and_a_hint() {
    for (text, place, message, hint) in [
        (
            "",
            "1:1",
            "there are no transactions",
            "[transactions.look]",
        ),
        (
            "[transactions]\n",
            "1:1",
            "there are no transactions",
            "for example",
        ),
        ("x = \n", "1:", "", "TOML's rules"),
        (
            "[a]\n[transactions.t]\nstatements = ['SELECT 1']\n",
            "1:2",
            "no key a",
            "there are",
        ),
        (
            "[transactions.t]\nstatments = ['SELECT 1']\n",
            "2:1",
            "no key statments",
            "did you mean statements?",
        ),
        (
            "[variables]\nid = 1\n[transactions.t]\nstatements = ['SELECT :idd + 1']\n",
            "4:23",
            "no variable idd",
            "did you mean id?",
        ),
        (
            "[transactions.t]\nstatements = [\"\"\"\nSELECT\n  :x\"\"\"]\n",
            "4:3",
            "no variable x",
            "there is none",
        ),
        (
            "[transactions.t]\nstatements = [\"SELECT \\\"a\\\", :x\"]\n",
            "2:15",
            "no variable x",
            "there is none",
        ),
        (
            "[transactions.t]\nweight = 0\nstatements = ['SELECT 1']\n",
            "1:2",
            "weight of every transaction is 0",
            "above 0",
        ),
        (
            "[transactions.t]\nweight = -1\nstatements = ['SELECT 1']\n",
            "2:10",
            "weight",
            "0 to",
        ),
        (
            "[transactions.t]\nweight = 1\n",
            "1:15",
            "has no statements",
            "for example",
        ),
        (
            "[transactions.t]\nstatements = 'SELECT 1'\n",
            "2:14",
            "cannot be of type string",
            "a list",
        ),
        (
            "[transactions.t]\nstatements = [1]\n",
            "2:15",
            "cannot be of type integer",
            "in quotes",
        ),
        (
            "[transactions.t]\nstatements = ['  ']\n",
            "2:15",
            "no text",
            "write one",
        ),
        (
            "[transactions.t]\nstatements = ['SELECT ?']\n",
            "2:23",
            "stands for no",
            ":name",
        ),
        (
            "[transactions.t]\nstatements = ['begin']\n",
            "2:15",
            "BEGIN cannot be",
            "begin = true",
        ),
        (
            "[transactions.t]\nstatements = ['COMMIT']\n",
            "2:15",
            "COMMIT cannot be",
            "begin = true",
        ),
        (
            "[transactions.t]\nstatements = ['ROLLBACK']\n",
            "2:15",
            "ROLLBACK",
            "rollback = ",
        ),
        (
            "[transactions.t]\nrollback = 0.5\nstatements = ['SELECT 1']\n",
            "1:15",
            "nothing to roll back",
            "begin = true",
        ),
        (
            "[transactions.t]\nrollback = 2\nstatements = ['x']\n",
            "2:12",
            "rollback",
            "0 to 1",
        ),
        (
            "[transactions.t]\nthink_ms = [5, 1]\nstatements = ['x']\n",
            "2:12",
            "think_ms",
            "SHORTEST",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 'x', name = 'commit' }]\n",
            "2:23",
            "named \"commit\"",
            "connect, prepare",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 'x', statements = ['y'] }]\n",
            "2:15",
            "either sql or statements",
            "as a whole",
        ),
        (
            "[transactions.t]\nstatements = [{ repeat = 2, statements = [] }]\n",
            "2:42",
            "a group has no statements",
            "leave the group out",
        ),
        (
            "[transactions.t]\nstatements = [{ name = 'x' }]\n",
            "2:15",
            "either sql",
            "sql is",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 1 }]\n",
            "2:23",
            "cannot be of type integer",
            "in quotes",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 'x', repeat = 0 }]\n",
            "2:37",
            "repeat",
            "from 1",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 'x', repeat = 'n' }]\n",
            "2:37",
            "no variable n",
            "there is none",
        ),
        (
            "[variables]\na = { uniform = [1.0, 3.0] }\n[transactions.t]\nstatements = [{ sql = 'x', repeat = 'a' }]\n",
            "4:37",
            "a is no number of rounds",
            "whole numbers",
        ),
        (
            "[variables]\na = { text = 3 }\n[transactions.t]\nstatements = [{ sql = 'x', repeat = 'a' }]\n",
            "4:37",
            "a is no number of rounds",
            "whole numbers",
        ),
        (
            "[variables]\na = 2.5\n[transactions.t]\nstatements = [{ sql = 'x', repeat = 'a' }]\n",
            "4:37",
            "a is no number of rounds",
            "whole numbers",
        ),
        (
            "[variables]\na = { one_of = [1, 'two'] }\n[transactions.t]\nstatements = [{ sql = 'x', repeat = 'a' }]\n",
            "4:37",
            "a is no number of rounds",
            "whole numbers",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 'x', rows = 'one' }]\n",
            "2:35",
            "value of rows is unknown",
            "\"all\" or \"first\"",
        ),
        (
            "[variables]\nid = 1\n[transactions.t]\nstatements = [{ sql = 'x', redraw = ['id'] }]\n",
            "4:38",
            "no variable id is drawn",
            "there is none",
        ),
        (
            "[transactions.t]\nstatements = [{ sql = 'x', into = [1] }]\n",
            "2:36",
            "cannot be of type integer",
            "names in quotes",
        ),
        (
            "[transactions.t]\nstatements = [\n'SELECT 1', { sql = 'x', into = ['a'] }]\n\
             [transactions.u]\nstatements = ['SELECT :a']\n",
            "5:23",
            "a has no value",
            "in the same transaction",
        ),
        (
            "[variables]\na = { uniform = [1, 2], draw = 'use' }\n\
             [transactions.t]\nstatements = [{ sql = 'SELECT :a', into = ['a'] }]\n",
            "4:44",
            "a keeps no value",
            "draw = \"use\"",
        ),
        (
            "[variables]\na = true\n",
            "2:5",
            "the value of a cannot be a parameter",
            "TRUE",
        ),
        (
            "[variables]\na = [1]\n",
            "2:5",
            "cannot be a parameter",
            "TRUE",
        ),
        (
            "[variables]\na = 1e5\n",
            "2:5",
            "cannot be a parameter",
            "with a point",
        ),
        (
            "[variables]\na = 2026-01-01T00:00:00Z\n",
            "2:5",
            "cannot be a parameter",
            "dates",
        ),
        (
            "[variables]\n1a = 1\n",
            "2:1",
            "not a name for a variable",
            "begins with no digit",
        ),
        ("[variables]\na = {}\n", "2:5", "0 sources", "uniform, zipf"),
        (
            "[variables]\na = { uniform = [1, 2], text = 3 }\n",
            "2:5",
            "2 sources",
            "one of",
        ),
        (
            "[variables]\na = { uniform = [2, 1] }\n",
            "2:17",
            "ends before it begins",
            "smaller",
        ),
        (
            "[variables]\na = { uniform = 5 }\n",
            "2:17",
            "a first and a last",
            "[1, 100000]",
        ),
        (
            "[variables]\na = { uniform = [1, 'b'] }\n",
            "2:17",
            "of one type",
            "[1, 100000]",
        ),
        (
            "[variables]\na = { uniform = [1, 2], exponent = 1 }\n",
            "2:25",
            "no key exponent",
            "there are",
        ),
        (
            "[variables]\na = { zipf = [1, 2], exponent = -1 }\n",
            "2:33",
            "exponent",
            "0 to 10",
        ),
        (
            "[variables]\na = { text = -1 }\n",
            "2:14",
            "the length of text",
            "[SHORTEST, LONGEST]",
        ),
        (
            "[variables]\na = { one_of = [] }\n",
            "2:16",
            "lists no value",
            "Rome",
        ),
        (
            "[variables]\na = { one_of = [true] }\n",
            "2:17",
            "cannot be a parameter",
            "TRUE",
        ),
        (
            "[variables]\na = { one_of = [1], weights = [0] }\n",
            "2:31",
            "weights",
            "1 values",
        ),
        (
            "[variables]\na = { one_of = [1], draw = 'row' }\n",
            "2:28",
            "value of draw is unknown",
            "\"use\"",
        ),
        (
            "variables = 1\n",
            "1:13",
            "variables cannot be of type integer",
            "a table",
        ),
        (
            "transactions = 1\n",
            "1:16",
            "no transactions",
            "for example",
        ),
    ] {
        let said = said(text, false);
        let found = said.iter().any(|line| {
            line.starts_with(&format!("f.toml:{place}"))
                && line.contains(message)
                && line
                    .split("; hint: ")
                    .nth(1)
                    .is_some_and(|said| said.contains(hint))
        });
        assert!(found, "{text}\n{said:#?}");
    }
}

#[test]
fn all_errors_are_said_at_once_in_the_order_of_the_file() {
    let text = "[transactions.t]\nstatements = ['SELECT :x', 'SELECT :y']\nwieght = 1\n";
    let said = said(text, false);
    let places: Vec<&str> = said.iter().map(|line| &line[..11]).collect();
    assert_eq!(
        places,
        ["f.toml:2:23", "f.toml:2:36", "f.toml:3:1:"],
        "{said:#?}"
    );
}

#[test]
fn a_variable_that_nothing_uses_is_a_note() {
    let text = "[variables]\na = 1\nb = 2\n[transactions.t]\n\
                statements = [{ sql = 'SELECT :b', into = ['c', 'd'] }, 'SELECT :d']\n";
    assert!(said(text, false).is_empty());
    let notes = said(text, true);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("f.toml:2:1: no statement uses the variable a"));
    assert!(notes[1].contains("variable c"), "{notes:?}");
}

#[test]
fn a_number_of_rounds_may_come_from_a_row() {
    for text in [
        "[variables]\na = 'none'\n[transactions.t]\n\
         statements = [{ sql = 'x', into = ['a'] }, { sql = 'y', repeat = 'a' }]\n",
        "[variables]\na = { text = 3, draw = 'connection' }\n[transactions.t]\n\
         statements = [{ sql = 'y', repeat = 'a' }, { sql = 'x', into = ['a'] }]\n",
        "[variables]\na = 2.0\nb = '3'\nc = { one_of = [0, 1] }\n[transactions.t]\nstatements = [\
         { sql = 'x', repeat = 'a' }, { sql = 'x', repeat = 'b' }, { sql = 'x', repeat = 'c' }]\n",
    ] {
        let said = said(text, false);
        assert!(said.is_empty(), "{said:?}");
    }
}

/// Whether a statement that gives a variable is refused where its preparation tells of no columns.
fn is_refused(family: Family, sql: &str) -> bool {
    let text = format!("[transactions.t]\nstatements = [{{ sql = '{sql}', into = ['a'] }}]\n");
    let (file, _) = read(&text, family.into());
    let script = Script {
        name: String::new(),
        path: Path::new("f.toml").to_owned(),
        text,
        file: Arc::new(file),
        kinds: Vec::new(),
        notes: Vec::new(),
    };
    let statements = &script.file.statements;
    let prepared = Statement {
        id: 1,
        parameters: 0,
        columns: 0,
    };
    let may_return = may_return(family, &statements.specs[0].sql);
    let refusal = script.refusal(&statements.places[0], Ok(prepared), may_return);
    refusal.expect("a connection").is_some()
}

#[test]
fn mysql_tells_no_columns_of_what_is_no_query() {
    for sql in [
        "CALL p()",
        "explain SELECT 1",
        "SHOW PROCESSLIST",
        "ANALYZE TABLE t",
    ] {
        assert!(!is_refused(Family::Mysql, sql), "{sql}");
        assert!(is_refused(Family::Postgres, sql), "{sql}");
    }
    for sql in ["UPDATE t SET a = 1", "SELECT 1 INTO @a", "SET @a = 1"] {
        assert!(is_refused(Family::Mysql, sql), "{sql}");
    }
}
