//! A package that sends packets over memory that domains share, and says how long they took
//! (RainForest 5.4: RFcom).
//!
//! ```text
//! nile domain share rf --memory 2M --with web,batch
//! nile package start rf --on batch.c1 --argument "echo 0"
//! nile package start rf --on web.c1 --argument "ping 0 100000 64"
//! ```
//!
//! `ping PORT PACKETS BYTES` has each packet sent back by an `echo PORT`; `send PORT MIB` sends
//! packets to a `take PORT`, which counts them. Each ends with the other.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{Instant, Status};
use nile_rfcom::{Channel, MOST_PACKET, ReadError, Rfcom, WriteError};
use nile_user::{Runtime, log};

/// Ports in the region.
pub const PORTS: usize = 4;

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
}

impl Act {
    /// The port, and what to do with it.
    fn parse(argument: &[u8]) -> Option<(usize, Act)> {
        let text = core::str::from_utf8(argument).ok()?;
        let mut words = text.split_ascii_whitespace();
        let act = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let port = number()? as usize;
        let act = match act {
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
            "the argument is `echo PORT`, `take PORT`, `ping PORT PACKETS BYTES` or `send PORT MIB`"
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
    let Some(rfcom) = Rfcom::attach(shared.region().clone(), PORTS, shared.seat()) else {
        let _ = log!(system, "the region rf is too small");
        return WRONG;
    };
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
    };
    done.err().unwrap_or_default()
}

/// One end of the channel, and what it waits by.
struct Ends<'a, 's> {
    system: &'s dyn System,
    runtime: &'a Runtime<'s>,
    channel: Channel,
}

impl Ends<'_, '_> {
    fn now(&self) -> Result<Instant, u64> {
        let now = self.system.call(SystemCall::Now, 0, &[], &mut []).result();
        now.map(Instant::from_nanos).map_err(|_: Status| LOST)
    }

    /// What `look` gives, once it gives anything: at first the core polls, and then it sleeps
    /// between two looks.
    fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> Result<T, u64> {
        loop {
            for _ in 0..LOOKS {
                if let Some(found) = look() {
                    return Ok(found);
                }
                core::hint::spin_loop();
            }
            self.runtime.sleep_until(self.now()? + SLEEP);
        }
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
        let begun = self.now()?;
        for number in 0..bytes / LARGE as u64 {
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
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parse = |text: &str| Act::parse(text.as_bytes());
        assert_eq!(parse("echo 0"), Some((0, Act::Echo)));
        assert_eq!(parse("ping 3 10 64"), Some((3, Act::Ping { packets: 10, bytes: 64 })));
        assert_eq!(parse("send 1 4"), Some((1, Act::Send { bytes: 4 << 20 })));
        for wrong in ["", "echo", "echo x", "echo 0 1", "ping 0 1", "ping 0 0 1", "send 0 0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse("ping 0 1 65537"), None);
    }
}
