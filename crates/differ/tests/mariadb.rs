//! The packaged MariaDB against itself is equal, and against one with another sql_mode it is not.

use std::path::PathBuf;
use std::time::Duration;

use differ::allow::Allowed;
use differ::generate::SESSION;
use differ::lockstep::{Pair, Place};
use differ::random::{CLIENTS, run_steps};
use differ::step::Step;
use differ::storm;
use testserver::{Kind, Server};
use wire::ServerUrl;

fn place(stock: &Server, patched: &Server) -> Place {
    let socket = |server: &Server| -> PathBuf { server.folder().join("s") };
    Place {
        stock: socket(stock),
        patched: socket(patched),
        database: "differ".to_owned(),
        wanted: CLIENTS[0],
        session: SESSION.map(str::to_owned).to_vec(),
        allowed: Allowed::default(),
    }
}

#[test]
fn a_server_is_equal_to_itself_and_a_planted_difference_is_found_and_made_small() {
    // Statistics that change by themselves change plans.
    let common = [
        "--innodb-stats-auto-recalc=OFF",
        "--innodb-flush-log-at-trx-commit=0",
    ];
    let other = [common.as_slice(), &["--sql-mode=NO_UNSIGNED_SUBTRACTION"]].concat();
    let (stock, same, other) = (
        Server::start(Kind::MariaDb, &common),
        Server::start(Kind::MariaDb, &common),
        Server::start(Kind::MariaDb, &other),
    );

    let steps = differ::mix::steps();
    let equal = place(&stock, &same);
    for wanted in [CLIENTS[0], CLIENTS[1]] {
        let place = Place {
            wanted,
            ..equal.clone()
        };
        let mut pair = Pair::new(place.clone());
        let report =
            run_steps(&mut pair, &place, &[], &steps, 0, 20, &0.into()).expect("two servers");
        assert_eq!(report.differences.len(), 0, "{:?}", report.differences);
        assert!(report.statements > 1000);
    }
    // A client whose OK packets have no news of the session: MariaDB tells those in any order.
    let random = differ::generate::episode(6, 300);
    let report = run_steps(
        &mut Pair::new(equal.clone()),
        &equal,
        &[],
        &random,
        6,
        20,
        &0.into(),
    )
    .expect("two servers");
    assert_eq!(report.steady(), 0, "{:?}", report.differences);
    let planted = place(&stock, &other);
    let report = run_steps(
        &mut Pair::new(planted.clone()),
        &planted,
        &[],
        &steps,
        0,
        60,
        &0.into(),
    )
    .expect("two servers");
    let found = report
        .differences
        .first()
        .expect("another sql_mode is seen");
    assert!(found.steady && !found.script.is_empty());
    assert!(found.steps.len() < 10, "{}", found.script);
    // A difference in an open transaction, whose locks its own connection holds; one replay, so that no step is dropped.
    let steps: Vec<Step> = [
        "CREATE TABLE t (a INT UNSIGNED)",
        "INSERT INTO t VALUES (1)",
        "BEGIN",
        "SELECT a FROM t",
        "SELECT a - 2 FROM t",
    ]
    .map(|sql| Step::query("test", sql))
    .to_vec();
    let mut pair = Pair::new(planted.clone());
    let report = run_steps(&mut pair, &planted, &[], &steps, 0, 1, &0.into()).expect("two servers");
    assert_eq!(report.steady(), 1, "{:?}", report.differences);

    let url = |login: &str| ServerUrl::parse(&same.url_as(login, "")).expect("a URL");
    let extent = storm::Extent {
        time: Duration::from_secs(2),
        connections: 4,
        switches: Vec::new(),
        seed: 1,
    };
    let found = storm::run(&url("root"), &url("weak"), &extent).expect("a server");
    assert_eq!(found.wrong, Vec::<String>::new());
    assert!(found.statements > 100 && !found.disturbances.is_empty() && !found.lost);
    let mut connection = wire::connect(&url("root")).expect("a server");
    let mut change = |sql: &str| connection.query(sql, wire::Fetch::ALL, &mut ());
    change("UPDATE storm.account SET balance = balance + 1 WHERE id = 3").expect("a row");
    assert_eq!(storm::check(&url("root")).expect("a server").wrong.len(), 1);

    // Rows that are not what they must be, in the midst of a storm: all who read them see it.
    let found = std::thread::scope(|scope| {
        let storm = scope.spawn(|| storm::run(&url("root"), &url("weak"), &extent));
        while !storm.is_finished() {
            let _ = change("UPDATE storm.kv SET s = 'another' WHERE k < 300");
            std::thread::sleep(Duration::from_millis(20));
        }
        storm.join().expect("no panic").expect("a server")
    });
    let ahead = |what: &String| what.contains("sent ahead");
    assert!(found.wrong.iter().any(ahead), "{:?}", found.wrong);
    assert!(!found.wrong.iter().all(ahead), "{:?}", found.wrong);
}
