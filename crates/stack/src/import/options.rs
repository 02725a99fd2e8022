//! The command line of `import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What to read, and into which trace.
#[derive(Debug, Args)]
pub struct Options {
    /// The server's log, or the lines of `dump`.
    pub log: PathBuf,
    /// The trace to write.
    pub trace: PathBuf,
    /// The log's format.
    #[arg(long, value_enum)]
    pub format: Format,
    /// For --format postgres: the server's `log_line_prefix` (SHOW log_line_prefix), unless it is the default, `%m [%p] `.
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// Replace literals and parameters by their type and length.
    #[arg(long)]
    pub mask: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// A log's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The slow log of MySQL, Percona Server or MariaDB; it has everything with `long_query_time=0` and, on MySQL, `log_slow_extra=ON`.
    MysqlSlow,
    /// MySQL's or MariaDB's general log: each request, without the time that it took.
    MysqlGeneral,
    /// PostgreSQL's log for people (stderr).
    Postgres,
    /// PostgreSQL's csvlog.
    PostgresCsv,
    /// PostgreSQL's jsonlog.
    PostgresJson,
    /// What `upshift stack dump` printed.
    JsonLines,
}

impl Format {
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MysqlSlow => "mysql-slow",
            Self::MysqlGeneral => "mysql-general",
            Self::Postgres => "postgres",
            Self::PostgresCsv => "postgres-csv",
            Self::PostgresJson => "postgres-json",
            Self::JsonLines => "json-lines",
        }
    }
}
