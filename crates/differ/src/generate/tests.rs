use super::*;

#[test]
fn a_seed_makes_the_same_steps_each_time() {
    let first = episode(7, 400);
    assert_eq!(first, episode(7, 400));
    assert_ne!(first, episode(8, 400));
    assert!(first.len() >= 400);
}

#[test]
fn every_group_comes_and_the_second_connection_takes_no_locks() {
    let mut groups = std::collections::BTreeSet::new();
    for seed in 0..12 {
        for step in episode(seed, 1500) {
            if step.on == 1 {
                let text = crate::step::shown(&step.what);
                assert!(
                    !text.contains("FOR UPDATE") && !text.contains("INSERT"),
                    "{text}"
                );
            }
            groups.insert(step.group.into_owned());
        }
    }
    for group in [
        "point select",
        "range",
        "aggregate",
        "nested",
        "write",
        "execute",
        "cursor",
        "transaction",
        "definition",
        "second",
        "handler",
        "lock",
        "user variables",
        "routine",
        "protocol",
        "ahead",
        "explain",
        "session",
        "prepare",
        "schema",
    ] {
        assert!(groups.contains(group), "{group}");
    }
}

#[test]
fn parameters_of_every_class_have_values() {
    let mut dice = Dice::new(1);
    for _ in 0..2000 {
        for class in [
            Class::Int(8, true),
            Class::Text,
            Class::Real,
            Class::Json,
            Class::Time,
            Class::DateTime,
            Class::Decimal,
        ] {
            let value = values::value(&mut dice, class);
            let mut bytes = Vec::new();
            values::param(&mut dice, &value).write(&mut bytes);
            assert!(!values::literal(&mut dice, &value).is_empty());
        }
    }
}

#[test]
fn keys_of_text_are_looked_up_by_parameters() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let mut keys = std::collections::BTreeMap::new();
        for step in episode(seed, 300) {
            match step.what {
                What::Query(sql) => {
                    let words: Vec<&str> = sql.split(' ').collect();
                    if sql.starts_with("CREATE TABLE t") && sql.contains("PRIMARY KEY (k0)") {
                        keys.insert(words[2].to_owned(), words[4].to_owned());
                    }
                }
                What::Prepare(_, sql) => {
                    for (table, kind) in &keys {
                        if sql.ends_with(&format!(" FROM {table} WHERE k0 = ?")) {
                            found.insert(kind.clone());
                        }
                    }
                }
                _ => {}
            }
        }
    }
    for kind in ["VARCHAR(20)", "VARCHAR(5)", "CHAR(8)", "VARBINARY(20)"] {
        assert!(found.contains(kind), "{kind} of {found:?}");
    }
}

#[test]
fn ranges_on_the_key_of_a_table_that_is_worth_a_range_scan_come() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..100 {
        for step in episode(seed, 800) {
            let (way, sql) = match step.what {
                What::Query(sql) => ("text", sql),
                What::Prepare(_, sql) => ("prepared", sql),
                _ => continue,
            };
            if sql.contains("FROM long0 WHERE k0 BETWEEN ") && !sql.contains("LIMIT") {
                found.insert(way);
            }
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["prepared", "text"]);
}
