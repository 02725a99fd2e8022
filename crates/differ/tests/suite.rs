//! Statements of tests, sent to the packaged MariaDB and to one with another sql_mode.

use std::fs;
use std::path::PathBuf;

use differ::allow::Allowed;
use differ::generate::SESSION;
use differ::lockstep::Place;
use differ::random::CLIENTS;
use differ::suite::{run, script::tests};
use testserver::{Kind, Server};

const EQUAL: &str = "--disable_warnings
drop table if exists t1;
create table t1 (a int unsigned, key (a));
insert into t1 values (1),(2);
--error ER_NO_SUCH_TABLE
select * from t2;
create user one@localhost;
create database other;
select * from t1;
shutdown;
set global sql_mode='';
";
/// The first statement has an answer of its moment, the second one differs each time, and so would the third.
const OTHER: &str = "select rand();
select cast(1 as unsigned) - 2;
select cast(1 as unsigned) - 3;
";

#[test]
fn what_differs_each_time_is_told_from_what_differs_now_and_then() {
    let (stock, patched) = (
        Server::start(Kind::MariaDb, &[]),
        Server::start(Kind::MariaDb, &["--sql-mode=NO_UNSIGNED_SUBTRACTION"]),
    );
    let socket = |server: &Server| -> PathBuf { server.folder().join("s") };
    let place = Place {
        stock: socket(&stock),
        patched: socket(&patched),
        database: "test".to_owned(),
        wanted: CLIENTS[0],
        session: SESSION.map(str::to_owned).to_vec(),
        allowed: Allowed::default(),
    };
    let root = tempfile::tempdir().expect("room");
    let root = root.path();
    fs::create_dir(root.join("t")).expect("room");
    fs::write(root.join("t/equal.test"), EQUAL).expect("room");
    fs::write(root.join("t/other.test"), OTHER).expect("room");
    let files = tests(root, "main").expect("a folder").expect("a suite");
    // Twice: what a test leaves behind, users and databases, is gone.
    let equal = [files[0].clone(), files[0].clone()];
    let report = run(&place, root, &equal, &|_| (), &|_| ()).expect("two servers");
    assert_eq!(report.differences.len(), 0, "{:?}", report.differences);
    assert_eq!(report.groups["text"].statements, 14);
    assert_eq!(report.groups["text"].errors, 2, "{:?}", report.groups);
    assert!(report.groups["prepared"].statements > 28);

    let report = run(&place, root, &files[1..], &|_| (), &|_| ()).expect("two servers");
    let (steady, unsteady): (Vec<_>, Vec<_>) =
        report.differences.iter().partition(|each| each.steady);
    let named = |group: &str| {
        let found = steady.iter().find(|each| each.what.starts_with(group));
        found.expect(group)
    };
    assert_eq!(steady.len(), 2, "{steady:?}");
    let script = &named("other, text: ").script;
    assert!(
        script.ends_with("\nselect cast(1 as unsigned) - 2;\n"),
        "{script}"
    );
    let prepared = named("other, prepared: ");
    assert!(prepared.script.contains("COM_STMT_PREPARE"), "{prepared:?}");
    assert!(
        unsteady.iter().all(|each| each.what.contains("packet")),
        "{unsteady:?}"
    );
    assert!(!unsteady.is_empty(), "rand() is another each time");
}
