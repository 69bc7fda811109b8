//! The parts of which the scenario's services are composed: three layers of a network's stack that
//! wrap one buffer each, and some that look at one.

use alloc::vec::Vec;

use nile_bosml::{Blob, Bytes};

/// What the upper layer puts before a buffer.
pub const SEGMENT: [u8; 2] = *b"s:";
/// What the middle layer puts before it.
pub const PACKET: [u8; 3] = *b"pk:";
/// What the lower layer puts after it.
pub const TRAILER: [u8; 1] = *b".";

/// What three layers make of a buffer.
pub fn wrapped(buffer: &[u8]) -> Vec<u8> {
    [&PACKET[..], &SEGMENT, buffer, &TRAILER].concat()
}

/// The sum of a buffer's bytes.
pub fn sum_of(buffer: &[u8]) -> u32 {
    buffer.iter().map(|byte| u32::from(*byte)).sum()
}

fn joined(parts: &[&[u8]]) -> Blob {
    Blob(parts.concat())
}

/// The upper layer.
pub mod segment {
    use super::{Bytes, SEGMENT, joined};
    use nile_bosml::Blob;
    use nile_stl::{Start, Stl, service};

    pub struct Segment;

    impl Start for Segment {
        fn start(_: &Stl) -> Segment {
            Segment
        }
    }

    /// A layer that puts a header before a buffer.
    #[service(subsystem = "tests", capability = "segments", layer = high, on = every,
        keywords(stack = 1))]
    impl Segment {
        /// The buffer with a header.
        #[stl_k(reply = "buffer", allow(package, operator, peer))]
        fn wrap(&self, buffer: Bytes<'_>) -> Blob {
            joined(&[&SEGMENT, &buffer.0])
        }
    }
}

/// The middle layer.
pub mod packet {
    use super::{Bytes, PACKET, joined};
    use nile_bosml::Blob;
    use nile_stl::{Start, Stl, service};

    pub struct Packet;

    impl Start for Packet {
        fn start(_: &Stl) -> Packet {
            Packet
        }
    }

    /// A layer that puts another header before a buffer.
    #[service(subsystem = "tests", capability = "packets", layer = high, on = every,
        keywords(stack = 1))]
    impl Packet {
        /// The buffer with a header.
        #[stl_k(reply = "buffer", allow(package, operator, peer))]
        fn wrap(&self, buffer: Bytes<'_>) -> Blob {
            joined(&[&PACKET, &buffer.0])
        }
    }
}

/// Ends its first calls as if it had died.
pub mod flaky {
    use core::cell::Cell;

    use nile_abi::Status;
    use nile_stl::{CallError, CallResult, Start, Stl, service};

    #[derive(Default)]
    pub struct Flaky {
        looked: Cell<u64>,
        done: Cell<u64>,
    }

    impl Start for Flaky {
        fn start(_: &Stl) -> Flaky {
            Flaky::default()
        }
    }

    /// Every other call of it fails.
    fn every_other(calls: &Cell<u64>) -> CallResult<u64> {
        calls.set(calls.get() + 1);
        match calls.get() % 2 {
            0 => Ok(calls.get()),
            _ => Err(CallError::new(Status::Dead, "the first of two")),
        }
    }

    /// Something that fails.
    #[service(subsystem = "tests", capability = "failing", layer = high, on = manager)]
    impl Flaky {
        /// How often it was called, without effects.
        #[stl_k(reply = "calls")]
        #[pure]
        fn look(&self) -> CallResult<u64> {
            every_other(&self.looked)
        }

        /// The same, with effects.
        #[stl_k(reply = "calls")]
        fn act(&self) -> CallResult<u64> {
            every_other(&self.done)
        }
    }
}

/// The lower layer, which is of the layer of services below, too.
pub mod wire {
    use super::{Bytes, TRAILER, joined};
    use nile_bosml::Blob;
    use nile_stl::{CallResult, Start, Stl, service};

    pub struct Wire {
        stl: Stl,
    }

    impl Start for Wire {
        fn start(stl: &Stl) -> Wire {
            Wire { stl: stl.clone() }
        }
    }

    /// A layer that puts a trailer after a buffer.
    #[service(subsystem = "tests", capability = "frames", layer = low, on = every,
        keywords(stack = 1))]
    impl Wire {
        /// The buffer with a trailer, if it is short enough.
        #[stl_k(reply = "buffer", allow(package, operator, peer))]
        fn wrap(&self, #[range(0..=1500)] buffer: Bytes<'_>) -> Blob {
            joined(&[&buffer.0, &TRAILER])
        }

        /// Ends this instance.
        #[stl_k(allow(package, operator, peer))]
        async fn leave(&self) -> CallResult<()> {
            self.stl.unpublish(REGISTRATION.name()).await
        }
    }
}

/// A look at a buffer.
pub mod adder {
    use super::{Bytes, sum_of};
    use nile_stl::{Start, Stl, service};

    pub struct Adder;

    impl Start for Adder {
        fn start(_: &Stl) -> Adder {
            Adder
        }
    }

    /// Adds.
    #[service(subsystem = "tests", capability = "sums", layer = high, on = every,
        keywords(sum = 1))]
    impl Adder {
        /// The sum of a buffer's bytes.
        #[stl_k(reply = "sum", allow(package, operator, peer))]
        fn add(&self, buffer: Bytes<'_>) -> u32 {
            sum_of(&buffer.0)
        }
    }
}

/// Another look at a buffer.
pub mod meter {
    use super::Bytes;
    use nile_stl::{Start, Stl, service};

    pub struct Meter;

    impl Start for Meter {
        fn start(_: &Stl) -> Meter {
            Meter
        }
    }

    /// Measures.
    #[service(subsystem = "tests", capability = "sizes", layer = high, on = every,
        keywords(size = 1))]
    impl Meter {
        /// How many bytes a buffer has.
        #[stl_k(reply = "bytes", allow(package, operator, peer))]
        fn measure(&self, buffer: Bytes<'_>) -> u64 {
            buffer.0.len() as u64
        }
    }
}

/// What shows that calls go on at one time, and that they end when nobody waits.
pub mod gate {
    use core::cell::Cell;
    use core::time::Duration;
    use nile_stl::{Record, Start, Stl, service};

    /// How often the gate looks who is there.
    const LOOK: Duration = Duration::from_micros(100);

    pub struct Gate {
        stl: Stl,
        came: Cell<u64>,
        went: Cell<u64>,
    }

    impl Start for Gate {
        fn start(stl: &Stl) -> Gate {
            Gate { stl: stl.clone(), came: Cell::new(0), went: Cell::new(0) }
        }
    }

    /// Who came to the gate, and who went.
    #[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Seen {
        /// Calls of `meet` that began.
        pub came: u64,
        /// Calls of `meet` that are over, however they ended.
        pub went: u64,
    }

    struct Goes<'a>(&'a Cell<u64>);

    impl Drop for Goes<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    /// A gate that opens when enough callers wait at it.
    #[service(subsystem = "tests", capability = "gates", layer = high, on = every,
        keywords(gate = 1))]
    impl Gate {
        /// Waits until so many calls of it are waiting, or were when one of them was over.
        #[stl_k(reply = "callers", allow(package, operator, peer))]
        async fn meet(&self, callers: u64) -> u64 {
            let host = self.stl.host();
            let before = self.came.get();
            let first = before - before % callers.max(1);
            self.came.set(before + 1);
            let _goes = Goes(&self.went);
            while self.came.get() < first + callers {
                host.sleep_until(host.now() + LOOK).await;
            }
            callers
        }

        /// Who came and who went.
        #[stl_k(reply = "seen", allow(package, operator, peer))]
        fn look(&self) -> Seen {
            Seen { came: self.came.get(), went: self.went.get() }
        }
    }
}
