//! What disturbs a storm.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use wire::ServerUrl;

use super::shared::Shared;
use super::{Chance, Extent, run_sql};

/// Nobody kills the connections that disturb.
const NOT_KILLED: i64 = 0;

pub(super) fn disturb(shared: &Shared<'_>, extent: &Extent, seed: u64) {
    let mut chance = Chance(seed);
    let mut is_told = false;
    while !shared.over.load(Ordering::Relaxed) {
        let mut connection = match wire::connect(shared.url) {
            Ok(connection) => connection,
            Err(error) => {
                // Without those that disturb, nothing is proven by those that check.
                if !std::mem::replace(&mut is_told, true) {
                    shared.wrong(format!("a login of one that disturbs: {error}"));
                }
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        let _ = run_sql(&mut *connection, "SET lock_wait_timeout=2");
        while !shared.over.load(Ordering::Relaxed) {
            let mut is_lost = false;
            for sql in disturbance(shared, extent, &mut chance) {
                let words = sql.split_whitespace().take(2);
                let name: Vec<&str> = words.filter(|word| word.parse::<i64>().is_err()).collect();
                shared.note(|found| *found.disturbances.entry(name.join(" ")).or_default() += 1);
                if let Err(error) = run_sql(&mut *connection, &sql) {
                    is_lost |= shared.error(&error, &sql, NOT_KILLED);
                }
            }
            if is_lost {
                break;
            }
            std::thread::sleep(Duration::from_millis(2 + chance.below(15) as u64));
        }
        let _ = run_sql(&mut *connection, "UNLOCK TABLES");
    }
    if let Ok(mut connection) = wire::connect(shared.url) {
        let _ = run_sql(&mut *connection, "RENAME TABLE storm.kv_moved TO storm.kv");
        let _ = run_sql(&mut *connection, "GRANT ALL ON storm.* TO weak@localhost");
    }
}

fn disturbance(shared: &Shared<'_>, extent: &Extent, chance: &mut Chance) -> Vec<String> {
    let one = |sql: &str| vec![sql.to_owned()];
    let victim = |chance: &mut Chance| {
        let live =
            shared.with_numbers(|numbers| numbers.live.values().copied().collect::<Vec<i64>>());
        live.get(chance.below(live.len() as i64) as usize)
            .copied()
            .unwrap_or(0)
    };
    match chance.below(28) {
        0 => one("ALTER TABLE storm.kv ADD COLUMN more INT DEFAULT 3"),
        1 => one("ALTER TABLE storm.kv DROP COLUMN more"),
        2 => one("ALTER TABLE storm.kv ADD INDEX extra (a)"),
        3 => one("ALTER TABLE storm.kv DROP INDEX extra"),
        4 => one("ALTER TABLE storm.kv MODIFY a DECIMAL(20,0) NOT NULL"),
        5 => one("ALTER TABLE storm.kv MODIFY a BIGINT NOT NULL"),
        6 => one("ALTER TABLE storm.kv MODIFY k BIGINT NOT NULL"),
        7 => one("ALTER TABLE storm.kv MODIFY k INT NOT NULL"),
        8 => vec![
            "RENAME TABLE storm.kv TO storm.kv_moved".to_owned(),
            "RENAME TABLE storm.kv_moved TO storm.kv".to_owned(),
        ],
        9 => one("FLUSH TABLES"),
        10 => vec![
            "FLUSH TABLES WITH READ LOCK".to_owned(),
            "UNLOCK TABLES".to_owned(),
        ],
        11 => one("FLUSH TABLES storm.kv, storm.account"),
        12 => one("ANALYZE TABLE storm.kv, storm.account, storm.parts"),
        13 => one("FLUSH PRIVILEGES"),
        14 => vec![
            "REVOKE SELECT ON storm.* FROM weak@localhost".to_owned(),
            "GRANT SELECT ON storm.* TO weak@localhost".to_owned(),
        ],
        15..=17 => vec![format!("KILL QUERY {}", victim(chance))],
        18 => {
            let victim = victim(chance);
            shared.with_numbers(|numbers| numbers.killed.insert(victim));
            vec![format!("KILL {victim}")]
        }
        19 => one("ALTER TABLE storm.kv DROP INDEX u, ADD UNIQUE INDEX u (u)"),
        20 => one("ALTER TABLE storm.parts MODIFY x BIGINT NOT NULL"),
        21 => one("ALTER TABLE storm.parts MODIFY x INT NOT NULL"),
        22 | 23 => one("CHECK TABLE storm.kv, storm.account, storm.parts"),
        _ if extent.switches.is_empty() => one("FLUSH STATUS"),
        _ => {
            let name = &extent.switches[chance.below(extent.switches.len() as i64) as usize];
            let value = ["ON", "OFF"][chance.below(2) as usize];
            vec![format!("SET GLOBAL {name} = {value}")]
        }
    }
}

/// Refuse a switch that the server does not have.
///
/// # Errors
/// A name that is none, or that cannot be set.
pub fn find_switches(url: &ServerUrl, names: &[String]) -> Result<()> {
    let mut connection = wire::connect(url)?;
    for name in names {
        ensure!(
            name.chars()
                .all(|each| each.is_ascii_alphanumeric() || each == '_'),
            "{name} is no variable's name"
        );
        let rows = run_sql(
            &mut *connection,
            &format!("SHOW GLOBAL VARIABLES LIKE '{name}'"),
        )?;
        if rows.0.is_empty() {
            bail!("the server has no variable {name}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Storm;
    use super::*;

    #[test]
    fn one_that_cannot_disturb_is_told_once() {
        let url = ServerUrl::parse("mysql://root@/?socket=/nonexistent/s").expect("a URL");
        let shared = Shared::new(&url, Storm::default());
        let extent = Extent {
            time: Duration::from_secs(1),
            connections: 1,
            switches: Vec::new(),
            seed: 1,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| disturb(&shared, &extent, 1));
            std::thread::sleep(Duration::from_millis(200));
            shared.over.store(true, Ordering::Relaxed);
        });
        let found = shared.found.into_inner().expect("nobody else has it");
        assert_eq!(found.wrong.len(), 1, "{:?}", found.wrong);
    }
}
