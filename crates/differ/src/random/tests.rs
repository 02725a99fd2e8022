use std::sync::atomic::AtomicU64;

use super::*;
use crate::fake::{Fakes, Says};
use crate::silence::Came;

/// A report of these statements; `dictionary` says which of them read the data dictionary.
fn report(fakes: &Fakes, asked: &[(&str, bool)]) -> Report {
    let steps: Vec<Step> = asked
        .iter()
        .map(|&(sql, dictionary)| Step {
            dictionary,
            ..Step::query("test", sql)
        })
        .collect();
    let place = &fakes.place;
    run_steps(&mut fakes.pair(), place, &[], &steps, 0, 20, &0.into()).expect("two servers")
}

#[test]
fn a_script_does_not_end_at_what_the_dictionary_may_answer_otherwise() {
    let asked = AtomicU64::new(0);
    // Stock does not agree with itself either.
    let stock = move |sql: &str| match sql.contains("SHOW") {
        true if asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => Says::Row("b", "1"),
        true => Says::Row("c", "1"),
        false if sql.contains("two") => Says::Row("c", "2"),
        false => Says::Fine,
    };
    // Nothing differs at the second statement without the first one.
    let shown = AtomicU64::new(0);
    let patched = move |sql: &str| {
        if sql.contains("DROP DATABASE") {
            shown.store(0, Ordering::Relaxed);
        }
        if sql.contains("SHOW") {
            shown.store(1, Ordering::Relaxed);
            return Says::Row("a", "1");
        }
        match sql.contains("two") {
            true if shown.load(Ordering::Relaxed) > 0 => Says::Row("c", "3"),
            true => Says::Row("c", "2"),
            false => Says::Fine,
        }
    };
    let found = report(
        &Fakes::new(stock, patched),
        &[("SHOW one", true), ("two", false)],
    );
    let [difference] = &found.differences[..] else {
        panic!("{:?}", found.differences);
    };
    assert_eq!(difference.script.lines().last(), Some("two;"));
    assert!(difference.steady && difference.script.contains("SHOW one;"));
    assert_eq!(found.statements, 2);
}

#[test]
fn warnings_that_stock_does_not_repeat_are_no_steady_difference() {
    let steady_when = |says_another: fn(u64) -> bool| {
        let asked = AtomicU64::new(0);
        let stock = move |sql: &str| match sql.contains("SHOW WARNINGS") {
            false if sql.contains("this") => Says::Error(1),
            false => Says::Fine,
            true => match says_another(asked.fetch_add(1, Ordering::Relaxed)) {
                true => Says::Row("w", "1"),
                false => Says::Row("w", "0"),
            },
        };
        let patched = |sql: &str| match sql.contains("SHOW WARNINGS") {
            true => Says::Row("w", "3"),
            false if sql.contains("this") => Says::Error(1),
            false => Says::Fine,
        };
        let found = report(&Fakes::new(stock, patched), &[("this", false)]);
        assert_eq!(found.differences.len(), 1);
        found.steady() == 1
    };
    assert!(steady_when(|_| false));
    assert!(!steady_when(|asked| asked % 2 == 1));
    assert!(!steady_when(|asked| asked % 10 == 9));
}

#[test]
fn a_connection_that_is_lost_in_a_replay_is_told() {
    let asked = AtomicU64::new(0);
    let patched = move |sql: &str| match sql.contains("this") {
        true => match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Says::Error(1),
            1 => Says::HangUp,
            _ => Says::Fine,
        },
        false => Says::Fine,
    };
    let found = report(&Fakes::new(|_| Says::Fine, patched), &[("this", false)]);
    assert!(
        found.counted() > 0 && found.steady() == 0,
        "{:?}",
        found.differences
    );
}

#[test]
fn a_server_that_is_gone_does_not_take_its_difference_along() {
    let gone = AtomicU64::new(0);
    let patched = move |sql: &str| {
        if sql.contains("this") {
            gone.store(1, Ordering::Relaxed);
        }
        match gone.load(Ordering::Relaxed) {
            0 => Says::Fine,
            _ => Says::HangUp,
        }
    };
    let fakes = Fakes::new(|_| Says::Fine, patched);
    let found = report(&fakes, &[("one", false), ("this", false)]);
    assert_eq!((found.counted(), found.differences.len()), (1, 1));
    assert_eq!(found.differences[0].steps.len(), 2);
}

#[test]
fn a_server_that_a_replay_crashes_does_not_take_its_difference_along() {
    let asked = AtomicU64::new(0);
    let patched = move |sql: &str| {
        let number = match sql.contains("this") {
            true => asked.fetch_add(1, Ordering::Relaxed),
            false => asked.load(Ordering::Relaxed).saturating_sub(1),
        };
        match (number, sql.contains("this")) {
            (0, true) => Says::Error(1),
            (0, false) => Says::Fine,
            _ => Says::HangUp,
        }
    };
    let fakes = Fakes::new(|_| Says::Fine, patched);
    let found = report(&fakes, &[("one", false), ("this", false)]);
    let [difference, lost] = &found.differences[..] else {
        panic!("{:?}", found.differences);
    };
    assert!(difference.what.starts_with("packet 1") && !difference.steady);
    assert!(lost.what.contains(LOST) && found.counted() == 1);
}

#[test]
fn a_database_in_which_a_statement_hangs_is_left_by_stocks_own_runs_too() {
    let stock = |sql: &str| match sql.ends_with("EXISTS fake") {
        true => Says::Nothing,
        false => Says::Fine,
    };
    let patched = |sql: &str| match sql.contains("this") {
        true => Says::Error(1),
        false => Says::Fine,
    };
    let fakes = Fakes::new(stock, patched);
    let (mut pair, place) = (fakes.pair(), &fakes.place);
    pair.leave_database();
    let steps = [Step::query("test", "this")];
    let found = run_steps(&mut pair, place, &[], &steps, 0, 20, &0.into()).expect("two servers");
    assert_eq!(found.steady(), 1, "{:?}", found.differences);
}

/// After a second an answer is late, after three nobody waits any more.
const LATE: Says = Says::Late(Duration::from_millis(1800));

/// What comes of a request that the two answer so, with one after it.
fn silent(stock: fn() -> Says, patched: fn() -> Says) -> Report {
    let answers = |says: fn() -> Says| {
        move |sql: &str| match sql.contains("this") {
            true => says(),
            false => Says::Fine,
        }
    };
    let fakes = Fakes::new(answers(stock), answers(patched));
    let mut found = report(&fakes, &[("this", false), ("after", false)]);
    found.judge();
    assert_eq!(found.differences.len(), 1, "{:?}", found.differences);
    let difference = &found.differences[0];
    assert!(difference.statement.starts_with("this"), "{difference:?}");
    let silence = difference.silence.as_ref().expect("one was silent");
    for of in ["stock", "patched"] {
        let mut evidence = silence.evidence.iter();
        let asked = evidence.any(|said| said.of == of && said.question.contains("PROCESSLIST"));
        assert!(asked, "{of} of {:?}", silence.evidence);
    }
    found
}

/// The verdict, whether each server answered, and the statements that ran.
fn judged(found: &Report) -> (Verdict, Came, Came, u64) {
    let difference = &found.differences[0];
    let silence = difference.silence.as_ref().expect("one was silent");
    let (stock, patched) = (silence.stock.came, silence.patched.came);
    assert_eq!(found.counted() > 0, difference.verdict == Verdict::Wrong);
    (difference.verdict, stock, patched, found.statements)
}

#[test]
fn an_answer_that_is_late_from_both_is_slow_and_the_rest_is_compared() {
    let found = silent(|| LATE, || LATE);
    let (verdict, stock, _, statements) = judged(&found);
    assert_eq!((verdict, stock, statements), (Verdict::Slow, Came::Late, 2));
    let found = silent(|| LATE, || Says::Fine);
    let due = (Verdict::Slow, Came::Late, Came::InTime, 2);
    assert_eq!(judged(&found), due);
}

#[test]
fn an_answer_that_is_late_from_the_patched_server_alone_is_wrong() {
    let found = silent(|| Says::Fine, || LATE);
    let due = (Verdict::Wrong, Came::InTime, Came::Late, 2);
    assert_eq!(judged(&found), due);
}

#[test]
fn an_answer_that_never_comes_is_wrong_unless_stock_brings_none_either() {
    let found = silent(|| Says::Fine, || Says::Nothing);
    let due = (Verdict::Wrong, Came::InTime, Came::Never, 1);
    assert_eq!(judged(&found), due);
    assert!(found.differences[0].what.contains(LOST));
    let found = silent(|| LATE, || Says::Nothing);
    let due = (Verdict::Wrong, Came::Late, Came::Never, 1);
    assert_eq!(judged(&found), due);
    let found = silent(|| Says::Nothing, || Says::Nothing);
    let due = (Verdict::Hang, Came::Never, Came::Never, 0);
    assert_eq!(judged(&found), due);
}
