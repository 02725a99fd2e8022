//! The rows for people.

use super::Row;

/// A line for each row; `x disk` is against the disk alone at the same size.
pub fn text(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{:>6}  {:<24} {:<7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>8}",
        "size",
        "medium",
        "data",
        "IOPS",
        "MB/s",
        "p50 us",
        "p99 us",
        "mean us",
        "x disk",
        "hits %",
        "capacity"
    )];
    lines.extend(rows.iter().map(|row| line(row, rows)));
    lines.join("\n")
}

fn line(row: &Row, rows: &[Row]) -> String {
    let disk = rows
        .iter()
        .find(|other| other.medium == "none" && other.block_size_bytes == row.block_size_bytes);
    let or_dash = |figure: Option<f64>, digits: usize| {
        figure.map_or("-".into(), |figure| format!("{figure:.digits$}"))
    };
    let name = if row.medium == "none" {
        "disk alone"
    } else {
        &row.medium
    };
    format!(
        "{:>5}K  {:<24} {:<7} {:>10.0} {:>9.0} {:>9.2} {:>9.2} {:>9.2} {:>7} {:>7} {:>8}",
        row.block_size_bytes >> 10,
        name,
        row.data,
        row.iops,
        row.bandwidth_bytes_per_s / 1e6,
        row.latency_us_p50,
        row.latency_us_p99,
        row.latency_us_mean,
        or_dash(disk.map(|disk| row.iops / disk.iops), 1),
        or_dash(row.hit_ratio.map(|ratio| ratio * 100.0), 2),
        or_dash(row.capacity_ratio, 2),
    )
}
