//! The flame graph: one SVG file, which a browser shows without any other. The root is at the
//! bottom; a frame is as wide as often as it was found, and what it called stands on it. Equal
//! stacks give equal files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::stacks::{KERNEL, PACKAGE};
use crate::markup::escaped;

/// Pixels of the whole, of a frame, of what is around and above them, and of a character.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 17.0;
const MARGIN: f64 = 10.0;
const TITLE: f64 = 40.0;
const CHARACTER: f64 = 7.2;

/// Of how many a frame has to be one to be seen.
const SEEN: u64 = 1000;

/// Frames of the same name on the same frames.
#[derive(Default)]
struct Frame<'f> {
    found: u64,
    above: BTreeMap<&'f str, Frame<'f>>,
}

/// The graph of folded stacks, one a line, each with how often it was found in periods of a timer
/// that goes round `rate` times a second.
pub fn graph(folded: &str, title: &str, rate: u32) -> String {
    let mut root = Frame::default();
    for (stack, found) in folded.lines().filter_map(|line| line.rsplit_once(' ')) {
        let found = found.parse().unwrap_or(0);
        root.found += found;
        let mut frame = &mut root;
        for name in stack.split(';') {
            frame = frame.above.entry(name).or_default();
            frame.found += found;
        }
    }
    let depth = root.depth(root.found) as f64;
    let (width, height) = (WIDTH + 2.0 * MARGIN, TITLE + depth * HEIGHT + MARGIN);
    let mut graph = Graph { text: String::new(), all: root.found, rate, height };
    graph.draw("all", &root, (MARGIN, 1), Colour::Grey);
    let Graph { text: frames, .. } = graph;
    let title = escaped(title);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"monospace\" font-size=\"12\">\n\
         <style>rect {{ stroke: white; stroke-width: 0.5 }} \
         g:hover rect {{ stroke: black; stroke-width: 1 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"16\">{title}</text>\n{frames}</svg>\n"
    )
}

impl Frame<'_> {
    /// How many frames stand on each other, those that are too narrow left out.
    fn depth(&self, all: u64) -> usize {
        let above = self.above.values().filter(|it| is_seen(it.found, all));
        1 + above.map(|it| it.depth(all)).max().unwrap_or(0)
    }
}

fn is_seen(found: u64, all: u64) -> bool {
    found > 0 && found.saturating_mul(SEEN) >= all
}

/// What a frame's colour says.
#[derive(Clone, Copy)]
enum Colour {
    Grey,
    /// In the code of a job.
    Warm,
    /// In the kernel and its services.
    Cold,
}

impl Colour {
    /// A function has one shade wherever it is.
    fn of(self, name: &str) -> String {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let shade = hasher.finish();
        let (hue, light) = (shade % 40, 62 + shade / 40 % 14);
        match self {
            Colour::Grey => format!("hsl(0,0%,{light}%)"),
            Colour::Warm => format!("hsl({},85%,{light}%)", 10 + hue),
            Colour::Cold => format!("hsl({},60%,{light}%)", 180 + hue),
        }
    }
}

/// A graph that is drawn.
struct Graph {
    text: String,
    all: u64,
    rate: u32,
    height: f64,
}

impl Graph {
    /// Draws a frame that begins at `x`, as the `row`th from the bottom, and what stands on it.
    fn draw(&mut self, name: &str, frame: &Frame<'_>, (x, row): (f64, u32), colour: Colour) {
        if !is_seen(frame.found, self.all) {
            return;
        }
        let share = frame.found as f64 / self.all as f64;
        let (width, y) = (share * WIDTH, self.height - MARGIN - f64::from(row) * HEIGHT);
        let (found, rate, percent) = (frame.found, self.rate, share * 100.0);
        let (fill, whole) = (colour.of(name), escaped(name));
        let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
        let label = escaped(&cut(name, room));
        // Writing to a string does not fail.
        let _ = writeln!(
            self.text,
            "<g><title>{whole} ({found} samples at {rate} Hz, {percent:.2}%)</title>\
             <rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{HEIGHT}\" \
             fill=\"{fill}\"/><text x=\"{:.2}\" y=\"{:.2}\">{label}</text></g>",
            x + 3.0,
            y + 12.5,
        );
        let mut x = x;
        for (name, above) in &frame.above {
            let colour = match *name {
                PACKAGE if row == 2 => Colour::Warm,
                KERNEL if row == 2 => Colour::Cold,
                _ => colour,
            };
            self.draw(name, above, (x, row + 1), colour);
            x += above.found as f64 / self.all as f64 * WIDTH;
        }
    }
}

/// As much of a name as there is room for, if that says anything.
fn cut(name: &str, room: usize) -> String {
    match name.char_indices().nth(room) {
        None => name.into(),
        Some(_) if room < 3 => String::new(),
        Some(_) => name.chars().take(room - 2).chain("..".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The title and the row, from the bottom, of each frame, with where it begins and ends.
    fn frames(graph: &str) -> Vec<(String, u32, f64, f64)> {
        let number = |line: &str, name: &str| -> f64 {
            let (_, rest) = line.split_once(&format!(" {name}=\"")).expect("it is there");
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let lines: Vec<&str> = graph.lines().filter(|it| it.starts_with("<g>")).collect();
        let lowest = lines.iter().map(|it| number(it, "y")).fold(0.0, f64::max);
        let frame = |line: &&str| {
            let title = line.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
            let row = ((lowest - number(line, "y")) / HEIGHT).round() as u32;
            let x = number(line, "x");
            (title.to_string(), row, x, x + number(line, "width"))
        };
        lines.iter().map(frame).collect()
    }

    const FOLDED: &str = "worker;package;<a as b>::c, d 30\n\
                          worker;package;<a as b>::c, d;e 10\n\
                          management;kernel;\"f\" & g 39\n\
                          management;kernel;h 1\n";

    #[test]
    fn a_frame_is_as_wide_as_it_was_often_and_stands_on_its_caller() {
        let graph = graph(FOLDED, "of <a> test", 97);
        let frames = frames(&graph);
        let titles: Vec<(&str, u32)> = frames.iter().map(|it| (it.0.as_str(), it.1)).collect();
        let expected = [
            ("all (80 samples at 97 Hz, 100.00%)", 0),
            ("management (40 samples at 97 Hz, 50.00%)", 1),
            ("kernel (40 samples at 97 Hz, 50.00%)", 2),
            ("&quot;f&quot; &amp; g (39 samples at 97 Hz, 48.75%)", 3),
            ("h (1 samples at 97 Hz, 1.25%)", 3),
            ("worker (40 samples at 97 Hz, 50.00%)", 1),
            ("package (40 samples at 97 Hz, 50.00%)", 2),
            ("&lt;a as b&gt;::c, d (40 samples at 97 Hz, 50.00%)", 3),
            ("e (10 samples at 97 Hz, 12.50%)", 4),
        ];
        assert_eq!(titles, expected);
        let places: Vec<(f64, f64)> = frames.iter().map(|it| (it.2, it.3)).collect();
        let (half, whole) = ((10.0, 610.0), (10.0, 1210.0));
        let right = (610.0, 1210.0);
        let expected =
            [whole, half, half, (10.0, 595.0), (595.0, 610.0), right, right, right, (610.0, 760.0)];
        assert_eq!(places, expected);
        assert!(graph.contains("of &lt;a&gt; test"));
    }

    #[test]
    fn it_is_one_file_that_says_the_same_again() {
        let text = graph(FOLDED, "t", 97);
        assert!(text.starts_with("<?xml") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<g>").count(), text.matches("</g>").count());
        assert_eq!(text.matches("http").count(), 1, "it fetches nothing");
        assert_eq!(text, graph(FOLDED, "t", 97));
    }

    #[test]
    fn what_is_too_narrow_is_left_out_and_what_is_deep_is_not() {
        let deep: Vec<String> = (0..200).map(|at| format!("f{at}")).collect();
        let folded = format!("worker;package;{} 1998\nworker;package;rare 1\n", deep.join(";"));
        let frames = frames(&graph(&folded, "", 1));
        assert_eq!(frames.len(), 3 + 200);
        assert_eq!(frames.iter().map(|it| it.1).max(), Some(202));
    }

    #[test]
    fn nothing_is_a_graph_of_nothing() {
        for folded in ["", "worker 0\n", "\n", "worker many\n"] {
            let graph = graph(folded, "", 1);
            assert!(graph.ends_with("</svg>\n") && !graph.contains("<g>"), "{graph}");
        }
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!([cut("main", 4), cut("main", 3), cut("main", 2)], ["main", "m..", ""]);
        assert_eq!(cut("ééééé", 4), "éé..");
    }
}
