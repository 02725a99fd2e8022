//! The statements of a test of MySQL's: what its script would send, in the order of the file, each once.
//!
//! `source` is followed. Mysqltest's other commands are left out, and conditions, loops and its variables with them: what matters is
//! which statements two servers are asked, not whether the test would pass.

use std::io;
use std::path::{Path, PathBuf};

/// Mysqltest's commands, from `command_names` in MySQL's client/mysqltest.cc.
const COMMANDS: &str = "connection query connect sleep inc dec source disconnect let echo expr while end save_master_pos \
    sync_with_master sync_slave_with_master error send reap dirty_close replace_result replace_column ping eval enable_query_log \
    disable_query_log enable_result_log disable_result_log enable_connect_log disable_connect_log wait_for_slave_to_stop \
    enable_warnings disable_warnings enable_info disable_info enable_session_track_info disable_session_track_info enable_metadata \
    disable_metadata enable_async_client disable_async_client exec execw exec_in_background delimiter disable_abort_on_error \
    enable_abort_on_error vertical_results horizontal_results query_vertical query_horizontal sorted_result partially_sorted_result \
    lowercase_result skip_if_hypergraph start_timer end_timer character_set disable_ps_protocol enable_ps_protocol if \
    disable_testcase enable_testcase replace_regex replace_numeric_round remove_file file_exists write_file copy_file perl die \
    assert exit skip chmod append_file cat_file diff_files send_quit change_user mkdir rmdir force-rmdir force-cpdir list_files \
    list_files_write_file list_files_append_file send_shutdown shutdown_server result_format move_file remove_files_wildcard \
    copy_files_wildcard send_eval output reset_connection query_attributes select_db";
/// `source` in a file that was sourced, and so on.
const DEEPEST: usize = 8;

/// The statements of a test. `root` is the folder mysql-test, which `source` starts from.
///
/// # Errors
/// A file that cannot be read.
pub fn statements(root: &Path, file: &Path) -> io::Result<Vec<String>> {
    let mut reader = Reader {
        root,
        found: Vec::new(),
        delimiter: ";".to_owned(),
        until: None,
    };
    reader.file(file, 0)?;
    Ok(reader.found)
}

struct Reader<'a> {
    root: &'a Path,
    found: Vec<String>,
    delimiter: String,
    /// The line that ends a file or a program within the script.
    until: Option<String>,
}

impl Reader<'_> {
    fn file(&mut self, file: &Path, depth: usize) -> io::Result<()> {
        let bytes = std::fs::read(file)?;
        let (mut pending, mut quote) = (String::new(), None);
        let mut is_condition = false;
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Some(end) = &self.until {
                if line.trim() == end {
                    self.until = None;
                }
                continue;
            }
            let mut rest = line;
            if pending.trim().is_empty() {
                pending.clear();
                if !is_condition {
                    rest = within_blocks(line);
                    is_condition = ["if", "while"].contains(&first_word(rest).as_str());
                }
                if is_condition {
                    // Up to its block, which may begin lines later. Blocks run once, as any other line.
                    let Some(at) = find(rest, "{", &mut quote) else {
                        continue;
                    };
                    is_condition = false;
                    rest = within_blocks(&rest[at..]);
                }
                if let Some(command) = rest.strip_prefix("--") {
                    self.command(command, depth)?;
                    continue;
                }
                if rest.starts_with('#') {
                    continue;
                }
            }
            while let Some(end) = find(rest, &self.delimiter, &mut quote) {
                pending.push_str(&rest[..end]);
                rest = &rest[end + self.delimiter.len()..];
                self.whole(std::mem::take(&mut pending).trim(), depth)?;
                if rest.trim_start().starts_with('#') || rest.trim().trim_matches('}').is_empty() {
                    rest = "";
                }
            }
            pending.push_str(rest);
            pending.push('\n');
        }
        self.whole(pending.trim(), depth)
    }

    fn whole(&mut self, text: &str, depth: usize) -> io::Result<()> {
        let word = first_word(text);
        if COMMANDS.split_whitespace().any(|command| command == word) {
            return self.command(text, depth);
        }
        self.push(text);
        Ok(())
    }

    fn push(&mut self, sql: &str) {
        if !sql.is_empty() {
            self.found.push(sql.to_owned());
        }
    }

    fn command(&mut self, text: &str, depth: usize) -> io::Result<()> {
        let text = text.trim();
        let word = first_word(text);
        let rest = text.get(word.len()..).unwrap_or_default().trim();
        match word.as_str() {
            "source" if depth < DEEPEST => {
                let place = self.root.join(rest.trim_end_matches(';').trim());
                if place.is_file() {
                    self.file(&place, depth + 1)?;
                }
            }
            "delimiter" if !rest.is_empty() => rest.clone_into(&mut self.delimiter),
            "eval" | "send" | "send_eval" | "query" | "query_vertical" | "query_horizontal"
                if !has_variable(rest) =>
            {
                let sql = rest.strip_suffix(&self.delimiter).unwrap_or(rest);
                self.push(sql.trim());
            }
            "perl" => self.until = Some(argument(rest, 0)),
            "write_file" | "append_file" => self.until = Some(argument(rest, 1)),
            _ => {}
        }
        Ok(())
    }
}

/// Where in the line `what` is, outside of quotations; `quote` is the one that is open at its beginning, and afterwards at its end.
fn find(line: &str, what: &str, quote: &mut Option<char>) -> Option<usize> {
    let mut letters = line.char_indices();
    while let Some((at, letter)) = letters.next() {
        match *quote {
            Some(_) if letter == '\\' => drop(letters.next()),
            Some(open) if letter == open => *quote = None,
            Some(_) => {}
            None if line[at..].starts_with(what) => return Some(at),
            None if matches!(letter, '\'' | '"' | '`') => *quote = Some(letter),
            None => {}
        }
    }
    None
}

/// A line without the braces of blocks at its beginning.
fn within_blocks(line: &str) -> &str {
    let line = line.trim_start();
    line.trim_start_matches(['{', '}']).trim_start()
}

/// The word that may be a command, in lower case.
fn first_word(text: &str) -> String {
    let end =
        text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-');
    text[..end.unwrap_or(text.len())].to_ascii_lowercase()
}

/// What ends the lines of a command: its argument of this number.
fn argument(rest: &str, number: usize) -> String {
    let given = rest.trim_end_matches(';').split_whitespace().nth(number);
    given.unwrap_or("EOF").to_owned()
}

/// Whether mysqltest would replace something. `$.key` is a path in JSON.
fn has_variable(sql: &str) -> bool {
    let mut letters = sql.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek();
        if letter == '$'
            && next.is_some_and(|&next| next.is_ascii_alphabetic() || matches!(next, '_' | '{'))
        {
            return true;
        }
    }
    false
}

/// The tests of a suite, in the order of their names. None: there is no such suite.
///
/// # Errors
/// A folder that cannot be read.
pub fn tests(root: &Path, suite: &str) -> io::Result<Option<Vec<PathBuf>>> {
    let own = root.join("suite").join(suite).join("t");
    let folder = if suite == "main" { root.join("t") } else { own };
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "test") {
            found.push(path);
        }
    }
    found.sort();
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().expect("room");
        let root = root.path();
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            std::fs::write(path, text).expect("room");
        }
        statements(root, &root.join(files[0].0)).expect("files")
    }

    #[test]
    fn statements_are_what_no_command_is() {
        let text = "# A comment\n--disable_warnings\ndrop table if exists t1; # and another\nlet $x= 3;\nerror 1064;\nselect 1;select\n  2;\n\
                    --error ER_X\nselect ';', \"it's;\", `a;b`;\nif ($x)\n{\n  select 3;\n}\nconnect (con1,localhost,root,,);\n\
                    echo select 4;\nREPLACE INTO t1 VALUES (1);\nselect 'a\\';';\nselect 5";
        assert_eq!(
            read(&[("t/one.test", text)]),
            [
                "drop table if exists t1",
                "select 1",
                "select\n  2",
                "select ';', \"it's;\", `a;b`",
                "select 3",
                "REPLACE INTO t1 VALUES (1)",
                "select 'a\\';'",
                "select 5",
            ]
        );
    }

    #[test]
    fn conditions_of_several_lines_are_no_statements_and_take_none_along() {
        let text = "let $a= `SELECT 1\n  FROM t`;\nif (!`SELECT (@a - 1 <= 2) AND\n  (b >= '{')`)\n{\n  select 1;\n}\nselect 2;\n\
                    while ($x) { select 3; }\nselect 4;\nif ($y)\n# no more\n{\n--skip it is not\n}\nselect 5;";
        assert_eq!(
            read(&[("t/one.test", text)]),
            ["select 1", "select 2", "select 3", "select 4", "select 5"]
        );
    }

    #[test]
    fn delimiters_and_variables() {
        let text = "delimiter |;\ncreate procedure p() begin select 1; end|\ndelimiter ;|\ncall p();\n--delimiter //\nselect 2//\n\
                    --delimiter ;\neval select $x;\neval select '$.a';\n--eval select 3\nsend select 4;\nreap;\nselect '$x';";
        assert_eq!(
            read(&[("t/one.test", text)]),
            [
                "create procedure p() begin select 1; end",
                "call p()",
                "select 2",
                "select '$.a'",
                "select 3",
                "select 4",
                "select '$x'",
            ]
        );
    }

    #[test]
    fn sources_are_followed_and_files_within_the_script_are_not_sent() {
        let text = "--source include/a.inc\nsource include/a.inc;\n--source include/missing.inc\n--source $other\nperl;\nprint 1;\nEOF\n\
                    --write_file $x END\nselect 9;\nEND\n--append_file $x\nselect 8;\nEOF\nselect 2;";
        let found = read(&[
            ("t/one.test", text),
            ("include/a.inc", "select 1;\n--source include/a.inc\n"),
        ]);
        assert_eq!(
            found.iter().filter(|sql| *sql == "select 1").count(),
            2 * DEEPEST
        );
        assert_eq!(found.last().map(String::as_str), Some("select 2"));
        assert_eq!(found.len(), 2 * DEEPEST + 1);
    }

    #[test]
    fn tests_of_a_suite_by_their_names() {
        let root = tempfile::tempdir().expect("room");
        let root = root.path();
        for name in [
            "t/b.test",
            "t/a.test",
            "t/a-master.opt",
            "suite/json/t/c.test",
        ] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            std::fs::write(path, "").expect("room");
        }
        let of = |suite: &str| tests(root, suite).expect("folders");
        assert_eq!(
            of("main"),
            Some(vec![root.join("t/a.test"), root.join("t/b.test")])
        );
        assert_eq!(of("json"), Some(vec![root.join("suite/json/t/c.test")]));
        assert_eq!(of("none"), None);
    }
}
