//! The variables of a file: where their values come from, and how they are drawn.

use rand::RngExt;
use rand_distr::{Distribution as _, Zipf};
use toml::de::DeValue;
use wire::Value;

use super::keys::{Found, Keys, entries, integer};
use super::literal::{Scale, is_whole, literal, point};
use super::problem::Problems;
use crate::workload::Random;

/// As the other loads have it.
const EXPONENT: f64 = 0.8;
/// Letters in a text at most.
const LETTERS_MAX: i64 = 1 << 20;

/// A variable of a file.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    /// Where it stands, in bytes.
    pub(super) at: usize,
    pub(super) source: Source,
    pub(super) drawn: Drawn,
}

/// How long a drawn value stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawn {
    Transaction,
    Connection,
    Use,
}

/// Where values come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// Rows of statements alone.
    Rows,
    Constant(Value),
    Range(Range),
    /// Lowercase letters, so many.
    Text {
        shortest: u64,
        longest: u64,
    },
    /// Each with the sum of the weights up to it.
    OneOf(Vec<(Value, u64)>),
    /// Connection n of N counts from the first value + n in steps of N.
    Sequence {
        next: i64,
        step: i64,
    },
}

/// `count` values from `low` on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: i64,
    pub(super) count: u64,
    /// Each connection draws from a part of its own.
    pub(super) partition: bool,
    /// Of Zipf's distribution, whose hot values are the lowest.
    pub(super) zipf: Option<Zipf<f64>>,
    exponent: f64,
    scale: Scale,
}

/// Read `[variables]`.
pub(super) fn variables(value: Found<'_>, problems: &mut Problems) -> Vec<Variable> {
    let DeValue::Table(table) = value.get_ref() else {
        Keys::of(value, "variables", problems);
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, span, value) in entries(table) {
        let mut letters = name.bytes();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !letters.all(is_part) {
            problems.error(
                span.start,
                format!("{name:?} is not a name for a variable"),
                "a name has letters from a to z, digits and underscores, and begins with no digit",
            );
        }
        let (source, drawn) = match value.get_ref() {
            DeValue::Table(table) => {
                described(Keys::new(table, value.span().start), name, problems)
            }
            _ => (
                literal(value, name, problems).map(Source::Constant),
                Drawn::Transaction,
            ),
        };
        all.push(Variable {
            name: name.to_owned(),
            at: span.start,
            // After an error nothing runs.
            source: source.unwrap_or(Source::Constant(Value::Null)),
            drawn,
        });
    }
    all
}

/// `{ uniform = [1, 100], draw = "use" }` and the like.
fn described(mut keys: Keys<'_>, name: &str, problems: &mut Problems) -> (Option<Source>, Drawn) {
    let drawn = keys.word(
        "draw",
        &[
            ("transaction", Drawn::Transaction),
            ("connection", Drawn::Connection),
            ("use", Drawn::Use),
        ],
        problems,
    );
    let kinds = ["uniform", "zipf", "text", "one_of", "sequence"];
    let named: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| keys.get(kind).map(|value| (kind, value)))
        .collect();
    let [(kind, value)] = named[..] else {
        problems.error(
            keys.at,
            format!("{name} has {} sources of values", named.len()),
            format!("it has one of {}", kinds.join(", ")),
        );
        return (None, drawn);
    };
    let source = match kind {
        "uniform" => range(&mut keys, value, None, problems).map(Source::Range),
        "zipf" => {
            let exponent = keys.number("exponent", 0.0..=10.0, problems);
            let exponent = exponent.unwrap_or(EXPONENT);
            range(&mut keys, value, Some(exponent), problems).map(Source::Range)
        }
        "text" => text(value, problems),
        "one_of" => one_of(&mut keys, value, name, problems),
        _ => {
            let next = keys.integer("sequence", i64::MIN..=i64::MAX, problems);
            next.map(|next| Source::Sequence { next, step: 1 })
        }
    };
    keys.end(problems);
    (source, drawn)
}

/// `[FIRST, LAST]`, of equal types.
fn range(
    keys: &mut Keys<'_>,
    value: Found<'_>,
    exponent: Option<f64>,
    problems: &mut Problems,
) -> Option<Range> {
    let partition = keys.truth("partition", problems).unwrap_or(false);
    let ends = value.get_ref().as_array();
    let ends = ends.filter(|ends| ends.len() == 2);
    let points = ends.and_then(|ends| point(ends[0].get_ref(), ends[1].get_ref()));
    let Some((low, high, scale)) = points else {
        problems.error(
            value.span().start,
            "a range has a first and a last value of one type",
            "for example [1, 100000], [0.01, 99.99] or [2026-01-01, 2026-12-31]",
        );
        return None;
    };
    let count = u64::try_from(i128::from(high) - i128::from(low) + 1);
    let count = count.ok().filter(|count| *count > 0);
    if count.is_none() {
        problems.error(
            value.span().start,
            "the range ends before it begins, or is longer than 2^64",
            "the smaller value stands first",
        );
    }
    let count = count?;
    Some(Range {
        low,
        count,
        partition,
        zipf: exponent.map(|exponent| zipf(count, exponent)),
        exponent: exponent.unwrap_or_default(),
        scale,
    })
}

fn zipf(count: u64, exponent: f64) -> Zipf<f64> {
    Zipf::new(count as f64, exponent).expect("at least one value and no negative exponent")
}

/// A length or `[SHORTEST, LONGEST]`.
fn text(value: Found<'_>, problems: &mut Problems) -> Option<Source> {
    let lengths = match value.get_ref() {
        DeValue::Array(ends) if ends.len() == 2 => {
            integer(ends[0].get_ref()).zip(integer(ends[1].get_ref()))
        }
        length => integer(length).map(|length| (length, length)),
    };
    let right = lengths.filter(|(shortest, longest)| {
        0 <= *shortest && shortest <= longest && *longest <= LETTERS_MAX
    });
    if right.is_none() {
        problems.error(
            value.span().start,
            "the length of text is invalid",
            format!("it is the number of letters, up to {LETTERS_MAX}, or [SHORTEST, LONGEST]"),
        );
    }
    right.map(|(shortest, longest)| Source::Text {
        shortest: shortest as u64,
        longest: longest as u64,
    })
}

fn one_of(
    keys: &mut Keys<'_>,
    value: Found<'_>,
    name: &str,
    problems: &mut Problems,
) -> Option<Source> {
    let (_, listed) = keys.list("one_of", problems)?;
    let values: Vec<Value> = listed
        .iter()
        .filter_map(|one| literal(one, name, problems))
        .collect();
    let weights = match keys.list("weights", problems) {
        None => vec![1; listed.len()],
        Some((place, weights)) => {
            let all: Option<Vec<u64>> = weights
                .iter()
                .map(|one| integer(one.get_ref()).filter(|weight| (0..=1 << 32).contains(weight)))
                .map(|weight| weight.map(|weight| weight as u64))
                .collect();
            let all = all.filter(|all| all.len() == listed.len() && all.iter().any(|one| *one > 0));
            if all.is_none() {
                problems.error(
                    place.span().start,
                    "weights must be whole numbers, one for each value, and one of them above 0",
                    format!("there are {} values", listed.len()),
                );
            }
            all?
        }
    };
    if listed.is_empty() {
        problems.error(
            value.span().start,
            "one_of lists no value",
            "for example [\"Rome\", \"Oslo\"]",
        );
        return None;
    }
    // A value that is none was reported.
    if values.len() < listed.len() {
        return None;
    }
    let mut up_to = 0;
    let summed = values.into_iter().zip(weights).map(|(value, weight)| {
        up_to += weight;
        (value, up_to)
    });
    Some(Source::OneOf(summed.collect()))
}

impl Source {
    /// Whether what it draws can be a number of rounds.
    pub(super) fn can_count(&self) -> bool {
        match self {
            // NULL stands for a source with an error of its own.
            Self::Rows | Self::Sequence { .. } | Self::Constant(Value::Null) => true,
            Self::Constant(value) => is_whole(value),
            Self::Range(range) => range.scale == Scale::Integer,
            Self::Text { .. } => false,
            Self::OneOf(values) => values.iter().all(|(value, _)| is_whole(value)),
        }
    }

    /// Which it is for connection `number` of `connections`.
    pub(super) fn of_connection(&self, number: u32, connections: u32) -> Self {
        match self {
            Self::Range(range) if range.partition => {
                let from = |number: u32| {
                    (u128::from(range.count) * u128::from(number) / u128::from(connections)) as u64
                };
                let (first, count) = (from(number), from(number + 1) - from(number));
                Self::Range(Range {
                    low: range.low.wrapping_add_unsigned(first),
                    count,
                    zipf: range.zipf.map(|_| zipf(count, range.exponent)),
                    ..*range
                })
            }
            Self::Sequence { next, .. } => Self::Sequence {
                next: next.saturating_add(i64::from(number)),
                step: i64::from(connections),
            },
            other => other.clone(),
        }
    }

    /// The next value.
    pub(super) fn draw(&mut self, random: &mut Random) -> Value {
        match self {
            Self::Rows => Value::Null,
            Self::Constant(value) => value.clone(),
            Self::Range(range) => {
                let place = match range.zipf {
                    None => random.random_range(0..range.count),
                    Some(zipf) => (zipf.sample(random) as u64 - 1).min(range.count - 1),
                };
                range.scale.value(range.low.wrapping_add_unsigned(place))
            }
            Self::Text { shortest, longest } => {
                let letters = random.random_range(*shortest..=*longest);
                let letter = |_| char::from(random.random_range(b'a'..=b'z'));
                Value::Text((0..letters).map(letter).collect())
            }
            Self::OneOf(values) => {
                let total = values.last().map_or(0, |(_, up_to)| *up_to);
                let drawn = random.random_range(0..total);
                let place = values.partition_point(|(_, up_to)| *up_to <= drawn);
                values[place].0.clone()
            }
            Self::Sequence { next, step } => {
                let value = Value::Int(*next);
                *next = next.saturating_add(*step);
                value
            }
        }
    }
}
