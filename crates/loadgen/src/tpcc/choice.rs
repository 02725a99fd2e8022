//! Which file is taken for each statement.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::catalog::{EMBEDDED, ENTRIES, SHARED_FLAVOUR};
use crate::failure::Usage;
use crate::output::file_name;

/// Which flavour's files are taken.
#[derive(Debug, Clone)]
pub struct Choice {
    /// For all statements.
    pub flavour: String,
    /// Statement and flavour, for single ones.
    pub statements: Vec<(String, String)>,
    /// A folder with flavours of the user's own, which go before those that come with the program.
    pub folder: Option<PathBuf>,
}

impl Choice {
    /// It by the names of its options.
    pub(super) fn options(&self) -> Map<String, Value> {
        let switched = self.statements.iter();
        let switched: Vec<String> = switched
            .map(|(name, flavour)| format!("{name}={flavour}"))
            .collect();
        let all = [
            ("flavour", json!(self.flavour)),
            ("statement", json!(switched)),
            ("statements_dir", file_name(self.folder.as_deref())),
        ];
        all.map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    fn file(&self, flavour: &str, name: &str) -> Result<Option<String>, Usage> {
        if let Some(folder) = &self.folder {
            let path = folder.join(flavour).join(format!("{name}.sql"));
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    return Err(Usage::new(message, "a statement file is UTF-8 text"));
                }
            }
        }
        let embedded = EMBEDDED
            .iter()
            .find(|file| file.flavour == flavour && file.name == name);
        Ok(embedded.map(|file| file.text.to_owned()))
    }

    /// The text of a statement's file and the flavour that it is from.
    ///
    /// # Errors
    /// A statement that the flavour lacks.
    pub(super) fn text(&self, name: &str) -> Result<(String, String), Usage> {
        let switched = self
            .statements
            .iter()
            .rev()
            .find(|(switched, _)| switched == name);
        let flavours = match switched {
            Some((_, flavour)) => vec![flavour.as_str()],
            None => vec![self.flavour.as_str(), SHARED_FLAVOUR],
        };
        for flavour in &flavours {
            if let Some(text) = self.file(flavour, name)? {
                return Ok((text, (*flavour).to_owned()));
            }
        }
        let having: Vec<&str> = EMBEDDED
            .iter()
            .filter(|file| file.name == name)
            .map(|file| file.flavour)
            .collect();
        Err(Usage::new(
            format!("flavour {} lacks the statement {name}", flavours[0]),
            format!(
                "{name}.sql comes with {}; --statements-dir names a folder of flavours of your own",
                having.join(", ")
            ),
        ))
    }

    /// Whether all that was named is there.
    ///
    /// # Errors
    /// A statement or flavour that is not.
    pub(super) fn check_names(&self) -> Result<(), Usage> {
        for (name, _) in &self.statements {
            is_statement(name, &format!("--statement {name}"))?;
        }
        self.check_folder()?;
        let own = self
            .folder
            .as_ref()
            .is_some_and(|folder| folder.join(&self.flavour).is_dir());
        if own || EMBEDDED.iter().any(|file| file.flavour == self.flavour) {
            return Ok(());
        }
        Err(Usage::new(
            format!("there is no flavour {}", self.flavour),
            "there are benchmarksql and tuned; --statements-dir names a folder of flavours of your own",
        ))
    }

    /// Whether the user's folder is there, and holds nothing that would be left out in silence.
    fn check_folder(&self) -> Result<(), Usage> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        if !folder.is_dir() {
            let message = format!(
                "--statements-dir {}: there is no such folder",
                folder.display()
            );
            let hint = "name a folder of flavours: FOLDER/FLAVOUR/NAME.sql";
            return Err(Usage::new(message, hint));
        }
        let switched = self.statements.iter().map(|(_, flavour)| flavour.as_str());
        for flavour in switched.chain([self.flavour.as_str(), SHARED_FLAVOUR]) {
            let files = std::fs::read_dir(folder.join(flavour));
            for file in files.into_iter().flatten().flatten() {
                if let Some(name) = file.file_name().to_string_lossy().strip_suffix(".sql") {
                    is_statement(name, &file.path().display().to_string())?;
                }
            }
        }
        Ok(())
    }
}

/// Whether there is a statement of this name, which was given as `given`.
fn is_statement(name: &str, given: &str) -> Result<(), Usage> {
    if ENTRIES.iter().any(|entry| entry.name == name) {
        return Ok(());
    }
    let names = ENTRIES.iter().map(|entry| entry.name);
    Err(Usage::new(
        format!("{given}: there is no such statement"),
        format!("there are {}", Vec::from_iter(names).join(", ")),
    ))
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "flavour {}", self.flavour)?;
        let mut switched = self.statements.iter();
        switched.try_for_each(|(name, flavour)| write!(formatter, ", {name}={flavour}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::statements::Statements;

    fn choice(flavour: &str, statements: &[(&str, &str)]) -> Choice {
        let owned = |&(name, flavour): &(&str, &str)| (name.to_owned(), flavour.to_owned());
        Choice {
            flavour: flavour.to_owned(),
            statements: statements.iter().map(owned).collect(),
            folder: None,
        }
    }

    fn sql(choice: &Choice, name: &str) -> String {
        let statements = Statements::read(choice).expect("all files");
        statements
            .specs()
            .iter()
            .find(|spec| spec.name == name)
            .expect("named")
            .sql
            .clone()
    }

    #[test]
    fn one_statement_can_be_of_another_flavour() {
        let plain = choice("benchmarksql", &[]);
        let switched = choice("benchmarksql", &[("delivery.oldest_new_order", "tuned")]);
        assert!(sql(&plain, "delivery.oldest_new_order").contains("ORDER BY"));
        assert!(sql(&switched, "delivery.oldest_new_order").contains("MIN("));
        assert_eq!(
            sql(&plain, "stock_level.low_stock"),
            sql(&switched, "stock_level.low_stock")
        );
    }

    #[test]
    fn what_is_not_there_is_told() {
        for (choice, message) in [
            (choice("fast", &[]), "no flavour fast"),
            (
                choice("tuned", &[("payment.warehouse_update", "tuned")]),
                "tuned lacks the statement payment.warehouse_update",
            ),
            (
                choice("tuned", &[("payment.x", "tuned")]),
                "no such statement",
            ),
        ] {
            let error = Statements::read(&choice).expect_err(message);
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn own_files_go_first() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        std::fs::create_dir(folder.join("mine")).expect("a folder");
        std::fs::write(
            folder.join("mine/new_order.item_select.sql"),
            "SELECT i_price FROM item WHERE i_id = :i_id",
        )
        .expect("a file");
        let mut own = choice("mine", &[]);
        own.folder = Some(folder.to_owned());
        let error = Statements::read(&own).expect_err("mine has one of five");
        assert!(
            error
                .to_string()
                .contains("mine lacks the statement new_order.stock_select"),
            "{error}"
        );
        own.flavour = "tuned".to_owned();
        own.statements = vec![("new_order.item_select".to_owned(), "mine".to_owned())];
        assert_eq!(
            sql(&own, "new_order.item_select"),
            "SELECT i_price FROM item WHERE i_id = ?"
        );
        std::fs::write(folder.join("mine/new_order.items.sql"), "SELECT 1").expect("a file");
        let error = Statements::read(&own).expect_err("nobody would send it");
        let message = error.to_string();
        assert!(
            message.contains("mine/new_order.items.sql: there is no such"),
            "{message}"
        );
        temporary.close().expect("gone");
        own.statements.clear();
        let error = Statements::read(&own).expect_err("nothing is there");
        assert!(error.to_string().contains("no such folder"), "{error}");
    }
}
