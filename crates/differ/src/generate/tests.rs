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
