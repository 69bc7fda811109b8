//! Scripts as text (docs/network.md): what a peer puts on the wire, what a host is to answer, and
//! what the host's program does, a step a line.

use std::time::Duration;

/// Flags of a segment that scripts speak of. What is pushed, and congestion, they do not.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Flags {
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
    pub urg: bool,
}

/// A window that is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    Is(u16),
    /// Any but zero.
    Some,
}

/// A segment. Numbers count from the initial one of who sends it. What is not said of one that goes
/// in follows from what was said before; what is not said of one that comes out must follow so.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    pub flags: Flags,
    pub seq: Option<i64>,
    pub ack: Option<i64>,
    pub len: Option<usize>,
    pub window: Option<Window>,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sackok: bool,
    /// Blocks that are acknowledged beside the rest.
    pub sack: Option<(i64, i64)>,
    pub time: Option<(u32, u32)>,
    /// Where the urgent data ends.
    pub urgent: u16,
    /// Options as they stand in the header.
    pub raw: Vec<u8>,
    /// Its bytes are others than those of the stream.
    pub other: bool,
    /// Its checksum is wrong.
    pub bad: bool,
    /// What the header says of its own length, in words.
    pub header: Option<u8>,
    /// Options that a segment that comes out does not have.
    pub without: bool,
}

/// An error that somebody reports of the host's last segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    NoHost,
    NoPort,
    /// It lives for too few hops.
    TimeOver,
}

/// What a program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Listen,
    Unlisten,
    Connect,
    Connected,
    Refused,
    Accept,
    Send(usize),
    /// Reads so many bytes; all that the peer has sent, if that is not said.
    Read(Option<usize>),
    ReadEnd,
    ReadReset,
    Shut,
    Close,
    Abort,
    KeepAlive,
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Call(Call),
    In(Segment),
    Icmp(Error),
    Out(Segment),
    /// Nothing comes out for so long.
    Quiet(Duration),
    /// Whatever comes is taken until nothing does.
    Settle,
    Wait(Duration),
    /// The peer takes and acknowledges so many more bytes, however they come.
    Take(usize),
    /// The peer sends until the host has no room.
    Fill,
    /// The oldest segment comes again.
    Again,
    /// So it does, after longer than the last time.
    Later,
    /// The host asks whether the peer is there, or has room.
    Probe,
}

/// A line that is a step.
pub struct Line {
    pub number: usize,
    pub within: Option<Duration>,
    pub step: Step,
}

pub struct Script {
    pub name: String,
    /// Why our stack does not do so.
    pub differs: Option<String>,
    pub lines: Vec<Line>,
}

impl Script {
    pub fn parse(name: &str, text: &str) -> Result<Script, String> {
        let mut script = Script { name: name.into(), differs: None, lines: Vec::new() };
        for (number, line) in (1..).zip(text.lines()) {
            let said = line.split('#').next().unwrap_or_default().trim();
            if let Some(reason) = said.strip_prefix("differs:") {
                script.differs = Some(reason.trim().into());
            } else if !said.is_empty() {
                let mut words = Words(said.split_whitespace());
                let line = words.line(number);
                script.lines.push(line.ok_or(format!("{name}:{number}: `{said}` is no step"))?);
            }
        }
        Ok(script)
    }
}

struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn line(&mut self, number: usize) -> Option<Line> {
        let mut word = self.0.next()?;
        let mut within = None;
        if word == "within" {
            within = Some(self.span()?);
            word = self.0.next()?;
        }
        let step = self.step(word)?;
        self.0.next().is_none().then_some(Line { number, within, step })
    }

    fn step(&mut self, word: &str) -> Option<Step> {
        let call = match word {
            "listen" => Call::Listen,
            "unlisten" => Call::Unlisten,
            "connect" => Call::Connect,
            "connected" => Call::Connected,
            "refused" => Call::Refused,
            "accept" => Call::Accept,
            "send" => Call::Send(self.number()?),
            "read" => match self.0.next()? {
                "end" => Call::ReadEnd,
                "reset" => Call::ReadReset,
                "all" => Call::Read(None),
                count => Call::Read(Some(count.parse().ok()?)),
            },
            "shut" => Call::Shut,
            "close" => Call::Close,
            "abort" => Call::Abort,
            "keep-alive" => Call::KeepAlive,
            _ => return self.wire(word),
        };
        Some(Step::Call(call))
    }

    fn wire(&mut self, word: &str) -> Option<Step> {
        Some(match word {
            "in" => Step::In(self.segment()?),
            "out" => Step::Out(self.segment()?),
            "icmp" => Step::Icmp(match self.0.next()? {
                "no-host" => Error::NoHost,
                "no-port" => Error::NoPort,
                "time-over" => Error::TimeOver,
                _ => return None,
            }),
            "quiet" => Step::Quiet(self.span()?),
            "wait" => Step::Wait(self.span()?),
            "settle" => Step::Settle,
            "take" => Step::Take(self.number()?),
            "fill" => Step::Fill,
            "again" => Step::Again,
            "later" => Step::Later,
            "probe" => Step::Probe,
            _ => return None,
        })
    }

    fn segment(&mut self) -> Option<Segment> {
        let mut it = Segment::default();
        while let Some(word) = self.0.next() {
            match word {
                "syn" => it.flags.syn = true,
                "ack" if !it.flags.ack => it.flags.ack = true,
                "fin" => it.flags.fin = true,
                "rst" => it.flags.rst = true,
                "urg" => it.flags.urg = true,
                "none" => {}
                "seq" => it.seq = Some(self.number()?),
                "ack" => it.ack = Some(self.number()?),
                "len" => it.len = Some(self.number()?),
                "win" => {
                    it.window = Some(match self.0.next()? {
                        "some" => Window::Some,
                        window => Window::Is(window.parse().ok()?),
                    });
                }
                "mss" => it.mss = Some(self.number()?),
                "scale" => it.scale = Some(self.number()?),
                "sackok" => it.sackok = true,
                "sack" => it.sack = Some((self.number()?, self.number()?)),
                "time" => it.time = Some((self.number()?, self.number()?)),
                "urgent" => it.urgent = self.number()?,
                "raw" => it.raw = hex(self.0.next()?)?,
                "other" => it.other = true,
                "bad" => it.bad = true,
                "header" => it.header = Some(self.number()?),
                "plain" => it.without = true,
                _ => return None,
            }
        }
        Some(it)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    /// A time, such as 200ms or 3s.
    fn span(&mut self) -> Option<Duration> {
        let word = self.0.next()?;
        match word.strip_suffix("ms") {
            Some(millis) => Some(Duration::from_millis(millis.parse().ok()?)),
            None => Some(Duration::from_secs(word.strip_suffix('s')?.parse().ok()?)),
        }
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}
