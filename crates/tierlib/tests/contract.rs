//! The contract's table of tests: every clause has a row, and every test that a row names is there and looks at counters.

use std::path::Path;

/// What looks at the tier's counters: `run` and `run_on` ask for hits, and the last two for what their faults leave.
const LOOKS: [&str; 6] = [
    "run(\"",
    "run_on(",
    "counter(",
    "Counter::",
    "ends_the_caching(",
    "whichever_call_on_the_tiers_file_fails(",
];

/// The text of a test.
fn body<'a>(tests: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tests
        .split_once(&format!("#[test]\nfn {name}()"))
        .or_else(|| {
            // With a reason why it needs to be asked for.
            let (before, rest) = tests.split_once(&format!("]\nfn {name}()"))?;
            let (_, attribute) = before.rsplit_once("#[test]\n")?;
            (attribute.starts_with("#[ignore = \"needs") && !attribute.contains("\nfn "))
                .then_some(("", rest))
        })?;
    rest.split("\n}\n").next()
}

#[test]
fn every_clause_has_a_test_that_is_there() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| std::fs::read_to_string(path).expect("a text of this repository");
    let contract = read(&here.join("../../docs/explanation/tier-contract.md"));
    let (clauses, table) = contract
        .split_once("## Which test holds which clause")
        .expect("the table");
    let mut tests = String::new();
    for folder in ["tests", "tests/oracle"] {
        for entry in std::fs::read_dir(here.join(folder)).expect("the tests") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|ending| ending == "rs") {
                tests += &read(&path);
            }
        }
    }
    let mut held = String::new();
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let (names, holders) = row[2..].split_once('|').expect("two columns");
        held += &format!(" {} ,", names.replace(',', " ,").trim());
        for test in holders.split('`').skip(1).step_by(2) {
            let text = body(&tests, test).unwrap_or_else(|| panic!("no test {test}"));
            let looks = LOOKS.iter().any(|look| text.contains(look));
            assert!(looks, "{test} passes without a tier");
        }
    }
    let defined = clauses.split("**C").skip(1);
    let numbers = defined.map(|rest| rest.split("**").next().expect("a number"));
    let mut count = 0;
    for number in numbers {
        assert!(
            held.contains(&format!(" C{number} ")),
            "no test holds C{number}"
        );
        count += 1;
    }
    assert!(count > 20, "{count} clauses");
}
