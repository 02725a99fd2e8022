//! What became of a log.

use std::path::Path;

use serde_json::Value;

use crate::common::{Folder, program, records, text};

pub struct Imported {
    pub code: Option<i32>,
    pub said: Value,
    pub stderr: String,
    pub records: Vec<Value>,
}

pub fn import(log: &Path, format: &str, more: &[&str]) -> Imported {
    let folder = Folder::new();
    let trace = folder.file("app.trace");
    let mut command = program();
    command.args(["import", text(log), text(&trace), "--format", format]);
    let done = command.arg("--json").args(more).output().expect("runs");
    Imported {
        code: done.status.code(),
        said: serde_json::from_slice(&done.stdout).unwrap_or_default(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        records: match done.status.success() {
            true => records(&trace),
            false => Vec::new(),
        },
    }
}

pub fn whole(log: &Path, format: &str, more: &[&str]) -> Imported {
    let imported = import(log, format, more);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    imported
}

impl Imported {
    pub fn exchanges(&self) -> impl Iterator<Item = &Value> {
        self.records
            .iter()
            .filter(|record| record["record"] == "exchange")
    }

    /// Transaction, kind and text of each.
    pub fn requests(&self) -> Vec<String> {
        let words = |each: &Value| {
            let number = each["transaction"].as_u64();
            let transaction = number.map_or("-".to_owned(), |number| number.to_string());
            let sql = each["sql"].as_str().unwrap_or_default().replace('\n', "|");
            let kind = each["kind"].as_str().expect("a kind");
            format!("{transaction} {kind} {sql}").trim_end().to_owned()
        };
        self.exchanges().map(words).collect()
    }

    pub fn lacks(&self) -> String {
        let lacks = self.said["lacks"].as_array().expect("a list").iter();
        let lacks: Vec<_> = lacks.filter_map(Value::as_str).collect();
        lacks.join(" ")
    }

    pub fn one(&self, sql: &str) -> &Value {
        let mut found = self.exchanges().filter(|each| {
            each["sql"]
                .as_str()
                .is_some_and(|found| found.contains(sql))
        });
        let one = found.next().expect("it is there");
        assert!(found.next().is_none(), "{sql} is there once");
        one
    }
}
