//! How a graph went for a while, as a page for a browser: ranks, staleness and watermark over time.
//! The page is one file without scripts; whoever points at a line is told what it is.

use std::fmt::Write;
use std::time::Duration;

use nile_interfaces::graph::{GraphState, RankEntry};

use super::show::{error, fraction};
use crate::markup::escaped;

/// A chart's size and the room around its lines, in pixels.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;

/// Lines of a chart's grid.
const STEPS: usize = 4;

/// Told apart by people who see few colours, too; after the last one they begin anew.
const COLOURS: [&str; 10] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f3fbf", "#8c564b",
    "#2f6f4f", "#777777",
];

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 940px; margin: 2em auto; padding: 0 1em; }
h2 { font-size: 1.05em; margin: 1.6em 0 .2em; }
table { border-collapse: collapse; }
td, th { padding: .1em .9em .1em 0; text-align: right; font-variant-numeric: tabular-nums; }
td:last-child, th:last-child { text-align: left; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.grid { stroke: currentColor; stroke-opacity: .18; }
.line { fill: none; stroke-width: 2; }
";

/// The graph at one moment.
pub struct Sample {
    /// Since the first one.
    pub at: Duration,
    /// How it stood.
    pub state: GraphState,
    /// The highest ranks.
    pub top: Vec<RankEntry>,
}

/// A line of a chart: at so many seconds, so much. It has gaps where nothing is known.
struct Line {
    label: String,
    points: Vec<(f64, Option<f64>)>,
}

/// The page of a graph on a core, with so many of its highest vertices. There is one sample at
/// least.
pub fn page(name: &str, core: &str, samples: &[Sample], number: usize) -> String {
    let name = escaped(name);
    let Some(last) = samples.last() else { return String::new() };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{name}</title>\n\
         <style>{STYLE}</style>\n<h1>The graph {name} on {core}</h1>\n{}",
        standing(&last.state)
    );
    let over = |value: &dyn Fn(&GraphState) -> f64| -> Vec<(f64, Option<f64>)> {
        samples.iter().map(|it| (it.at.as_secs_f64(), Some(value(&it.state)))).collect()
    };
    let charts = [
        ("Ranks", ranks(samples, number)),
        ("Staleness, in milliseconds: for how long the first event has waited that is not in", {
            vec![Line {
                label: "staleness".into(),
                points: over(&|it| it.staleness_us as f64 / 1e3),
            }]
        }),
        ("Bound of the error of all ranks together", {
            let wanted = over(&|it| error(it.wanted_error));
            let bound = over(&|it| error(it.error));
            vec![
                Line { label: "bound".into(), points: bound },
                Line { label: "wanted".into(), points: wanted },
            ]
        }),
        ("Watermark: all events before it are in", {
            vec![Line { label: "watermark".into(), points: over(&|it| it.watermark as f64) }]
        }),
        ("Events", {
            let behind = over(&|it| it.behind as f64);
            vec![
                Line { label: "in".into(), points: over(&|it| it.events as f64) },
                Line { label: "behind".into(), points: behind },
            ]
        }),
    ];
    for (title, lines) in charts {
        let _ = write!(page, "<h2>{title}</h2>\n{}", chart(&lines));
    }
    let _ = write!(page, "<h2>The highest ranks at the end</h2>\n{}</html>\n", table(last, number));
    page
}

/// The state in words.
fn standing(it: &GraphState) -> String {
    format!(
        "<p>Publication {}: {} vertices, {} edges; {} events in, {} behind; errors of all ranks \
         {:.1e} at most, {:.1e} is wanted.</p>\n",
        it.publication,
        it.vertices,
        it.edges,
        it.events,
        it.behind,
        error(it.error),
        error(it.wanted_error)
    )
}

/// The ranks of the vertices that are highest at the end.
fn ranks(samples: &[Sample], number: usize) -> Vec<Line> {
    let last = samples.last().map_or(&[][..], |it| &it.top);
    let line = |vertex: u64| Line {
        label: vertex.to_string(),
        points: samples
            .iter()
            .map(|it| {
                let entry = it.top.iter().find(|it| it.vertex == vertex);
                (it.at.as_secs_f64(), entry.map(|it| fraction(it.rank)))
            })
            .collect(),
    };
    last.iter().take(number).map(|it| line(it.vertex)).collect()
}

fn table(last: &Sample, number: usize) -> String {
    let mut rows =
        String::from("<table>\n<tr><th></th><th>vertex</th><th>rank</th><th></th></tr>\n");
    for (place, it) in (1..).zip(last.top.iter().take(number)) {
        let certain = if it.certain { "" } else { "perhaps behind the next" };
        let (vertex, rank) = (it.vertex, fraction(it.rank));
        let _ = writeln!(
            rows,
            "<tr><td>{place}</td><td>{vertex}</td><td>{rank:.6}</td><td>{certain}</td></tr>"
        );
    }
    rows + "</table>\n"
}

fn chart(lines: &[Line]) -> String {
    let known = || lines.iter().flat_map(|it| &it.points).filter_map(|(_, value)| *value);
    let end = lines.iter().flat_map(|it| &it.points).map(|(at, _)| *at).fold(0.1, f64::max);
    let (lowest, highest) = range(known().fold(f64::MAX, f64::min), known().fold(0.0, f64::max));
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| {
        HEIGHT - BOTTOM - (value - lowest) / (highest - lowest) * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
    for step in 0..=STEPS {
        let part = step as f64 / STEPS as f64;
        let value = lowest + part * (highest - lowest);
        let (at, right) = (y(value), WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{:.1} s</text>",
            LEFT - 8.0,
            at + 4.0,
            shown(value),
            x(part * end),
            HEIGHT - 10.0,
            part * end
        );
    }
    for (place, line) in lines.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let path = path(&line.points, x, y);
        let label = escaped(&line.label);
        let beside = TOP + 12.0 + place as f64 * 18.0;
        let _ = writeln!(
            svg,
            "<path class=\"line\" stroke=\"{colour}\" d=\"{path}\"><title>{label}</title></path>\
             <rect x=\"{}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{beside}\">{label}</text>",
            WIDTH - RIGHT + 14.0,
            beside - 6.0,
            WIDTH - RIGHT + 32.0
        );
    }
    svg + "</svg>\n"
}

/// From where to where a chart goes, so that its lines are within it and not at one height alone.
fn range(lowest: f64, highest: f64) -> (f64, f64) {
    // What moves little beside how much it is, as a time of day does, is shown from its lowest on.
    match lowest < highest {
        true if lowest > 0.9 * highest => (lowest, highest),
        true => (0.0, highest),
        false if highest > 0.0 => (0.0, highest),
        false => (0.0, 1.0),
    }
}

/// A line whose points are joined; of a point beside two gaps, a dot.
fn path(points: &[(f64, Option<f64>)], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut joins = false;
    for (at, value) in points {
        if let Some(value) = value {
            let begin = if joins { 'L' } else { 'M' };
            let _ = write!(path, "{begin}{:.1} {:.1}", x(*at), y(*value));
            if !joins {
                path.push_str("h0.1");
            }
        }
        joins = value.is_some();
    }
    path
}

/// A value beside the grid.
fn shown(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        it if it < 1e-3 => format!("{it:.1e}"),
        it if it < 1.0 => format!("{it:.4}"),
        it if it < 1e4 => format!("{it:.1}"),
        it => format!("{it:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, ranks: &[(u64, u64)]) -> Sample {
        let top = ranks
            .iter()
            .map(|(vertex, eighths)| RankEntry {
                vertex: *vertex,
                rank: eighths << 61,
                certain: false,
            })
            .collect();
        let state = GraphState { publication: seconds, ..GraphState::default() };
        Sample { at: Duration::from_secs(seconds), state, top }
    }

    #[test]
    fn lines_are_those_of_the_last_top_with_gaps_where_they_were_not_in_it() {
        let samples = [
            sample(0, &[(7, 4), (5, 2)]),
            sample(1, &[(9, 3), (7, 2)]),
            sample(2, &[(7, 3), (5, 1)]),
        ];
        let lines = ranks(&samples, 2);
        let told: Vec<_> = lines.iter().map(|it| (&it.label[..], it.points.clone())).collect();
        assert_eq!(
            told,
            [
                ("7", vec![(0.0, Some(0.5)), (1.0, Some(0.25)), (2.0, Some(0.375))]),
                ("5", vec![(0.0, Some(0.25)), (1.0, None), (2.0, Some(0.125))]),
            ]
        );
        let same = |at: f64| at;
        assert_eq!(path(&lines[1].points, same, same), "M0.0 0.2h0.1M2.0 0.1h0.1");
    }

    #[test]
    fn a_page_has_all_and_says_nothing_that_is_not_escaped() {
        let page = page("<a & b>", "n1.c2", &[sample(0, &[]), sample(3, &[(7, 7)])], 10);
        assert!(page.contains("<title>&lt;a &amp; b&gt;</title>"), "{page}");
        assert!(!page.contains("<a "), "{page}");
        for part in ["Publication 3", ">0.875000<", "Staleness", "Watermark", "3.0 s"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }

    #[test]
    fn charts_have_a_height_whatever_they_show() {
        assert_eq!(range(f64::MAX, 0.0), (0.0, 1.0));
        assert_eq!(range(3.0, 3.0), (0.0, 3.0));
        assert_eq!(range(1.0, 3.0), (0.0, 3.0));
        assert_eq!(range(1000.0, 1001.0), (1000.0, 1001.0));
    }
}
