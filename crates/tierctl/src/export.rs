//! `export`: the counters as Prometheus text.

use std::fmt::Write;

use tiercache::status::{FileStatus, LATENCY_BUCKETS, Snapshot};

use crate::failure::Failure;
use crate::output;
use crate::pages::{self, Which};

/// Which server.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    which: Which,
}

/// Print the text format, version 0.0.4.
pub fn export(options: &Options) -> Result<(), Failure> {
    let now = pages::find(&options.which)?.snapshot();
    output::line(to_text(&now).trim_end())
}

fn to_text(now: &Snapshot) -> String {
    let mut text = Text::default();
    for (name, value) in &now.counters {
        text.head(
            &format!("{name}_total"),
            "counter",
            "see `upshift cache stat`",
        );
        text.value(&format!("{name}_total"), &[], *value);
    }
    text.head(
        "bypasses_total",
        "counter",
        "requests that bypassed the tier, by reason",
    );
    for (reason, value) in &now.bypasses {
        text.value("bypasses_total", &[("reason", reason)], *value);
    }
    for (name, value) in [
        ("size_bytes", now.size_bytes),
        ("used_bytes", now.used_bytes),
        ("used_pages", now.used_pages),
        ("capacity_pages", now.capacity_pages),
        ("page_size_bytes", now.page_size_bytes),
        ("index_bytes", now.index_bytes),
        ("up", u64::from(now.alive)),
    ] {
        text.head(name, "gauge", "see `upshift cache stat`");
        text.value(name, &[], value);
    }
    text.head("info", "gauge", "the settings, in labels");
    let mode = now.mode.map_or("unknown", |mode| mode.as_str());
    let labels = [
        ("mode", mode),
        ("medium", now.medium.as_str()),
        ("promotion", now.promotion.as_str()),
        ("start", now.start.as_str()),
        ("off", now.off.as_str()),
    ];
    text.value("info", &labels, 1);
    text.histogram(
        "hit_latency_seconds",
        "time of a hit; one in 16 is timed",
        &now.hit_ns,
    );
    text.histogram(
        "miss_latency_seconds",
        "time from a miss to its fill, the file's read included",
        &now.miss_ns,
    );
    text.files(&now.files);
    text.0
}

/// Lines of the format; every name gets the prefix `upshift_tier_`.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.push(format_args!(
            "# HELP upshift_tier_{name} {help}\n# TYPE upshift_tier_{name} {kind}\n"
        ));
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let inside: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let braces = if inside.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", inside.join(","))
        };
        self.push(format_args!("upshift_tier_{name}{braces} {value}\n"));
    }

    /// Cumulative buckets; the page has no sum, so `_sum` is left out.
    fn histogram(&mut self, name: &str, help: &str, buckets_ns: &[u64; LATENCY_BUCKETS]) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut total = 0;
        for (index, count) in buckets_ns.iter().enumerate().take(LATENCY_BUCKETS - 1) {
            total += count;
            let upper_s = (1u64 << (index + 1)) as f64 / 1e9;
            self.value(&bucket, &[("le", &upper_s.to_string())], total);
        }
        total += buckets_ns[LATENCY_BUCKETS - 1];
        self.value(&bucket, &[("le", "+Inf")], total);
        self.value(&format!("{name}_count"), &[], total);
    }

    fn files(&mut self, files: &[FileStatus]) {
        type Pick = fn(&FileStatus) -> u64;
        let series: [(&str, &str, &str, Pick); 3] = [
            (
                "file_hits_total",
                "counter",
                "reads served, estimated from one in 16",
                |file| file.hits,
            ),
            ("file_misses_total", "counter", "reads missed", |file| {
                file.misses
            }),
            ("file_pages", "gauge", "pages held", |file| file.pages),
        ];
        for (name, kind, help, pick) in series {
            self.head(name, kind, help);
            for file in files {
                self.value(name, &[("file", &file.name)], pick(file));
            }
        }
    }

    fn push(&mut self, lines: std::fmt::Arguments) {
        // Writing into a String cannot fail.
        let _ = self.0.write_fmt(lines);
    }
}

/// As the format wants a label's value: backslash, quote and line feed escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiercache::Config;
    use tiercache::status::StatusPage;

    #[test]
    fn buckets_are_cumulative_and_end_in_the_count() {
        let mut buckets = [0; LATENCY_BUCKETS];
        (buckets[9], buckets[10]) = (2, 3);
        let mut text = Text::default();
        text.histogram("hit_latency_seconds", "x", &buckets);
        assert!(
            text.0.contains("bucket{le=\"0.000001024\"} 2\n"),
            "{}",
            text.0
        );
        assert!(text.0.contains("bucket{le=\"0.000002048\"} 5\n"));
        assert!(
            text.0
                .ends_with("bucket{le=\"+Inf\"} 5\nupshift_tier_hit_latency_seconds_count 5\n")
        );
    }

    #[test]
    fn a_tier_that_turned_itself_off_says_why() {
        let page = StatusPage::private(&Config::default()).expect("a page");
        let now = Snapshot {
            off: "16 failures".into(),
            ..page.snapshot()
        };
        let text = to_text(&now);
        assert!(text.contains("off=\"16 failures\"} 1\n"), "{text}");
    }

    #[test]
    fn a_files_name_is_escaped() {
        let mut text = Text::default();
        text.files(&[FileStatus {
            name: "a\"b\\c".into(),
            hits: 1,
            misses: 2,
            pages: 3,
        }]);
        assert!(
            text.0.contains("file_hits_total{file=\"a\\\"b\\\\c\"} 1\n"),
            "{}",
            text.0
        );
    }
}
