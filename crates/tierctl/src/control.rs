//! `resize`, `mode`, `flush` and `drop`: asking the running tier for a change.

use std::time::Duration;

use serde_json::json;
use tiercache::config::{Mode, parse_size_bytes};
use tiercache::status::Request;

use crate::failure::Failure;
use crate::place::{self, Which};
use crate::{memory, output};

/// A new size.
#[derive(clap::Args)]
pub struct Resize {
    /// 512M, 4G.
    size: String,
    #[command(flatten)]
    plain: Plain,
}

/// A new mode.
#[derive(clap::Args)]
pub struct SwitchMode {
    /// write-through, write-around, write-invalidate or pass-through.
    mode: String,
    #[command(flatten)]
    plain: Plain,
}

/// Which server, and how long to wait for it.
#[derive(clap::Args)]
pub struct Plain {
    #[command(flatten)]
    which: Which,
    /// The tier answers at its next read or write: seconds to wait for that.
    #[arg(long, default_value_t = 10.0)]
    wait_seconds: f64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Resize the running tier.
pub fn resize(options: &Resize) -> Result<(), Failure> {
    let size_bytes = parse_size_bytes(&options.size)?;
    if size_bytes == 0 {
        return Err(Failure::usage(
            "a tier of size 0 is none",
            "use `mode pass-through`",
        ));
    }
    let now = place::find(&options.plain.which)?.snapshot();
    if now.medium.starts_with("memory") {
        memory::refuse_more_than_available(size_bytes.saturating_sub(now.size_bytes))?;
    }
    ask(&options.plain, "resize", Request::Resize(size_bytes))
}

/// Switch the mode of the running tier.
pub fn mode(options: &SwitchMode) -> Result<(), Failure> {
    let mode: Mode = options.mode.parse()?;
    ask(&options.plain, "mode", Request::Mode(mode))
}

/// Flush the medium.
pub fn flush(options: &Plain) -> Result<(), Failure> {
    ask(options, "flush", Request::Flush)
}

/// Empty the tier.
pub fn drop(options: &Plain) -> Result<(), Failure> {
    ask(options, "drop", Request::Drop)
}

fn ask(options: &Plain, name: &str, request: Request) -> Result<(), Failure> {
    let page = place::find(&options.which)?;
    if !page.alive() {
        return Err(Failure::failed(
            format!("the server with process id {} has stopped", page.pid()),
            "`upshift cache stat` shows what it left",
        ));
    }
    let wait = Duration::try_from_secs_f64(options.wait_seconds)
        .map_err(|error| Failure::usage(format!("--wait-seconds: {error}"), ""))?;
    let ticket = page
        .request(request)
        .map_err(|why| Failure::failed(why, "try again in a moment"))?;
    let answer = page.wait(ticket, wait).map_err(|why| {
        Failure::failed(
            why,
            "an idle server answers at its next read or write: run a query, or wait longer",
        )
    })?;
    if options.json {
        let done =
            json!({"schema_version": 1, "pid": page.pid(), "request": name, "answer": answer});
        output::line(&done.to_string())
    } else {
        output::line(&answer)
    }
}
