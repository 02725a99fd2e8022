//! `resize`, `mode`, `sync` and `clear`: asking the running tier for a change.

use std::time::Duration;

use serde_json::json;
use tiercache::config::{Mode, parse_size_bytes};
use tiercache::status::{Request, RequestError};

use crate::failure::Failure;
use crate::pages::{self, Which};
use crate::{memory, output};

/// A day: nobody means more.
const WAIT_SECONDS_MAX: f64 = 86_400.0;

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
    /// Seconds to wait for the answer.
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
            "a tier of size 0 holds nothing",
            "use `upshift cache mode pass-through`",
        ));
    }
    let now = pages::find(&options.plain.which)?.snapshot();
    if now.medium.starts_with("memory") {
        let more_bytes = size_bytes.saturating_sub(now.size_bytes);
        memory::refuse_more_than_available(more_bytes, Some(now.pid))?;
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
    if !(0.0..=WAIT_SECONDS_MAX).contains(&options.wait_seconds) {
        return Err(Failure::usage(
            format!("--wait-seconds {} cannot be waited", options.wait_seconds),
            format!("give a number from 0 to {WAIT_SECONDS_MAX}"),
        ));
    }
    let wait = Duration::from_secs_f64(options.wait_seconds);
    let page = pages::find(&options.which)?;
    if !page.alive() {
        return Err(Failure::failed(
            format!("the server with process id {} has stopped", page.pid()),
            "start it again with `upshift cache run`; `upshift cache stat --pid` shows its last counters",
        ));
    }
    let ticket = page
        .request(request)
        .map_err(|why| Failure::failed(why, "try again in a moment"))?;
    let answer = page.wait(ticket, wait).map_err(|why| {
        let hint = match why {
            RequestError::Refused(_) => "`upshift cache stat` shows the tier's size, medium and mode",
            RequestError::Unanswered(_) => {
                "see whether the server runs (`upshift cache stat`); give a large resize more --wait-seconds"
            }
        };
        Failure::failed(why.to_string(), hint)
    })?;
    if options.json {
        let done =
            json!({"schema_version": 1, "pid": page.pid(), "request": name, "answer": answer});
        output::line(&done.to_string())
    } else {
        output::line(&answer)
    }
}
