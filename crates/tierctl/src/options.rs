//! The server's own options, from its command line and its option files, as far as the tier must know them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Groups of an option file that a server reads.
const GROUPS: [&str; 4] = ["mysqld", "server", "mariadb", "mariadbd"];
/// Files that name each other endlessly end here.
const DEPTH_MAX: u32 = 8;

/// Values by name, written with underscores.
#[derive(Default, Debug)]
pub struct Options(HashMap<String, String>);

impl Options {
    /// Of a server started with these arguments: option files first, then what stands on the command line.
    pub fn of(arguments: &[OsString]) -> Self {
        let words: Vec<String> = arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let mut options = Self::default();
        let named = |name: &str| {
            let value = words.iter().find_map(|word| word.strip_prefix(name));
            value.map(PathBuf::from)
        };
        if let Some(file) = named("--defaults-file=") {
            options.read(&file, 0);
        } else if !words.iter().any(|word| word == "--no-defaults") {
            for file in ["/etc/my.cnf", "/etc/mysql/my.cnf"] {
                options.read(Path::new(file), 0);
            }
            if let Some(file) = named("--defaults-extra-file=") {
                options.read(&file, 0);
            }
        }
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let (name, value) = match word.strip_prefix("--") {
                Some(word) => word
                    .split_once('=')
                    .map_or((word, None), |(name, value)| (name, Some(value))),
                None => match of_letter(word) {
                    Some(found) => found,
                    None => continue,
                },
            };
            let value = value.or_else(|| words.next_if(|next| !next.starts_with('-')));
            options.set(name, value.unwrap_or("1"));
        }
        options
    }

    fn set(&mut self, name: &str, value: &str) {
        let name = name.trim().trim_start_matches("loose-").replace('-', "_");
        let name = name.trim_start_matches("loose_");
        let value = value
            .trim()
            .trim_matches(|quote| quote == '"' || quote == '\'');
        // A server becomes the first user that it is told (mysqld.cc).
        if name != "user" || !self.0.contains_key(name) {
            self.0.insert(name.into(), value.into());
        }
    }

    /// What cannot be read is the server's to complain about.
    fn read(&mut self, file: &Path, depth: u32) {
        let Ok(text) = std::fs::read_to_string(file) else {
            return;
        };
        let mut ours = false;
        for line in text.lines().map(|line| without_comment(line).trim()) {
            if let Some(group) = line
                .strip_prefix('[')
                .and_then(|rest| rest.split(']').next())
            {
                ours = GROUPS
                    .iter()
                    .any(|known| group == *known || group.starts_with(&format!("{known}-")));
            } else if let Some(folder) = line.strip_prefix("!includedir ") {
                self.read_folder(Path::new(folder.trim()), depth + 1);
            } else if let Some(other) = line.strip_prefix("!include ") {
                if depth < DEPTH_MAX {
                    self.read(Path::new(other.trim()), depth + 1);
                }
            } else if ours && !line.starts_with(['#', ';']) && !line.is_empty() {
                let (name, value) = line.split_once('=').unwrap_or((line, "1"));
                self.set(name, value);
            }
        }
    }

    fn read_folder(&mut self, folder: &Path, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|end| end == "cnf"))
        {
            self.read(file, depth);
        }
    }

    /// The value of an option, named with underscores.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a switch is given and on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !is_off(value))
    }

    /// Whether a switch is given and off.
    pub fn is_off(&self, name: &str) -> bool {
        self.get(name).is_some_and(is_off) || self.is_on(&format!("skip_{name}"))
    }
}

/// An option of one letter, `-u mysql` or `-umysql`: its name, and the value that stands behind the letter.
fn of_letter(word: &str) -> Option<(&'static str, Option<&str>)> {
    let names = [("-h", "datadir"), ("-u", "user")];
    names.into_iter().find_map(|(letter, name)| {
        let value = word.strip_prefix(letter)?;
        Some((name, (!value.is_empty()).then_some(value)))
    })
}

/// A line of an option file up to a `#` that is not within quotes, as MySQL cuts it (my_default.cc).
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, letter) in line.char_indices() {
        match (letter, quote) {
            ('#', None) => return &line[..at],
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open && !escaped => quote = None,
            _ => {}
        }
        escaped = quote.is_some() && letter == '\\' && !escaped;
    }
    line
}

fn is_off(value: &str) -> bool {
    value == "0" || ["off", "false", "no"].contains(&value.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Options {
        Options::of(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read_in_all_its_forms() {
        let options = of(&[
            "--no-defaults",
            "--datadir",
            "/d",
            "--innodb-buffer-pool-size=8M",
            "--skip-innodb-use-native-aio",
        ]);
        assert_eq!(options.get("datadir"), Some("/d"));
        assert_eq!(options.get("innodb_buffer_pool_size"), Some("8M"));
        assert!(options.is_off("innodb_use_native_aio"));
        for words in [&["-h", "/e", "-u", "mysql"][..], &["-h/e", "-umysql"]] {
            let options = of(words);
            assert_eq!(options.get("datadir"), Some("/e"), "{words:?}");
            assert_eq!(options.get("user"), Some("mysql"), "{words:?}");
        }
    }

    #[test]
    fn a_comment_ends_a_line_unless_it_is_quoted() {
        for (line, wanted) in [
            ("datadir=/d # where it is", "datadir=/d "),
            ("datadir=/d#1", "datadir=/d"),
            ("datadir='/d#1' # x", "datadir='/d#1' "),
            (
                r#"init_connect="a \" # b" # c"#,
                r#"init_connect="a \" # b" "#,
            ),
            ("# all of it", ""),
        ] {
            assert_eq!(without_comment(line), wanted);
        }
    }

    #[test]
    fn option_files_are_read_in_order_and_the_command_line_wins() {
        let folder = tempfile::tempdir().expect("folder");
        let folder = folder.path();
        std::fs::create_dir(folder.join("conf.d")).expect("folder");
        let main = folder.join("my.cnf");
        let text = format!(
            "[client]\ndatadir=/wrong\n[mysqld]\n# datadir=/no\nuser=first\nuser=second\ndatadir = \"/a\"\ninnodb-flush-method=fsync # slow\n!includedir {}\n",
            folder.join("conf.d").display()
        );
        std::fs::write(&main, text).expect("file");
        std::fs::write(folder.join("conf.d/x.cnf"), "[mysqld-9.7]\ndatadir=/b\n").expect("file");
        let file = format!("--defaults-file={}", main.display());
        let read = (
            of(&[&file]),
            of(&[&file, "--datadir=/c", "--user=third", "-ufourth"]),
        );
        assert_eq!(read.0.get("datadir"), Some("/b"));
        assert_eq!(read.0.get("innodb_flush_method"), Some("fsync"));
        assert_eq!(read.1.get("datadir"), Some("/c"));
        for options in [read.0, read.1] {
            assert_eq!(options.get("user"), Some("first"));
        }
        let options = of(&["--no-defaults", "--user=a", "--user=b"]);
        assert_eq!(options.get("user"), Some("a"));
    }
}
