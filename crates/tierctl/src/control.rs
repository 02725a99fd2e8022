//! `resize`, `mode`, `sync` and `clear`: asking the running tier for a change.

use std::time::Duration;

use serde_json::json;
use tiercache::config::{Mode, parse_size_bytes};
use tiercache::status::Request;

use crate::failure::Failure;
use crate::pages::{self, Which};
use crate::{memory, output};

/// A new size.
#[derive(clap::Args)]
pub struct Resize {
    /// The new size, such as 512M or 4G.
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
    /// Seconds to wait for the tier's answer.
    #[arg(long, default_value_t = 10.0)]
    wait_seconds: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Resize the running tier.
pub fn resize(options: &Resize) -> Result<(), Failure> {
    let size_bytes = parse_size_bytes(&options.size)?;
    if size_bytes == 0 {
        return Err(Failure::usage(
            "a tier of size 0 is none",
            "use `upshift cache mode pass-through`",
        ));
    }
    let now = pages::find(&options.plain.which)?.snapshot();
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

/// Bring the medium to stable storage.
pub fn sync(options: &Plain) -> Result<(), Failure> {
    ask(options, "sync", Request::Flush)
}

/// Empty the tier.
pub fn clear(options: &Plain) -> Result<(), Failure> {
    ask(options, "clear", Request::Drop)
}

fn ask(options: &Plain, name: &str, request: Request) -> Result<(), Failure> {
    let page = pages::find(&options.which)?;
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
            "the tier answers from a thread of its own: a stopped or frozen server does not; a large resize takes longer than --wait-seconds",
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
