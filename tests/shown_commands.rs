//! Whether the commands that the documents show could be typed: each is given to the program with `--help` at its end, which clap
//! obeys only once it has taken all that stands before it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Panics for the first line of a document that shows `upshift VERB ...` and that `program` would refuse. Of two words the second one is
/// the program's own.
pub fn could_be_typed(verb: &str, program: &str) {
    assert!(
        !takes(program, &["--no-such-option".to_owned()]),
        "it refuses what it does not know"
    );
    let shown = shown(verb);
    assert!(!shown.is_empty(), "the documents show commands");
    for (page, line) in shown {
        let own = verb.split(' ').skip(1).map(str::to_owned);
        let words: Vec<String> = own.chain(words(&line)).collect();
        assert!(
            takes(program, &words),
            "{}: upshift {verb} {line}",
            page.display()
        );
    }
}

fn takes(program: &str, arguments: &[String]) -> bool {
    let end = arguments.iter().position(|word| word == "--");
    let own = &arguments[..end.unwrap_or(arguments.len())];
    let done = Command::new(program)
        .args(own)
        .arg("--help")
        .output()
        .expect("the program starts");
    done.status.success()
}

/// Every line of a code block that starts with `./upshift VERB`, by page, without the verb.
fn shown(verb: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    let start = format!("./upshift {verb} ");
    let lines_of = |page: PathBuf| {
        let text = std::fs::read_to_string(&page).expect("a page");
        let found: Vec<_> = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(&start))
            .map(|rest| (page.clone(), rest.to_owned()))
            .collect();
        found
    };
    pages.into_iter().flat_map(lines_of).collect()
}

/// A line's words up to a comment, a redirection or the second choice of several, with values for SCRIPT and variables.
fn words(line: &str) -> Vec<String> {
    line.split(['#', '|', '>'])
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|word| word.trim_matches(['\'', '"']))
        .map(|word| match word {
            "SCRIPT" => "read_write",
            variable if variable.starts_with('$') => "text",
            word => word,
        })
        .map(str::to_owned)
        .collect()
}
