//! A table of the file: its keys are asked for by name, and those that nobody asked for are errors.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problems, suggestion};

/// A value with its place.
pub(super) type Found<'t> = &'t Spanned<DeValue<'t>>;

/// A table that is being read.
pub(super) struct Keys<'t> {
    table: &'t DeTable<'t>,
    /// Where it begins, in bytes.
    pub(super) at: usize,
    known: Vec<&'static str>,
}

/// The entries of a table in the order of the file.
pub(super) fn entries<'t>(table: &'t DeTable<'t>) -> Vec<(&'t str, Range<usize>, Found<'t>)> {
    let all = table.iter();
    let mut all: Vec<_> = all
        .map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
        .collect();
    all.sort_by_key(|(_, span, _)| span.start);
    all
}

impl<'t> Keys<'t> {
    /// Begin with a value that must be a table.
    pub(super) fn of(value: Found<'t>, what: &str, problems: &mut Problems) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Self::new(table, value.span().start)),
            other => {
                wrong_type(value, what, "a table", other, problems);
                None
            }
        }
    }

    pub(super) fn new(table: &'t DeTable<'t>, at: usize) -> Self {
        Self {
            table,
            at,
            known: Vec::new(),
        }
    }

    /// The value of a key, if it is there.
    pub(super) fn get(&mut self, name: &'static str) -> Option<Found<'t>> {
        self.known.push(name);
        let mut all = self.table.iter();
        all.find_map(|(key, value)| (key.get_ref() == name).then_some(value))
    }

    /// Text.
    pub(super) fn text(&mut self, name: &'static str, problems: &mut Problems) -> Option<&'t str> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            other => {
                wrong_type(value, name, "text in quotes", other, problems);
                None
            }
        }
    }

    /// One of a few words; the first where there is none.
    pub(super) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
        problems: &mut Problems,
    ) -> T {
        let Some(value) = self.get(name) else {
            return words[0].1;
        };
        let said = value.get_ref().as_str().unwrap_or_default();
        let found = words.iter().find(|(word, _)| *word == said);
        if found.is_none() {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            problems.error(
                value.span().start,
                format!("the value of {name} is unknown"),
                format!("it is {}", known.join(" or ")),
            );
        }
        found.unwrap_or(&words[0]).1
    }

    /// true or false.
    pub(super) fn truth(&mut self, name: &'static str, problems: &mut Problems) -> Option<bool> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::Boolean(truth) => Some(*truth),
            other => {
                wrong_type(value, name, "true or false", other, problems);
                None
            }
        }
    }

    /// An integer within limits.
    pub(super) fn integer(
        &mut self,
        name: &'static str,
        limits: std::ops::RangeInclusive<i64>,
        problems: &mut Problems,
    ) -> Option<i64> {
        let value = self.get(name)?;
        let number = integer(value.get_ref()).filter(|number| limits.contains(number));
        if number.is_none() {
            problems.error(
                value.span().start,
                format!("the value of {name} is invalid"),
                format!(
                    "it is a whole number from {} to {}",
                    limits.start(),
                    limits.end()
                ),
            );
        }
        number
    }

    /// A number within limits, whole or not.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        limits: std::ops::RangeInclusive<f64>,
        problems: &mut Problems,
    ) -> Option<f64> {
        let value = self.get(name)?;
        let number = number(value.get_ref()).filter(|number| limits.contains(number));
        if number.is_none() {
            problems.error(
                value.span().start,
                format!("the value of {name} is invalid"),
                format!("it is a number from {} to {}", limits.start(), limits.end()),
            );
        }
        number
    }

    /// A list; `None` where it is not there or is none.
    pub(super) fn list(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<(Found<'t>, Vec<Found<'t>>)> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::Array(list) => Some((value, list.iter().collect())),
            other => {
                wrong_type(value, name, "a list in brackets", other, problems);
                None
            }
        }
    }

    /// Whoever has asked for all that it knows: the keys that are left are errors.
    pub(super) fn end(self, problems: &mut Problems) {
        for (name, span, _) in entries(self.table) {
            if !self.known.contains(&name) {
                problems.error(
                    span.start,
                    format!("there is no key {name} here"),
                    suggestion(name, self.known.iter().copied()),
                );
            }
        }
    }
}

/// An integer, however it is written.
pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A finite number, whole or not.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Float(number) => number.as_str().parse().ok()?,
        whole => integer(whole)? as f64,
    };
    number.is_finite().then_some(number)
}

pub(super) fn wrong_type(
    value: Found<'_>,
    what: &str,
    wanted: &str,
    found: &DeValue<'_>,
    problems: &mut Problems,
) {
    problems.error(
        value.span().start,
        format!("{what} cannot be of type {}", found.type_str()),
        format!("it is {wanted}"),
    );
}
