//! `stat`: what the tier of a running server does.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tiercache::status::{Counter, Snapshot, quantile_ns};

use crate::failure::Failure;
use crate::output;
use crate::pages::{self, Which};

/// What to show.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    which: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print the changes of each second, until Ctrl-C or the server's end.
    #[arg(long)]
    watch: bool,
}

/// Show the counters.
pub fn stat(options: &Options) -> Result<(), Failure> {
    let page = pages::find(&options.which)?;
    let mut now = page.snapshot();
    show(&now, options.json)?;
    while options.watch && now.alive {
        std::thread::sleep(Duration::from_secs(1));
        let next = page.snapshot();
        if options.json {
            show(&next, true)?;
        } else {
            // A server that was started again counts from zero on the same page.
            let grown = |counter| next.counter(counter).saturating_sub(now.counter(counter));
            output::line(&format!(
                "{:>10} hits/s {:>9} misses/s {:>7} fills/s {:>7} evictions/s  {:5.1} % full",
                grown(Counter::Hits),
                grown(Counter::Misses),
                grown(Counter::Fills),
                grown(Counter::Evictions),
                filled(&next) * 100.0,
            ))?;
        }
        now = next;
    }
    Ok(())
}

fn show(now: &Snapshot, as_json: bool) -> Result<(), Failure> {
    if as_json {
        output::line(&to_json(now).to_string())
    } else {
        output::line(to_text(now).trim_end())
    }
}

fn filled(now: &Snapshot) -> f64 {
    now.used_pages as f64 / now.capacity_pages.max(1) as f64
}

/// Hits / (hits + misses); None before the first read.
pub fn hit_ratio(now: &Snapshot) -> Option<f64> {
    let (hits, misses) = (now.counter(Counter::Hits), now.counter(Counter::Misses));
    (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

fn to_json(now: &Snapshot) -> Value {
    let named = |values: &[(&'static str, u64)]| -> Map<String, Value> {
        values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect()
    };
    let us = |histogram, share| quantile_ns(histogram, share).map(|ns| ns as f64 / 1000.0);
    json!({
        "schema_version": 2,
        "pid": now.pid,
        "alive": now.alive,
        "mode": now.mode.map(|mode| mode.as_str()),
        "medium": now.medium,
        "promotion": now.promotion,
        "start": now.start,
        "off": now.off,
        "page_size_bytes": now.page_size_bytes,
        "size_bytes": now.size_bytes,
        "capacity_pages": now.capacity_pages,
        "used_pages": now.used_pages,
        "used_bytes": now.used_bytes,
        "index_bytes": now.index_bytes,
        "hit_ratio": hit_ratio(now),
        "counters": named(&now.counters),
        "bypasses": named(&now.bypasses),
        "hit_latency_us_p50": us(&now.hit_ns, 0.5),
        "hit_latency_us_p99": us(&now.hit_ns, 0.99),
        "miss_latency_us_p50": us(&now.miss_ns, 0.5),
        "miss_latency_us_p99": us(&now.miss_ns, 0.99),
        "files": now.files.iter().map(|file| json!({
            "name": file.name, "hits": file.hits, "misses": file.misses, "pages": file.pages,
        })).collect::<Vec<_>>(),
    })
}

fn to_text(now: &Snapshot) -> String {
    let started = match now.start.as_str() {
        "" => String::new(),
        start => format!(", started {}", output::name(start)),
    };
    let mut lines = vec![
        format!(
            "process {}{}: {} on {}, promotion {}{started}",
            now.pid,
            if now.alive { "" } else { " (stopped)" },
            now.mode.map_or("unknown mode", |mode| mode.as_str()),
            output::name(&now.medium),
            now.promotion,
        ),
        format!(
            "pages     {} of {} ({:.1} %), {} MiB of {} MiB, index {} KiB",
            now.used_pages,
            now.capacity_pages,
            filled(now) * 100.0,
            now.used_bytes >> 20,
            now.size_bytes >> 20,
            now.index_bytes >> 10,
        ),
    ];
    if !now.off.is_empty() {
        lines.push(format!("off       {}", output::name(&now.off)));
    }
    if let Some(ratio) = hit_ratio(now) {
        lines.push(format!("hit ratio {:.2} %", ratio * 100.0));
    }
    for (name, histogram) in [("hit", &now.hit_ns), ("miss", &now.miss_ns)] {
        if let (Some(p50), Some(p99)) = (quantile_ns(histogram, 0.5), quantile_ns(histogram, 0.99))
        {
            let us = |ns: u64| ns as f64 / 1000.0;
            lines.push(format!(
                "{name:<9} p50 at most {:.1} us, p99 at most {:.1} us",
                us(p50),
                us(p99)
            ));
        }
    }
    lines.push("counters".into());
    lines.extend(
        now.counters
            .iter()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!("  {name:<22}{value:>14}")),
    );
    lines.push("bypasses, by reason".into());
    lines.extend(
        now.bypasses
            .iter()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!("  {name:<22}{value:>14}")),
    );
    if !now.files.is_empty() {
        lines.push(format!(
            "{:>12} {:>12} {:>9}  file",
            "hits (est.)", "misses", "pages"
        ));
        lines.extend(now.files.iter().map(|file| {
            format!(
                "{:>12} {:>12} {:>9}  {}",
                file.hits,
                file.misses,
                file.pages,
                output::name(&file.name)
            )
        }));
    }
    lines.join("\n") + "\n"
}
