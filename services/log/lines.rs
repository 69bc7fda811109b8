//! The last lines of the log: a bounded number of bounded lines.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use nile_interfaces::log::Line;

/// Lines that are kept.
pub const KEPT: usize = 256;

/// Bytes of a line's text, at most.
const LINE_BYTES: usize = 1024;

/// Bytes of the texts of one reply, at most: with all else it fits a message.
const REPLY_BYTES: usize = 48 * 1024;

/// The lines that are kept.
#[derive(Default)]
pub struct Lines {
    kept: VecDeque<Line>,
    written: u64,
}

impl Lines {
    /// Keeps a line, and gives it its number.
    pub fn push(&mut self, line: Line) -> u64 {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.written += 1;
        self.kept.push_back(Line { number: self.written, ..line });
        self.written
    }

    /// The last `count` lines, or as many of them as fit a reply.
    pub fn tail(&self, count: usize) -> Vec<Line> {
        let mut room = REPLY_BYTES;
        let newest = self.kept.iter().rev().take(count);
        let fit = newest.take_while(|line| {
            let fits = line.text.len() <= room;
            room = room.saturating_sub(line.text.len());
            fits
        });
        let mut lines: Vec<Line> = fit.cloned().collect();
        lines.reverse();
        lines
    }
}

/// A text on one line that cannot disturb a terminal, cut to the most bytes of a line.
pub fn printable(text: &str) -> String {
    let mut line = String::new();
    for letter in text.chars() {
        let letter = if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
        if line.len() + letter.len_utf8() > LINE_BYTES {
            break;
        }
        line.push(letter);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { number: 0, nanos: 1, core: 2, from_package: false, text: text.into() }
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut lines = Lines::default();
        for number in 1..=KEPT as u64 + 10 {
            assert_eq!(lines.push(line("x")), number);
        }
        let numbers = |count| lines.tail(count).iter().map(|it| it.number).collect::<Vec<_>>();
        assert_eq!(numbers(2), [KEPT as u64 + 9, KEPT as u64 + 10]);
        assert_eq!(numbers(usize::MAX).len(), KEPT);
        assert_eq!(numbers(usize::MAX)[0], 11);
        assert!(numbers(0).is_empty());
    }

    #[test]
    fn a_reply_is_as_long_as_fits() {
        let mut lines = Lines::default();
        for _ in 0..KEPT {
            lines.push(line(&"y".repeat(LINE_BYTES)));
        }
        let tail = lines.tail(KEPT);
        assert_eq!(tail.len(), REPLY_BYTES / LINE_BYTES);
        assert_eq!(tail.last().map(|it| it.number), Some(KEPT as u64));
        // Every byte of them: number, time, core, flag, and a text with its length.
        let encoded: usize = tail.iter().map(|it| it.text.len() + 8 + 8 + 2 + 1 + 4).sum();
        assert!(encoded + 4 <= nile_bosml::MAX_MESSAGE);
        let short = 24 * KEPT;
        assert!(REPLY_BYTES + short <= nile_bosml::MAX_MESSAGE);
    }

    #[test]
    fn a_line_is_one_line_and_not_too_long() {
        assert_eq!(printable("a\nb\u{1b}[2J"), "a\u{fffd}b\u{fffd}[2J");
        assert_eq!(printable("ünï").as_str(), "ünï");
        let long = printable(&"ü".repeat(LINE_BYTES));
        assert_eq!(long.len(), LINE_BYTES);
        assert!(printable(&"\n".repeat(LINE_BYTES)).len() <= LINE_BYTES);
    }
}
