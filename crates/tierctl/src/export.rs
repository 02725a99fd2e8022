//! `export`: the counters as Prometheus text.

use crate::failure::Failure;
use crate::place::{self, Which};

/// Which server.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    which: Which,
}

/// Print the text format, version 0.0.4.
pub fn export(options: &Options) -> Result<(), Failure> {
    let now = place::find(&options.which)?.snapshot();
    for (name, value) in &now.counters {
        println!("# TYPE upshift_tier_{name}_total counter\nupshift_tier_{name}_total {value}");
    }
    println!("# TYPE upshift_tier_bypasses_total counter");
    for (reason, value) in &now.bypasses {
        println!("upshift_tier_bypasses_total{{reason=\"{reason}\"}} {value}");
    }
    for (name, value) in [
        ("size_bytes", now.size_bytes),
        ("used_bytes", now.used_bytes),
        ("used_pages", now.used_pages),
        ("capacity_pages", now.capacity_pages),
        ("index_bytes", now.index_bytes),
        ("up", u64::from(now.alive)),
    ] {
        println!("# TYPE upshift_tier_{name} gauge\nupshift_tier_{name} {value}");
    }
    Ok(())
}
