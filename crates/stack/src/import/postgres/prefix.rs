//! log_line_prefix, and lines that begin with it.

use crate::failure::Failure;
use crate::import::when::{Shown, epoch, time};

/// A part of the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `%m`, `%t`.
    Time,
    /// `%n`.
    Epoch,
    /// `%p`, or `%c`, which is better: it comes once.
    Pid,
    Session,
    Application,
    Sqlstate,
    /// What is not needed, up to the next literal.
    Other,
    /// `%q`: processes without a session have no more of it.
    Stop,
}

/// What the server was told to write before each message.
#[derive(Debug, Clone)]
pub(in crate::import) struct Prefix(Vec<Part>);

/// What a line's prefix says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) at_ns: u64,
    pub(super) clock: Option<String>,
    pub(super) session: String,
    pub(super) client: Option<String>,
    pub(super) sqlstate: String,
}

/// Names with more blanks, in all, are not read: each more makes the search longer.
const PLACES_MAX: usize = 8;

impl Said {
    /// With what a part's text says; none where it is no such text.
    fn with(&self, part: &Part, value: &str) -> Option<Self> {
        let mut said = self.clone();
        match part {
            Part::Time => {
                let Shown { at_ns, clock } = time(value.trim())?;
                (said.at_ns, said.clock) = (at_ns, clock);
            }
            Part::Epoch => said.at_ns = epoch(value)?,
            Part::Session => value.clone_into(&mut said.session),
            Part::Pid => {
                let pid = value.trim();
                if pid.is_empty() || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                if said.session.is_empty() {
                    pid.clone_into(&mut said.session);
                }
            }
            Part::Application => {
                let named = !value.is_empty() && value != "[unknown]";
                said.client = named.then(|| value.to_owned());
            }
            Part::Sqlstate => value.clone_into(&mut said.sqlstate),
            Part::Stop | Part::Other | Part::Literal(_) => {}
        }
        Some(said)
    }
}

impl Prefix {
    /// # Errors
    /// A prefix that names no time, no session, or an unknown escape.
    pub(in crate::import) fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut signs = text.chars().peekable();
        while let Some(sign) = signs.next() {
            if sign != '%' {
                literal.push(sign);
                continue;
            }
            // A width, which pads with blanks.
            while signs
                .next_if(|sign| *sign == '-' || sign.is_ascii_digit())
                .is_some()
            {}
            let part = match signs.next() {
                Some('m' | 't') => Part::Time,
                Some('n') => Part::Epoch,
                Some('p') => Part::Pid,
                Some('c') => Part::Session,
                Some('a') => Part::Application,
                Some('e') => Part::Sqlstate,
                Some('q') => Part::Stop,
                Some(
                    'u' | 'd' | 'r' | 'h' | 'L' | 'b' | 'P' | 'i' | 's' | 'v' | 'x' | 'l' | 'Q',
                ) => Part::Other,
                Some('%') => {
                    literal.push('%');
                    continue;
                }
                other => {
                    let other = other.map_or_else(String::new, String::from);
                    return Err(bad(text, &format!("PostgreSQL has no %{other}")));
                }
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(part);
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        let has = |wanted: &[Part]| parts.iter().any(|part| wanted.contains(part));
        if !has(&[Part::Time, Part::Epoch]) {
            return Err(bad(text, "it has no time (%m, %t or %n)"));
        }
        if !has(&[Part::Pid, Part::Session]) {
            return Err(bad(text, "it has no session (%p or %c)"));
        }
        Ok(Self(parts))
    }

    /// What the prefix of a line says, and the rest; none where the line does not begin so. The rest is for `is_message` to judge: of a
    /// process without a session it begins at `%q`.
    pub(super) fn of<'a>(
        &self,
        line: &'a str,
        is_message: impl Fn(&str) -> bool,
    ) -> Option<(Said, &'a str)> {
        let reading = |end: usize| Reading {
            parts: &self.0[..end],
            is_message: &is_message,
        };
        let all = self.0.len();
        let stop = self.0.iter().position(|part| *part == Part::Stop);
        reading(all)
            .from(0, line, Said::default(), 1)
            .or_else(|| reading(stop?).from(0, line, Said::default(), 1))
            .or_else(|| reading(all).from(0, line, Said::default(), PLACES_MAX))
    }
}

/// How a line is read.
struct Reading<'a> {
    parts: &'a [Part],
    is_message: &'a dyn Fn(&str) -> bool,
}

impl Reading<'_> {
    /// What the parts from a place on say, and the rest, where that is a message. `places`: how often literals behind names may stand in the
    /// names themselves, or in the blanks that fill them up, in all, and once.
    fn from<'a>(
        &self,
        place: usize,
        rest: &'a str,
        said: Said,
        places: usize,
    ) -> Option<(Said, &'a str)> {
        let part = match self.parts.get(place) {
            Some(Part::Literal(literal)) => {
                return self.from(
                    place + 1,
                    rest.strip_prefix(literal.as_str())?,
                    said,
                    places,
                );
            }
            Some(part) => part,
            None => return (self.is_message)(rest).then_some((said, rest)),
        };
        if let (Part::Application | Part::Pid | Part::Other, Some(Part::Literal(literal))) =
            (part, self.parts.get(place + 1))
        {
            let ends = rest.match_indices(literal.as_str()).take(places);
            return ends.enumerate().find_map(|(before, (end, _))| {
                let said = said.with(part, &rest[..end])?;
                self.from(place + 1, &rest[end..], said, places - before)
            });
        }
        let (value, after) = self.value(place, rest)?;
        self.from(place + 1, after, said.with(part, value)?, places)
    }

    /// A part's own text, up to the literal that follows, or to where a part of its kind ends.
    fn value<'a>(&self, place: usize, rest: &'a str) -> Option<(&'a str, &'a str)> {
        let ends = |end: usize| Some((&rest[..end], &rest[end..]));
        match &self.parts[place] {
            Part::Stop => ends(0),
            // A time has blanks and signs of its own: date, clock, zone.
            Part::Time => {
                let zone = rest.match_indices(' ').nth(1)?.0 + 1;
                let (own, _) = self.upto_next(place, &rest[zone..])?;
                ends(zone + own.len())
            }
            Part::Pid | Part::Epoch => {
                let is_own = |sign: char| sign.is_ascii_digit() || sign == '.';
                ends(rest.find(|sign| !is_own(sign)).unwrap_or(rest.len()))
            }
            _ => self.upto_next(place, rest),
        }
    }

    /// Up to the literal behind a part, or to the next blank.
    fn upto_next<'a>(&self, place: usize, rest: &'a str) -> Option<(&'a str, &'a str)> {
        let end = match self.parts.get(place + 1) {
            Some(Part::Literal(literal)) => rest.find(literal.as_str())?,
            _ => rest
                .find(|sign: char| sign.is_ascii_whitespace())
                .unwrap_or(rest.len()),
        };
        Some((&rest[..end], &rest[end..]))
    }
}

fn bad(text: &str, why: &str) -> Failure {
    Failure::usage(
        format!("--prefix {text:?} cannot be used: {why}"),
        "use the server's own: SHOW log_line_prefix prints it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(prefix: &str, line: &str) -> Option<(String, Option<String>, String, String)> {
        let prefix = Prefix::parse(prefix).expect("a prefix");
        let (said, rest) = prefix.of(line, |rest| rest.starts_with("LOG:  "))?;
        Some((said.session, said.client, said.sqlstate, rest.to_owned()))
    }

    #[test]
    fn lines_of_a_real_server_are_read() {
        for (prefix, line, session, client, sqlstate) in [
            (
                "%m [%p] ",
                "2026-11-23 08:51:10.254 CET [30469] LOG:  x",
                "30469",
                None,
                "",
            ),
            (
                "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
                "2026-11-23 07:51:13 UTC [30615]: user=postgres,db=postgres,app=psql,client=[local] LOG:  x",
                "30615",
                Some("psql"),
                "",
            ),
            (
                "%n %p %l %x %v %e %q%u@%d: ",
                "1795420276.970 30735 1 0 3/0 00000 postgres@postgres: LOG:  x",
                "30735",
                None,
                "00000",
            ),
            (
                "%n %p %l %x %v %e %q%u@%d: ",
                "1795420276.879 30725 3 0  00000 LOG:  x",
                "30725",
                None,
                "00000",
            ),
            (
                "%m:%c:%p: ",
                "2026-11-23 08:51:10.254 UTC:6b03f06e.7705:30469: LOG:  x",
                "6b03f06e.7705",
                None,
                "",
            ),
            (
                "%m [%p] app=%a ",
                "2026-11-23 08:51:10.254 UTC [30469] app=PostgreSQL JDBC Driver LOG:  x",
                "30469",
                Some("PostgreSQL JDBC Driver"),
                "",
            ),
            (
                "%m [%p] %q%u %a,%i ",
                "2026-11-23 08:51:10.254 UTC [30469] a psql,idle in transaction LOG:  x",
                "30469",
                Some("psql"),
                "",
            ),
            (
                "%m [%p] %q%u %a %i ",
                "2026-11-23 08:51:10.254 UTC [30469] LOG:  x",
                "30469",
                None,
                "",
            ),
            (
                "%m %5p %% ",
                "2026-11-23 08:51:10.254 +02 30469 % LOG:  x",
                "30469",
                None,
                "",
            ),
            (
                "%m [%7p] %5p ",
                "2026-11-23 08:51:10.254 UTC [    469]   469 LOG:  x",
                "469",
                None,
                "",
            ),
            (
                "%m %-7p app=%a ",
                "2026-11-23 08:51:10.254 UTC 469     app=psql LOG:  x",
                "469",
                Some("psql"),
                "",
            ),
        ] {
            let client = client.map(str::to_owned);
            let expected = (
                session.to_owned(),
                client,
                sqlstate.to_owned(),
                "LOG:  x".to_owned(),
            );
            assert_eq!(said(prefix, line), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_lines_and_prefixes_are_none() {
        for line in [
            "",
            "\tfrom item",
            "LOG:  statement: x",
            "2026-11-23 08:51:10 [x] LOG:  y",
            "ü 2 3",
        ] {
            assert_eq!(said("%m [%p] ", line), None, "{line}");
        }
        for (prefix, why) in [
            ("%p ", "no time"),
            ("%m ", "no session"),
            ("%m %p %y", "has no %y"),
            ("%m %p %", "has no %"),
        ] {
            let failure = Prefix::parse(prefix).expect_err("refused");
            assert!(failure.message.contains(why), "{}", failure.message);
        }
    }
}
