//! What a machine says on one stream: log lines and the report. The report is one line that
//! starts with the byte 0x1E and holds one JSON document (RFC 7464); all else is log. Firmware
//! shares a serial line with the kernel, so any bytes at all may come.

const REPORT_MARK: u8 = 0x1e;
const LONGEST_LINE: usize = 8 << 10;
const LONGEST_REPORT: usize = 4 << 20;

/// One thing that a machine said.
#[derive(PartialEq, Eq, Debug)]
pub enum Said {
    /// A line of its log, fit for a terminal.
    Line(String),
    /// The report, as it was sent. One that is longer than 4 MiB is cut off there.
    Report(String),
}

/// Cuts a stream of bytes into what was said.
#[derive(Default)]
pub struct Splitter {
    pending: Vec<u8>,
    in_report: bool,
}

impl Splitter {
    /// Takes the next bytes and gives what they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut said = Vec::new();
        for &byte in bytes {
            match byte {
                REPORT_MARK => {
                    said.extend(self.finish());
                    self.in_report = true;
                }
                b'\n' => said.push(self.end_of_line()),
                _ if self.in_report && self.pending.len() >= LONGEST_REPORT => {}
                _ => self.pending.push(byte),
            }
            if !self.in_report && self.pending.len() >= LONGEST_LINE {
                said.push(self.end_of_line());
            }
        }
        said
    }

    /// Gives what the stream's end leaves without its end of line.
    pub fn finish(&mut self) -> Option<Said> {
        match self.pending.is_empty() && !self.in_report {
            true => None,
            false => Some(self.end_of_line()),
        }
    }

    fn end_of_line(&mut self) -> Said {
        let bytes = std::mem::take(&mut self.pending);
        let text = String::from_utf8_lossy(&bytes);
        match std::mem::take(&mut self.in_report) {
            true => Said::Report(text.trim_end().into()),
            false => Said::Line(printable(&text)),
        }
    }
}

/// The text without what would move a terminal's cursor or change its colours.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.trim_end().chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => skip_escape(&mut chars),
            '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Skips the rest of an escape sequence: one character, or `[`, parameters and a letter.
fn skip_escape(chars: &mut impl Iterator<Item = char>) {
    if chars.next() == Some('[') {
        chars.find(|c| ('@'..='~').contains(c));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<Said> {
        let mut splitter = Splitter::default();
        let mut said: Vec<Said> = chunks.iter().flat_map(|bytes| splitter.feed(bytes)).collect();
        said.extend(splitter.finish());
        said
    }

    fn line(text: &str) -> Said {
        Said::Line(text.into())
    }

    #[test]
    fn lines_and_report_are_told_apart_wherever_the_chunks_end() {
        let stream = b"one\r\ntwo\x1e{\"a\":1}\r\nthree";
        let expected = [line("one"), line("two"), Said::Report("{\"a\":1}".into()), line("three")];
        for cut in 0..stream.len() {
            assert_eq!(split(&[&stream[..cut], &stream[cut..]]), expected);
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let clear = b"\x1b[2J\x1b[01;01HBdsDxe: \x1b[1;37mloading\x07\x08 it\x1bc\tnow\xff";
        assert_eq!(split(&[clear]), [line("BdsDxe: loading it\tnow\u{fffd}")]);
        assert_eq!(split(&[b"\x1b["]), [line("")]);
    }

    #[test]
    fn an_endless_line_is_cut_and_an_endless_report_bounded() {
        let flood = vec![b'x'; LONGEST_LINE + 1];
        assert_eq!(split(&[&flood]), [line(&"x".repeat(LONGEST_LINE)), line("x")]);
        let mut flood = vec![b'1'; LONGEST_REPORT + 9];
        flood[0] = REPORT_MARK;
        let [Said::Report(report)] = &split(&[&flood])[..] else { panic!("one report") };
        assert_eq!(report.len(), LONGEST_REPORT);
    }
}
