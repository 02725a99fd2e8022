//! The rows for people.

use super::Row;

/// Room for a medium's name; a longer one stands on a line of its own.
const NAME_WIDTH: usize = 11;

/// A line for each row, in 80 columns; `x disk` is against the disk alone at the same size.
pub fn text(rows: &[Row]) -> String {
    let mut lines = vec![cells([
        "size", "medium", "data", "IOPS", "MB/s", "p50 us", "p99 us", "x disk", "hits %",
        "capacity",
    ])];
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
    let (own_line, name) = if name.len() > NAME_WIDTH {
        (format!("{name}\n"), "")
    } else {
        (String::new(), name)
    };
    let figures = cells([
        &format!("{}K", row.block_size_bytes >> 10),
        name,
        row.data,
        &format!("{:.0}", row.iops),
        &format!("{:.0}", row.bandwidth_bytes_per_s / 1e6),
        &format!("{:.2}", row.latency_us_p50),
        &format!("{:.2}", row.latency_us_p99),
        &or_dash(disk.map(|disk| row.iops / disk.iops), 1),
        &or_dash(row.hit_ratio.map(|ratio| ratio * 100.0), 2),
        &or_dash(row.capacity_ratio, 2),
    ]);
    own_line + &figures
}

fn cells(cells: [&str; 10]) -> String {
    let [
        size,
        medium,
        data,
        iops,
        bandwidth,
        p50,
        p99,
        disk,
        hits,
        capacity,
    ] = cells;
    format!(
        "{size:>5} {medium:<NAME_WIDTH$} {data:<6} {iops:>7} {bandwidth:>6} {p50:>8} {p99:>8} {disk:>6} {hits:>6} {capacity:>8}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_80_columns() {
        let row = |medium: &str, iops| Row {
            block_size_bytes: 1 << 20,
            medium: medium.into(),
            mode: "write-through".into(),
            cached: true,
            iops,
            bandwidth_bytes_per_s: 99_999e6,
            latency_us_p50: 12_345.67,
            latency_us_p99: 12_345.67,
            latency_us_mean: 12_345.67,
            data: "random",
            hit_ratio: Some(1.0),
            capacity_ratio: Some(1.99),
            cpu_system_percent: 0.0,
        };
        let text = text(&[row("none", 1234.0), row("direct:/dev/nvme0n1", 1_234_567.0)]);
        for line in text.lines() {
            assert!(line.len() <= 80, "{}: {line}", line.len());
        }
        assert!(text.contains("\ndirect:/dev/nvme0n1\n"), "{text}");
        assert!(text.contains(" 1000.5 100.00"), "{text}");
    }
}
