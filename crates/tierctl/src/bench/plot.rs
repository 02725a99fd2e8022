//! IOPS against the size of a read, both axes logarithmic, as SVG.

use std::fmt::Write;

use super::Row;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Room for the axes' labels and, on the right, for the lines' names.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 6] = [
    "#666666", "#d97706", "#2563eb", "#16a34a", "#9333ea", "#dc2626",
];

/// One line of the picture.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The picture.
pub fn svg(rows: &[Row]) -> String {
    let lines = lines(rows);
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let least = all().map(|point| pick(&point)).fold(f64::MAX, f64::min);
        let most = all().map(|point| pick(&point)).fold(f64::MIN, f64::max);
        (least, most.max(least + 1.0))
    };
    let (sizes, decades) = (range(|point| point.0), range(|point| point.1));
    let (floor, ceiling) = (decades.0.floor(), decades.1.ceil());
    let x = |size: f64| LEFT + (size - sizes.0) / (sizes.1 - sizes.0) * (WIDTH - LEFT - RIGHT);
    let y =
        |iops: f64| HEIGHT - BOTTOM - (iops - floor) / (ceiling - floor) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">Random reads a second, by size of a read</text>\n"
    );
    let mut draw = |text: std::fmt::Arguments| {
        // Writing into a String cannot fail.
        let _ = svg.write_fmt(text);
    };
    for decade in floor as i32..=ceiling as i32 {
        let at = y(f64::from(decade));
        draw(format_args!(
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\n",
            WIDTH - RIGHT
        ));
        draw(format_args!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 8.0,
            at + 4.0,
            10f64.powi(decade)
        ));
    }
    for size in sizes.0 as u32..=sizes.1 as u32 {
        if all().any(|point| point.0 == f64::from(size)) {
            draw(format_args!(
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}K</text>\n",
                x(f64::from(size)),
                HEIGHT - BOTTOM + 20.0,
                (1u64 << size) >> 10
            ));
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(size, iops)| format!("{:.1},{:.1}", x(*size), y(*iops)))
            .collect();
        draw(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            points.join(" ")
        ));
        let at = TOP + 18.0 * index as f64;
        draw(format_args!(
            "<text x=\"{}\" y=\"{at}\" fill=\"{colour}\">{}</text>\n",
            WIDTH - RIGHT + 12.0,
            escaped(&line.name)
        ));
    }
    svg + "</svg>\n"
}

/// Rows of one medium and kind of data are a line; logarithms of base 2 (size) and 10 (IOPS).
fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let medium = if row.medium == "none" {
            "disk alone"
        } else {
            &row.medium
        };
        let name = if row.data == "random" {
            medium.to_owned()
        } else {
            format!("{medium}, {}", row.data)
        };
        let point = (
            (row.block_size_bytes as f64).log2(),
            row.iops.max(1.0).log10(),
        );
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                points: vec![point],
            }),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_medium_is_a_line_with_its_name() {
        let row = |medium: &str, block_size_bytes, iops| Row {
            block_size_bytes,
            medium: medium.into(),
            mode: "none".into(),
            cached: false,
            iops,
            bandwidth_bytes_per_s: 1.0,
            latency_us_p50: 1.0,
            latency_us_p99: 1.0,
            latency_us_mean: 1.0,
            data: "random",
            hit_ratio: None,
            capacity_ratio: None,
            cpu_system_percent: 0.0,
        };
        let drawn = svg(&[
            row("none", 4096, 8e3),
            row("file:/a&b", 4096, 1e6),
            row("none", 1 << 20, 900.0),
        ]);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        for said in [
            "disk alone",
            "file:/a&amp;b",
            ">4K<",
            ">1024K<",
            ">100<",
            ">1000000<",
        ] {
            assert!(drawn.contains(said), "{said}: {drawn}");
        }
    }
}
