//! Plays a script: the peer's part of the conversation, and what the host must do.

use std::time::Duration;

use crate::packet::{Came, Ends, byte_at, emit, report};
use crate::script::{Call, Line, Script, Segment, Step, Window};

/// A host under test. Its packets are those of one conversation.
pub trait Host {
    /// Who speaks.
    fn ends(&self) -> Ends;
    /// The time since some moment.
    fn now(&self) -> Duration;
    /// Gives it a packet.
    fn give(&mut self, packet: &[u8]);
    /// Its next packet, if one comes within this time.
    fn next(&mut self, within: Duration) -> Option<Vec<u8>>;
    /// Has its program do something; bytes that it sends and reads are those of [`byte_at`].
    fn call(&mut self, call: Call) -> Result<(), String>;
}

/// How long an answer may take, what is sent again, and how long it is silent once it has settled.
const SOON: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(5);
const SETTLES: Duration = Duration::from_millis(120);

/// The peer's initial number: streams wrap soon.
const INITIAL: u32 = 0xffff_ff00;

/// A bound on packets that one step takes.
const MOST: usize = 2000;

struct Player<'h, H> {
    host: &'h mut H,
    /// The host's initial number.
    base: u32,
    /// Numbers from there: the host's next one, the oldest that the peer has not acknowledged; the
    /// peer's next one.
    host_next: i64,
    host_oldest: i64,
    peer_next: i64,
    /// Up to where the peer may send, and by how much the host's windows are shifted.
    edge: i64,
    scale: u8,
    offered_scale: bool,
    /// Where the host's last acknowledgement was, and its window.
    said: Option<(i64, u16)>,
    last: Option<Vec<u8>>,
    /// When something came last, and how long before that.
    came: Duration,
    interval: Duration,
}

/// Plays all of it; what is wrong, and where.
pub fn play<H: Host>(script: &Script, host: &mut H) -> Result<(), String> {
    let mut player = Player {
        host,
        base: 0,
        host_next: 0,
        host_oldest: 0,
        peer_next: 0,
        edge: 0,
        scale: 0,
        offered_scale: false,
        said: None,
        last: None,
        came: Duration::ZERO,
        interval: Duration::ZERO,
    };
    for line in &script.lines {
        let place = |what| format!("{}:{}: {what}", script.name, line.number);
        player.step(line).map_err(place)?;
    }
    Ok(())
}

impl<H: Host> Player<'_, H> {
    fn step(&mut self, line: &Line) -> Result<(), String> {
        let within = |usual| line.within.unwrap_or(usual);
        match &line.step {
            Step::Call(Call::Read(None)) => {
                // What comes behind the SYN.
                self.host.call(Call::Read(Some((self.peer_next - 1) as usize)))
            }
            Step::Call(call) => self.host.call(*call),
            Step::In(segment) => {
                self.say(segment);
                Ok(())
            }
            Step::Icmp(error) => {
                let last = self.last.as_ref().ok_or("nothing to report of")?;
                let ends = self.host.ends();
                let packet = report(&ends, *error, last).ok_or("no report")?;
                self.host.give(&packet);
                Ok(())
            }
            Step::Out(segment) => self.hear(segment, within(SOON)),
            Step::Quiet(span) => self.quiet(*span),
            Step::Settle => {
                for _ in 0..MOST {
                    if self.next(SETTLES)?.is_none() {
                        return Ok(());
                    }
                }
                Err("it does not settle".into())
            }
            Step::Wait(span) => {
                let until = self.host.now() + *span;
                while let Some(left) = until.checked_sub(self.host.now()).filter(|it| !it.is_zero())
                {
                    self.next(left)?;
                }
                Ok(())
            }
            Step::Take(count) => self.take(*count as i64, within(PATIENT)),
            Step::Fill => self.fill(),
            Step::Again => self.again(within(PATIENT), false),
            Step::Later => self.again(within(3 * PATIENT), true),
            Step::Probe => self.probe(within(PATIENT)),
        }
    }

    /// Sends a segment of the peer's.
    fn say(&mut self, it: &Segment) {
        let len = it.len.unwrap_or(0);
        let takes = len as i64 + i64::from(it.flags.syn) + i64::from(it.flags.fin);
        let begins = it.flags.syn && self.peer_next == 0;
        let seq = it.seq.unwrap_or(if it.flags.syn { 0 } else { self.peer_next });
        if (it.seq.is_none() || begins) && !it.bad {
            self.peer_next = seq + takes;
        }
        if it.flags.syn {
            self.offered_scale = it.scale.is_some();
        }
        let ack = match it.flags.ack {
            true => it.ack.unwrap_or(self.host_next),
            false => i64::from(0u32.wrapping_sub(self.base)),
        };
        if it.flags.ack && it.ack.is_none_or(|ack| ack <= self.host_next) {
            self.host_oldest = self.host_oldest.max(ack);
        }
        // The first byte stands behind the SYN.
        let first = seq + i64::from(it.flags.syn) - 1;
        let flip = if it.other { 0xff } else { 0 };
        let payload: Vec<u8> = (first..first + len as i64).map(|at| byte_at(at) ^ flip).collect();
        let numbers = (INITIAL.wrapping_add(seq as u32), self.base.wrapping_add(ack as u32));
        let packet = emit(&self.host.ends(), it, numbers, &payload);
        self.host.give(&packet);
    }

    /// What comes next, with its numbers from the host's initial one and from the peer's.
    fn next(&mut self, within: Duration) -> Result<Option<(Came, i64, i64)>, String> {
        let Some(packet) = self.host.next(within) else { return Ok(None) };
        let came = Came::parse(&packet)?;
        self.last = Some(packet);
        let now = self.host.now();
        self.interval = now.saturating_sub(self.came);
        self.came = now;
        if came.flags.syn {
            let is_other = self.base != came.seq;
            self.base = came.seq;
            if is_other {
                (self.host_next, self.host_oldest) = (0, 0);
            }
            self.scale = came.scale.filter(|_| self.offered_scale || !came.flags.ack).unwrap_or(0);
        }
        let far =
            |number: u32, near: i64| near + i64::from(number.wrapping_sub(near as u32) as i32);
        let seq = far(came.seq.wrapping_sub(self.base), self.host_next);
        let ack = far(came.ack.wrapping_sub(INITIAL), self.peer_next);
        if came.flags.ack && !came.flags.rst {
            let shift = if came.flags.syn { 0 } else { self.scale };
            self.edge = ack + (i64::from(came.window) << shift);
        }
        let first = seq + i64::from(came.flags.syn) - 1;
        let probes = came.payload.len() == 1 && seq < self.host_next;
        let right = (first..).zip(&came.payload).all(|(at, byte)| byte_at(at) == *byte);
        if !right && !probes {
            return Err(format!("bytes of {seq} on are not those that were sent"));
        }
        Ok(Some((came, seq, ack)))
    }

    /// Notes what has come.
    fn note(&mut self, came: &Came, seq: i64, ack: i64) {
        if !came.flags.rst {
            self.host_next = self.host_next.max(seq + i64::from(came.takes()));
            self.said = Some((ack, came.window));
        }
    }

    /// Whether an acknowledgement only says that there is more room.
    fn is_room(&self, came: &Came, ack: i64) -> bool {
        came.is_bare() && self.said.is_some_and(|(at, window)| at == ack && window < came.window)
    }

    /// This is what comes next. Acknowledgements of less before it do not count.
    fn hear(&mut self, it: &Segment, within: Duration) -> Result<(), String> {
        let until = self.host.now() + within;
        loop {
            let left = until.saturating_sub(self.host.now());
            let Some((came, seq, ack)) = self.next(left)? else {
                return Err(format!("nothing comes, but {it:?} is to"));
            };
            let wrong = self.compare(it, &came, seq, ack);
            let wanted = it.ack.unwrap_or(self.peer_next);
            let is_early = came.is_bare() && ack < wanted && it.flags.ack;
            match wrong {
                None => {
                    self.note(&came, seq, ack);
                    return Ok(());
                }
                Some(_) if is_early || self.is_room(&came, ack) => self.note(&came, seq, ack),
                Some(what) => return Err(format!("{what}: seq {seq} ack {ack} {came:?}")),
            }
        }
    }

    /// What is wrong with a segment that came.
    fn compare(&self, it: &Segment, came: &Came, seq: i64, ack: i64) -> Option<&'static str> {
        let wanted = it.seq.unwrap_or(if it.flags.syn { 0 } else { self.host_next });
        let seq_matters = it.seq.is_some() || !it.flags.rst;
        let sack = came.sack.map(|(from, to)| {
            let of = |number: u32| i64::from(number.wrapping_sub(INITIAL) as i32);
            (of(from), of(to))
        });
        let has_options = came.scale.is_some() || came.sackok || came.has_time;
        let checks = [
            (it.flags == came.flags, "other flags"),
            (!seq_matters || wanted == seq, "another number"),
            (!it.flags.ack || it.ack.unwrap_or(self.peer_next) == ack, "acknowledges another one"),
            (it.len.unwrap_or(0) == came.payload.len(), "another length"),
            (it.mss.is_none() || it.mss == came.mss, "another largest segment"),
            (it.scale.is_none() || came.scale.is_some(), "it does not shift"),
            (!it.sackok || came.sackok, "it acknowledges no blocks"),
            (it.sack.is_none() || it.sack == sack, "other blocks"),
            (it.time.is_none() || came.has_time, "it does not say the time"),
            (!it.without || !has_options, "it has options"),
            (
                match it.window {
                    None => true,
                    Some(Window::Is(window)) => window == came.window,
                    Some(Window::Some) => came.window > 0,
                },
                "another window",
            ),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|it| it.1)
    }

    fn quiet(&mut self, span: Duration) -> Result<(), String> {
        let until = self.host.now() + span;
        while let Some(left) = until.checked_sub(self.host.now()).filter(|it| !it.is_zero()) {
            match self.next(left)? {
                None => {}
                Some((came, seq, ack)) if self.is_room(&came, ack) => self.note(&came, seq, ack),
                Some((came, seq, ack)) => {
                    return Err(format!("seq {seq} ack {ack} {came:?} comes"));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, count: i64, within: Duration) -> Result<(), String> {
        let to = self.host_oldest.max(1) + count;
        let until = self.host.now() + within;
        while self.host_oldest < to {
            let left = until.saturating_sub(self.host.now());
            let Some((came, seq, ack)) = self.next(left)? else {
                return Err(format!("it sends no more than {} of {to}", self.host_oldest));
            };
            if came.flags.rst || came.flags.syn {
                return Err(format!("not what is to be taken: {came:?}"));
            }
            let end = seq + i64::from(came.takes());
            self.note(&came, seq, ack);
            if !came.payload.is_empty() {
                if seq <= self.host_oldest && end > self.host_oldest {
                    self.host_oldest = end;
                }
                let ack = Some(self.host_oldest);
                let mut it = Segment { ack, ..Segment::default() };
                it.flags.ack = true;
                self.say(&it);
            }
        }
        if self.host_oldest == to { Ok(()) } else { Err("it sends more than that".into()) }
    }

    fn fill(&mut self) -> Result<(), String> {
        for _ in 0..MOST {
            while self.edge > self.peer_next {
                let len = Some((self.edge - self.peer_next).min(536) as usize);
                let mut it = Segment { len, ..Segment::default() };
                it.flags.ack = true;
                self.say(&it);
            }
            let Some((came, seq, ack)) = self.next(SOON)? else {
                return Err("it does not say that it has no room".into());
            };
            self.note(&came, seq, ack);
            if came.window == 0 && ack == self.peer_next {
                return Ok(());
            }
        }
        Err("it always has room".into())
    }

    fn again(&mut self, within: Duration, is_later: bool) -> Result<(), String> {
        let before = self.interval;
        let Some((came, seq, _)) = self.next(within)? else {
            return Err("nothing comes again".into());
        };
        if seq != self.host_oldest || came.takes() == 0 {
            return Err(format!("seq {seq} is not {}: {came:?}", self.host_oldest));
        }
        let interval = self.interval;
        match is_later && interval < before * 3 / 2 {
            true => Err(format!("it comes after {interval:?}, and came after {before:?}")),
            false => Ok(()),
        }
    }

    fn probe(&mut self, within: Duration) -> Result<(), String> {
        let Some((came, seq, ack)) = self.next(within)? else { return Err("no probe".into()) };
        let is_near = (self.host_next - 1..=self.host_next).contains(&seq);
        let is_probe = came.flags.ack && !came.flags.rst && came.payload.len() <= 1 && is_near;
        match is_probe && ack == self.peer_next {
            true => Ok(()),
            false => Err(format!("seq {seq} ack {ack} {came:?} is no probe")),
        }
    }
}
