//! A package that sends packets and messages over memory that domains share, and says how long
//! packets took (RainForest 5.4 and 5.2: RFcom and FICM).
//!
//! ```text
//! nile domain share rf --memory 2M --with web,batch
//! nile package start rf --on batch.c1 --argument "echo 0"
//! nile package start rf --on web.c1 --argument "ping 0 100000 64"
//! ```
//!
//! `ping PORT PACKETS BYTES` has each packet sent back by an `echo PORT`; `send PORT MIB` sends
//! packets to a `take PORT`, which counts them. Each ends with the other. `say TEXT` sends a
//! message to the packages of all other domains, and `hear MESSAGES [TEXT]` logs what they say.
//! `flood MESSAGES MEMBERS` sends so many numbers to so many packages, of which those of `drain
//! MESSAGES` take all, each once and in its order, and those of `deaf` none.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod messages;

use alloc::vec;
use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{Instant, Status};
use nile_rfcom::{Channel, MOST_PACKET, Post, ReadError, Rfcom, WriteError};
use nile_ring::{Message, PAYLOAD_BYTES};
use nile_user::{Runtime, SEATS_OF_DOMAIN, log};

use messages::{Member, TEXT};

/// Ports, in the first half of the region.
pub const PORTS: usize = 4;

/// Members, in the second: a package of each domain, by its place, or in a region of one node of
/// each core.
pub const MEMBERS: usize = 16;

/// The exit code if the argument is none, or the region too small.
pub const WRONG: u64 = 1;
/// That if the port is taken, or the other end has gone too early, or writes nonsense.
pub const LOST: u64 = 2;
/// That if a packet came back as another one.
pub const OTHER: u64 = 3;
/// That if the region was refused, plus the status.
pub const REFUSED: u64 = 1000;

/// Looks for a packet before the package sleeps between two of them, and how long that is.
const LOOKS: u32 = 4_000;
const SLEEP: Duration = Duration::from_micros(100);

/// Bytes of a packet of `send`.
const LARGE: usize = 32 << 10;

/// What the package is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Echo,
    Take,
    Ping { packets: u64, bytes: usize },
    Send { bytes: u64 },
    Say(Message),
    Hear { messages: u64, text: Option<Message> },
    Drain { messages: u64 },
    Deaf,
    Flood { messages: u64, members: usize },
}

impl Act {
    /// The port, if that matters, and what to do.
    fn parse(argument: &[u8]) -> Option<(usize, Act)> {
        let text = core::str::from_utf8(argument).ok()?.trim();
        let said = |text: &str| Message::new(TEXT, text.as_bytes()).ok();
        if let Some(text) = text.strip_prefix("say ") {
            return Some((0, Act::Say(said(text)?)));
        }
        if let Some(rest) = text.strip_prefix("hear ") {
            let (count, text) =
                rest.split_once(' ').map_or((rest, None), |(it, text)| (it, Some(text)));
            let text = match text {
                Some(text) => Some(said(text)?),
                None => None,
            };
            return Some((0, Act::Hear { messages: count.parse().ok()?, text }));
        }
        if text == "deaf" {
            return Some((0, Act::Deaf));
        }
        let mut words = text.split_ascii_whitespace();
        let act = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let messages = number()?;
        let port = messages as usize;
        let act = match act {
            "drain" => return words.next().is_none().then_some((0, Act::Drain { messages })),
            "flood" => {
                let members = number().filter(|members| *members < MEMBERS as u64)? as usize;
                return words.next().is_none().then_some((0, Act::Flood { messages, members }));
            }
            "echo" => Act::Echo,
            "take" => Act::Take,
            "ping" => {
                let (packets, bytes) = (number()?, number()? as usize);
                (bytes <= MOST_PACKET && packets > 0).then_some(Act::Ping { packets, bytes })?
            }
            "send" => Act::Send { bytes: number().filter(|mib| *mib > 0)?.checked_mul(1 << 20)? },
            _ => return None,
        };
        words.next().is_none().then_some((port, act))
    }
}

/// Does what the argument says, and logs how long it took; zero if all came as it was sent.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some((port, act)) = Act::parse(argument) else {
        let _ = log!(
            system,
            "the argument is `echo PORT`, `take PORT`, `ping PORT PACKETS BYTES`, `send PORT MIB`, \
             `hear MESSAGES [TEXT]`, `drain MESSAGES`, `deaf`, `flood MESSAGES MEMBERS`, or `say` \
             and at most {PAYLOAD_BYTES} bytes of text"
        );
        return WRONG;
    };
    let runtime = Runtime::new(system);
    let shared = match runtime.region("rf") {
        Ok(shared) => shared,
        Err(status) => {
            let _ = log!(system, "the region rf: {status}");
            return REFUSED + u64::from(status.code());
        }
    };
    let half = shared.region().len() / 2;
    let part = |at: usize| shared.region().slice(at, half);
    let rfcom = part(0).and_then(|part| Rfcom::attach(part, PORTS, shared.seat()));
    let own = match shared.is_shared() {
        true => shared.first_seat() / SEATS_OF_DOMAIN,
        false => shared.core().0,
    };
    let post = part(half).and_then(|part| Post::attach(&part, MEMBERS, own.into()));
    let (Some(rfcom), Some(post)) = (rfcom, post) else {
        let _ = log!(system, "the region rf is too small, or there are more than {MEMBERS} of us");
        return WRONG;
    };
    let mut member = Member { system, runtime: &runtime, post };
    if let Some(code) = member.act(act) {
        return code;
    }
    let channel = match rfcom.open(port) {
        Ok(channel) => channel,
        Err(error) => {
            let _ = log!(system, "port {port}: {error}");
            return LOST;
        }
    };
    let ends = Ends { system, runtime: &runtime, channel };
    let done = match act {
        Act::Echo => ends.echo(),
        Act::Take => ends.take(),
        Act::Ping { packets, bytes } => ends.ping(packets, bytes),
        Act::Send { bytes } => ends.send(bytes),
        _ => Err(WRONG),
    };
    done.err().unwrap_or_default()
}

fn now(system: &dyn System) -> Result<Instant, u64> {
    let now = system.call(SystemCall::Now, 0, &[], &mut []).result();
    now.map(Instant::from_nanos).map_err(|_: Status| LOST)
}

/// What `look` gives, once it gives anything: at first the core polls, and then it sleeps between
/// two looks.
fn wait<T>(
    system: &dyn System,
    runtime: &Runtime<'_>,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, u64> {
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return Ok(found);
            }
            core::hint::spin_loop();
        }
        runtime.sleep_until(now(system)? + SLEEP);
    }
}

/// One end of the channel, and what it waits by.
struct Ends<'a, 's> {
    system: &'s dyn System,
    runtime: &'a Runtime<'s>,
    channel: Channel,
}

impl Ends<'_, '_> {
    fn now(&self) -> Result<Instant, u64> {
        now(self.system)
    }

    fn wait<T>(&self, look: impl FnMut() -> Option<T>) -> Result<T, u64> {
        wait(self.system, self.runtime, look)
    }

    fn write(&self, packet: &[u8]) -> Result<(), WriteError> {
        let written = self.wait(|| match self.channel.write(packet) {
            Err(WriteError::Full) => None,
            written => Some(written),
        });
        written.unwrap_or(Err(WriteError::Closed))
    }

    /// The next packet's length; `None` when the other end has closed.
    fn read(&self, into: &mut [u8]) -> Result<Option<usize>, u64> {
        self.wait(|| match self.channel.read(into) {
            Ok(length) => Some(Ok(Some(length))),
            Err(ReadError::Empty) => None,
            Err(ReadError::Closed) => Some(Ok(None)),
            Err(_) => Some(Err(LOST)),
        })?
    }

    /// Sends back what comes.
    fn echo(&self) -> Result<(), u64> {
        let (mut packet, mut count) = (vec![0; MOST_PACKET], 0_u64);
        while let Some(length) = self.read(&mut packet)? {
            count += 1;
            // Who has gone does not want it.
            if self.write(&packet[..length]).is_err() {
                break;
            }
        }
        let _ = log!(self.system, "{count} packets were sent back");
        Ok(())
    }

    /// Counts what comes.
    fn take(&self) -> Result<(), u64> {
        let mut packet = vec![0; MOST_PACKET];
        let (mut count, mut bytes) = (0_u64, 0_u64);
        while let Some(length) = self.read(&mut packet)? {
            if packet[..length].iter().any(|byte| *byte != count as u8) {
                let _ = log!(self.system, "packet {count} is not what was sent");
                return Err(OTHER);
            }
            (count, bytes) = (count + 1, bytes + length as u64);
            // The first one is answered: now both are there.
            if count == 1 {
                self.write(&[]).map_err(|_| LOST)?;
            }
        }
        let _ = log!(self.system, "{count} packets came, {bytes} bytes");
        Ok(())
    }

    fn ping(&self, packets: u64, bytes: usize) -> Result<(), u64> {
        let mut back = vec![0; MOST_PACKET];
        // The first one is there when the other end is.
        self.there_and_back(0, bytes, &mut back)?;
        let begun = self.now()?;
        for number in 1..=packets {
            self.there_and_back(number, bytes, &mut back)?;
        }
        let took = self.now()?.since(begun).as_nanos() as u64 / packets;
        let _ =
            log!(self.system, "{packets} packets of {bytes} bytes there and back: {took} ns each");
        Ok(())
    }

    fn there_and_back(&self, number: u64, bytes: usize, back: &mut [u8]) -> Result<(), u64> {
        let packet = vec![number as u8; bytes];
        self.write(&packet).map_err(|_| LOST)?;
        let length = self.read(back)?.ok_or(LOST)?;
        if back[..length] == packet[..] { Ok(()) } else { Err(OTHER) }
    }

    fn send(&self, bytes: u64) -> Result<(), u64> {
        let mut packet = vec![0; LARGE];
        self.write(&packet).map_err(|_| LOST)?;
        self.read(&mut [])?.ok_or(LOST)?;
        let begun = self.now()?;
        for number in 1..=bytes / LARGE as u64 {
            packet.fill(number as u8);
            self.write(&packet).map_err(|_| LOST)?;
        }
        let took = self.now()?.since(begun);
        let speed = bytes as f64 / took.as_secs_f64().max(1e-9) / 1e6;
        let _ = log!(self.system, "{bytes} bytes in packets of {LARGE}: {speed:.0} MB/s");
        Ok(())
    }
}

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parse = |text: &str| Act::parse(text.as_bytes());
        assert_eq!(parse("echo 0"), Some((0, Act::Echo)));
        assert_eq!(parse("ping 3 10 64"), Some((3, Act::Ping { packets: 10, bytes: 64 })));
        assert_eq!(parse("send 1 4"), Some((1, Act::Send { bytes: 4 << 20 })));
        assert_eq!(parse("hear 3"), Some((0, Act::Hear { messages: 3, text: None })));
        let said = Message::new(0, b"two words").unwrap();
        let heard = Act::Hear { messages: 1, text: Some(said) };
        assert_eq!(parse("hear 1 two words"), Some((0, heard)));
        assert_eq!(parse("flood 9 2").unwrap().1, Act::Flood { messages: 9, members: 2 });
        assert_eq!(parse("say two words"), Some((0, Act::Say(said))));
        assert_eq!(parse(&std::format!("say {}", "x".repeat(57))), None);
        for wrong in ["", "echo", "echo x", "echo 0 1", "ping 0 1", "ping 0 0 1", "send 0 0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse("ping 0 1 65537"), None);
    }
}
