//! Which files the tier takes, by name.

use std::str::FromStr;

use super::ConfigError;

/// What a rule does with the files it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Their pages are cached.
    Cache,
    /// The file is left alone.
    Skip,
    /// Cached, and kept while all pinned pages, whichever rule pinned them, hold no more than this share of the tier, in
    /// percent.
    Pin(u8),
}

impl Action {
    /// The share of the tier that may be pinned, in percent; None for files that are left alone.
    pub(crate) fn share(self) -> Option<u8> {
        match self {
            Self::Skip => None,
            Self::Cache => Some(0),
            Self::Pin(share) => Some(share),
        }
    }
}

/// One rule: a pattern and what to do.
///
/// `*` stands for any bytes without a slash and `?` for one. A pattern with k slashes is matched
/// against the last k + 1 parts of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The pattern.
    pub pattern: String,
    /// What to do.
    pub action: Action,
}

/// Rules in order: the first that fits decides; a file that none fits is left alone.
///
/// Written `action=pattern,...` with the actions `cache`, `skip` and `pin:PERCENT`, for example
/// `pin:30=shop/orders.ibd,skip=archive/*`. Parsed rules come before the default ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// Redo, doublewrite, temporary and log files are never read back in normal running; then InnoDB's data.
const DEFAULT: &str = "skip=#innodb_temp/*,skip=#innodb_redo/*,skip=#ib_redo*,skip=ib_logfile*,skip=*.dblwr,\
    skip=ibtmp*,skip=*.ibt,skip=binlog.*,skip=*-bin.*,skip=*-relay-bin.*,\
    cache=*.ibd,cache=ibdata*,cache=undo_*,cache=undo???,cache=*.ibu";

impl Default for Rules {
    fn default() -> Self {
        Self(parse(DEFAULT).unwrap_or_default())
    }
}

impl Rules {
    /// What to do with the file of this path.
    pub fn action(&self, path: &[u8]) -> Action {
        let found = self
            .0
            .iter()
            .find(|rule| fits(rule.pattern.as_bytes(), path));
        found.map_or(Action::Skip, |rule| rule.action)
    }
}

impl FromStr for Rules {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut rules = parse(text)?;
        rules.extend(Self::default().0);
        Ok(Self(rules))
    }
}

fn parse(text: &str) -> Result<Vec<Rule>, ConfigError> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(parse_rule)
        .collect()
}

fn parse_rule(text: &str) -> Result<Rule, ConfigError> {
    let wrong = || {
        ConfigError::new(
            "rule",
            text,
            "use cache=PATTERN, skip=PATTERN or pin:PERCENT=PATTERN (1 to 90)",
        )
    };
    let (action, pattern) = text.split_once('=').ok_or_else(wrong)?;
    let action = match action.split_once(':') {
        None if action == "cache" => Action::Cache,
        None if action == "skip" => Action::Skip,
        Some(("pin", share)) => match share.trim_end_matches('%').parse() {
            Ok(share @ 1..=90) => Action::Pin(share),
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    if pattern.is_empty() {
        return Err(wrong());
    }
    Ok(Rule {
        pattern: pattern.into(),
        action,
    })
}

fn fits(pattern: &[u8], path: &[u8]) -> bool {
    let slashes = pattern.iter().filter(|byte| **byte == b'/').count();
    let start = path
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'/')
        .nth(slashes)
        .map_or(0, |(at, _)| at + 1);
    matches(pattern, path.get(start..).unwrap_or_default())
}

/// Wildcard match with one point to go back to: the last star.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(wanted) if *wanted == text[t] || (*wanted == b'?' && text[t] != b'/') => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) if text[from] != b'/' => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                _ => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{Action, Rules, matches};

    #[test]
    fn default_rules_take_data_and_leave_logs() {
        let rules = Rules::default();
        for path in [
            "/d/shop/t.ibd",
            "ibdata1",
            "/d/undo_001",
            "/d/x.ibu",
            "/d/undo001",
        ] {
            assert_eq!(rules.action(path.as_bytes()), Action::Cache, "{path}");
        }
        let skipped = [
            "/d/#innodb_redo/#ib_redo7",
            "/d/ib_logfile0",
            "/d/#ib_16384_0.dblwr",
            "/d/ibtmp1",
            "/d/binlog.000001",
            "/d/#innodb_temp/temp_1.ibt",
            "/d/mysql-bin.000001",
            "/d/relay-bin.000002",
            "/d/auto.cnf",
            "",
        ];
        for path in skipped {
            assert_eq!(rules.action(path.as_bytes()), Action::Skip, "{path}");
        }
    }

    #[test]
    fn own_rules_come_first() {
        let rules: Rules = "pin:30=shop/o*.ibd, skip=archive/*".parse().expect("rules");
        assert_eq!(rules.action(b"/d/shop/orders.ibd"), Action::Pin(30));
        assert_eq!(rules.action(b"/d/archive/t.ibd"), Action::Skip);
        assert_eq!(rules.action(b"/d/shop/items.ibd"), Action::Cache);
        for text in ["pin=x", "pin:0=x", "pin:91=x", "keep=x", "cache", "cache="] {
            assert!(text.parse::<Rules>().is_err(), "{text}");
        }
    }

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("*.ibd", "a.ibd", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?", "", false),
            ("*", "", true),
            ("*", "a/b", false),
            ("a?c", "a/c", false),
            ("**", "xy", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
