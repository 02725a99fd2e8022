//! The command line of `upshift-differ`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use wire::ServerUrl;

use crate::allow::Allowed;
use crate::generate::SESSION;
use crate::lockstep::{Pair, Place};
use crate::minimise::TRIALS_MAX;
use crate::random::{CLIENTS, Extent, run, run_steps};
use crate::report::Report;
use crate::step::Step;
use crate::{mix, storm, suite};

/// Compare what two servers answer, byte by byte. `upshift patch prove` runs this.
#[derive(Parser)]
#[command(name = "upshift-differ", version, arg_required_else_help = true)]
struct Cli {
    /// Write the report to this file in place of stdout.
    #[arg(long)]
    output: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fixed statements of every kind, once for each kind of client.
    Mix(Two),
    /// Random statements.
    Random {
        #[command(flatten)]
        two: Two,
        /// Requests to each server.
        #[arg(long, default_value_t = 1_000_000)]
        statements: u64,
        /// Of the first episode; each next one has the next number.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Statements on one database before it is made anew.
        #[arg(long, default_value_t = 1500)]
        episode: usize,
        /// Begin no more statements after so many seconds.
        #[arg(long, value_name = "S", default_value = "86400", value_parser = seconds)]
        seconds: Duration,
        /// Databases side by side.
        #[arg(long, default_value_t = 4)]
        streams: usize,
        /// End after so many differences.
        #[arg(long, default_value_t = 5)]
        differences: usize,
    },
    /// The statements of MySQL's own tests, as text and prepared.
    Tests {
        #[command(flatten)]
        two: Two,
        /// The folder mysql-test of MySQL's source.
        folder: PathBuf,
        /// The suite.
        #[arg(long, default_value = "main")]
        suite: String,
        /// Only this test; repeatable.
        #[arg(long = "test")]
        tests: Vec<String>,
    },
    /// Steps that a report has, again.
    Replay {
        #[command(flatten)]
        two: Two,
        /// A JSON file with a list of steps, as `steps` of a difference.
        steps: PathBuf,
        /// Which kind of client, 0 to 5; by default the one that the first step names, or else 0.
        #[arg(long, value_parser = clap::value_parser!(u8).range(..CLIENTS.len() as i64))]
        client: Option<u8>,
    },
    /// Statements that check their own answers, beside others that disturb.
    Storm {
        /// The server's socket.
        #[arg(long)]
        socket: PathBuf,
        /// How long.
        #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
        seconds: Duration,
        /// Connections that check.
        #[arg(long, default_value_t = 8)]
        connections: usize,
        /// A global variable to be switched on and off; repeatable.
        #[arg(long = "switch")]
        switches: Vec<String>,
        /// Of the choices.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Whether the rows of a storm are what they must be.
    Check {
        /// The server's socket.
        #[arg(long)]
        socket: PathBuf,
    },
}

/// The two servers, both with a root that has no password.
#[derive(Args)]
struct Two {
    /// Stock's socket.
    #[arg(long)]
    stock: PathBuf,
    /// The patched server's socket.
    #[arg(long)]
    patched: PathBuf,
    /// A TOML file of the differences that patches make on purpose.
    #[arg(long)]
    allow: Option<PathBuf>,
    /// The beginning of the names of databases that are made and dropped; by default `differ`, or for a replay what its first
    /// step names.
    #[arg(long)]
    database: Option<String>,
}

impl Two {
    fn place(&self) -> Result<Place> {
        let allowed = self.allow.as_deref().map(Allowed::read).transpose()?;
        Ok(Place {
            stock: self.stock.clone(),
            patched: self.patched.clone(),
            database: self.database.clone().unwrap_or_else(|| "differ".to_owned()),
            wanted: CLIENTS[0],
            session: SESSION.map(str::to_owned).to_vec(),
            allowed: allowed.unwrap_or_default(),
        })
    }
}

/// A week is longer than any run.
const SECONDS_MAX: f64 = 604_800.0;

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!("a number of seconds from 0 to {SECONDS_MAX}")),
    }
}

/// Parse the command line, do what it says and report what went wrong. 1: a difference or a failure.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match done(cli.command, cli.output.as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("ERROR: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn done(command: Command, output: Option<&Path>) -> Result<bool> {
    match command {
        Command::Mix(two) => compared(mix::clients::run(&two.place()?)?, output),
        Command::Random {
            two,
            statements,
            seed,
            episode,
            seconds,
            streams,
            differences,
        } => {
            let extent = Extent {
                statements,
                seed,
                episode,
                streams: streams.max(1),
                time_max: seconds,
                differences_max: differences.max(1),
                trials_max: TRIALS_MAX,
            };
            compared(
                run(&two.place()?, extent, &|line| eprintln!("{line}"))?,
                output,
            )
        }
        Command::Tests {
            two,
            folder,
            suite,
            tests,
        } => {
            let found = tests_of(&folder, &suite, &tests)?;
            let place = Place {
                // What MySQL's tests expect.
                database: "test".to_owned(),
                ..two.place()?
            };
            let keep = |report: &Report| {
                if output.is_some() {
                    // The last one, at the end, says what is wrong with the file.
                    let _ = printed(report, output);
                }
            };
            let say = |line: &str| eprintln!("{line}");
            let report = suite::run(&place, &folder, &found, &say, &keep)?;
            compared(report, output)
        }
        Command::Replay { two, steps, client } => {
            let text =
                std::fs::read_to_string(&steps).with_context(|| steps.display().to_string())?;
            let mut steps: Vec<Step> =
                serde_json::from_str(&text).with_context(|| steps.display().to_string())?;
            let place = place_again(&two, client, &mut steps)?;
            let mut pair = Pair::new(place.clone());
            let report = run_steps(&mut pair, &place, &[], &steps, 0, 1, &AtomicU64::new(0))?;
            compared(
                Report {
                    part: "replay",
                    ..report
                },
                output,
            )
        }
        Command::Storm {
            socket,
            seconds,
            connections,
            switches,
            seed,
        } => {
            let (root, weak) = (url(&socket, "root")?, url(&socket, "weak")?);
            storm::find_switches(&root, &switches)?;
            let extent = storm::Extent {
                time: seconds,
                connections,
                switches,
                seed,
            };
            let found = storm::run(&root, &weak, &extent)?;
            printed(&found, output)?;
            Ok(found.wrong.is_empty() && !found.lost)
        }
        Command::Check { socket } => {
            let found = storm::check(&url(&socket, "root")?)?;
            printed(&found, output)?;
            Ok(found.wrong.is_empty())
        }
    }
}

/// Where the steps of a report run again: of the client and in the database that the first one names, unless options do.
fn place_again(two: &Two, client: Option<u8>, steps: &mut [Step]) -> Result<Place> {
    let mut place = two.place()?;
    let Some(first) = steps.first_mut() else {
        return Ok(place);
    };
    if let Some(number) = client {
        first.fresh = Some(CLIENTS[usize::from(number)]);
    }
    place.wanted = first.fresh.unwrap_or(place.wanted);
    if let (None, Some(name)) = (&two.database, &first.database) {
        place.database.clone_from(name);
    }
    Ok(place)
}

fn tests_of(folder: &Path, suite: &str, named: &[String]) -> Result<Vec<PathBuf>> {
    let all = suite::script::tests(folder, suite)
        .with_context(|| folder.display().to_string())?
        .filter(|all| !all.is_empty())
        .with_context(|| {
            format!(
                "{} has no suite {suite}, or no test in it",
                folder.display()
            )
        })?;
    let name = |test: &PathBuf| {
        test.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let names: Vec<String> = all.iter().map(name).collect();
    if let Some(unknown) = named.iter().find(|each| !names.contains(each)) {
        anyhow::bail!("the suite {suite} has no test {unknown}");
    }
    let wanted = |test: &PathBuf| named.is_empty() || named.contains(&name(test));
    Ok(all.into_iter().filter(wanted).collect())
}

fn compared(mut report: Report, output: Option<&Path>) -> Result<bool> {
    report.judge();
    printed(&report, output)?;
    Ok(report.counted() == 0)
}

fn printed(value: &impl Serialize, output: Option<&Path>) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    match output {
        Some(file) => std::fs::write(file, text).with_context(|| file.display().to_string())?,
        None => println!("{text}"),
    }
    Ok(())
}

fn url(socket: &Path, user: &str) -> Result<ServerUrl> {
    let text = format!("mysql://{user}@/?socket={}", socket.display());
    Ok(ServerUrl::parse(&text)?)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parsed(words: &[&str]) -> Result<Command, clap::Error> {
        Cli::try_parse_from(["upshift-differ"].iter().chain(words)).map(|cli| cli.command)
    }

    #[test]
    fn a_replay_has_the_client_and_the_database_of_its_steps_unless_options_name_others() {
        let place = |options: &[&str], first: Step| {
            let words = ["replay", "--stock", "a", "--patched", "b", "steps.json"];
            let replay = parsed(&[&words[..], options].concat()).expect("options");
            let Command::Replay { two, client, .. } = replay else {
                panic!("a replay");
            };
            let mut steps = [first, Step::query("test", "two")];
            let place = place_again(&two, client, &mut steps).expect("no list");
            assert!(steps[0].fresh.is_none_or(|wanted| wanted == place.wanted));
            (place.wanted, place.database)
        };
        let hand_written = || Step::query("test", "one");
        let told = || Step {
            fresh: Some(CLIENTS[4]),
            database: Some("test".to_owned()),
            ..hand_written()
        };
        assert_eq!(place(&[], told()), (CLIENTS[4], "test".to_owned()));
        let others = ["--client", "2", "--database", "mine"];
        assert_eq!(place(&others, told()), (CLIENTS[2], "mine".to_owned()));
        let differ = "differ".to_owned();
        assert_eq!(place(&[], hand_written()), (CLIENTS[0], differ));
        assert!(
            parsed(&["replay", "--stock=a", "--patched=b", "c", "--client=6"]).is_err(),
            "there are six kinds"
        );
    }

    #[test]
    fn a_time_that_nobody_can_wait_is_a_usage_error() {
        for odd in ["-1", "inf", "NaN", "1e30", "604801", "long", ""] {
            let seconds = format!("--seconds={odd}");
            let two = ["random", "--stock", "a", "--patched", "b", &seconds];
            for words in [&two[..], &["storm", "--socket", "a", &seconds]] {
                let refused = parsed(words).err().expect(odd);
                assert_eq!(refused.kind(), ErrorKind::ValueValidation, "{odd}");
                assert_eq!(refused.exit_code(), 2);
            }
        }
        let storm = parsed(&["storm", "--socket", "a", "--seconds", "0.5"]).expect("options");
        let Command::Storm { seconds, .. } = storm else {
            panic!("a storm");
        };
        assert_eq!(seconds, Duration::from_millis(500));
    }
}
