//! The contract's table of tests: every clause has a row, and every test that a row names is there.

use std::path::Path;

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
            assert!(tests.contains(&format!("fn {test}()")), "no test {test}");
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
