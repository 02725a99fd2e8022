//! Errors that a storm brings on by itself, of MySQL and MariaDB.

/// What the connections that check say their statements are.
pub(super) const A_STATEMENT: &str = "a statement";

/// What a kill of the statement, a changed definition, a lock or a missing right may bring to any statement.
const ANYWHERE: [u16; 28] = [
    1050, 1020, 1046, 1051, 1054, 1060, 1061, 1072, 1091, 1099, 1100, 1142, 1143, 1146, 1176, 1192,
    1205, 1213, 1290, 1317, 1412, 1505, 1615, 1637, 1836, 3572, 1044, 1223,
];

/// What some statements alone may bring, by how they begin.
const BY_BEGINNING: [(u16, &[&str]); 3] = [
    // The connection to be killed is gone: another KILL came first.
    (1094, &["KILL "]),
    // No such grant: the other disturbing connection revoked it just before.
    (1141, &["REVOKE "]),
    // A wait for the lock of the privileges ended with a kill or a deadlock: MySQL has this in place of 1317 and 1213.
    (
        3547,
        &["GRANT ", "REVOKE ", "FLUSH PRIVILEGES", A_STATEMENT],
    ),
];

/// What a server says to a connection that it ends: to MySQL a kill is a shutdown of one connection.
const BY_KILL: [u16; 3] = [1053, 1927, 3169];

/// Whether a storm brings this error to this statement.
pub(super) fn may_come(code: u16, statement: &str) -> bool {
    let begins = |(number, beginnings): &(u16, &[&str])| {
        *number == code && beginnings.iter().any(|each| statement.starts_with(each))
    };
    ANYWHERE.contains(&code) || BY_BEGINNING.iter().any(begins)
}

/// Whether a killed connection alone is told this.
pub(super) fn kill_brings(code: u16) -> bool {
    BY_KILL.contains(&code)
}
