//! Errors that a storm brings on by itself, of MySQL and MariaDB.

/// What the connections that check say their statements are.
pub(super) const A_STATEMENT: &str = "a statement";

/// What a kill, a changed definition, a lock or a missing right may bring to any statement.
const ANYWHERE: [u16; 31] = [
    1050, 1020, 1046, 1051, 1054, 1060, 1061, 1072, 1091, 1099, 1100, 1142, 1143, 1146, 1176, 1192,
    1205, 1213, 1243, 1290, 1317, 1412, 1505, 1615, 1637, 1836, 1927, 3169, 3572, 1044, 1223,
];

/// What some statements alone may bring, by how they begin.
const BY_BEGINNING: [(u16, &[&str]); 2] = [
    // No such grant: the other disturbing connection revoked it just before.
    (1141, &["REVOKE "]),
    // A wait for the lock of the privileges ended with a kill or a deadlock: MySQL has this in place of 1317 and 1213.
    (
        3547,
        &["GRANT ", "REVOKE ", "FLUSH PRIVILEGES", A_STATEMENT],
    ),
];

/// Whether a storm brings this error to this statement.
pub(super) fn may_come(code: u16, statement: &str) -> bool {
    let begins = |(number, beginnings): &(u16, &[&str])| {
        *number == code && beginnings.iter().any(|each| statement.starts_with(each))
    };
    ANYWHERE.contains(&code) || BY_BEGINNING.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use wire::{Error, ServerUrl};

    use super::super::{Shared, Storm};
    use super::A_STATEMENT;

    fn judged(code: u16, during: &str) -> Storm {
        let url = ServerUrl::parse("mysql://root@localhost").expect("a URL");
        let shared = Shared {
            url: &url,
            over: AtomicBool::new(false),
            statements: AtomicU64::new(0),
            found: Mutex::default(),
            ids: Mutex::default(),
        };
        let error = Error::Server {
            code,
            sqlstate: "HY000".to_owned(),
            message: String::new(),
        };
        assert!(!shared.error(&error, during), "{code} ends no connection");
        shared.found.into_inner().expect("nobody else has it")
    }

    #[test]
    fn an_error_that_the_disturbances_cause_is_counted_and_not_wrong() {
        const REVOKE: &str = "REVOKE SELECT ON storm.* FROM weak@localhost";
        const GRANT: &str = "GRANT SELECT ON storm.* TO weak@localhost";
        for (code, during) in [
            (1141, REVOKE),
            (3547, REVOKE),
            (3547, GRANT),
            (3547, "FLUSH PRIVILEGES"),
            (3547, A_STATEMENT),
            (1317, A_STATEMENT),
        ] {
            let found = judged(code, during);
            assert_eq!(found.wrong, Vec::<String>::new(), "{code} of {during}");
            assert_eq!(found.errors, BTreeMap::from([(code, 1)]));
        }
    }

    #[test]
    fn the_same_error_of_another_statement_is_wrong() {
        for (code, during) in [
            (1141, "GRANT SELECT ON storm.* TO weak@localhost"),
            (1141, A_STATEMENT),
            (3547, "FLUSH TABLES"),
            (3547, "ALTER TABLE storm.kv DROP INDEX extra"),
            (1064, A_STATEMENT),
        ] {
            assert_eq!(judged(code, during).wrong.len(), 1, "{code} of {during}");
        }
    }
}
