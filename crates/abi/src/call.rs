//! What crosses between a package and its kernel: the entry table that a package is started with,
//! and the system calls.
//!
//! Every system call has one shape: a number, one word, an input buffer that the kernel reads and
//! an output buffer that it writes. It is answered by a status and a value. The kernel validates
//! every address and length; a bad one fails the call with [`Status::Invalid`].
//!
//! | call      | word             | input            | output              | value              |
//! | --------- | ---------------- | ---------------- | ------------------- | ------------------ |
//! | `nothing` | anything         | -                | -                   | the word           |
//! | `exit`    | the exit code    | why, or nothing  | -                   | does not return    |
//! | `log`     | -                | lines of UTF-8   | -                   | -                  |
//! | `now`     | -                | -                | -                   | ns since the start |
//! | `invoke`  | patience, ns     | a call           | the call's end      | its bytes          |
//! | `wait`    | until when, ns   | -                | an [`Event`]        | its bytes, or it   |
//! | `reply`   | ticket           | the call's end   | -                   | -                  |
//! | `publish` | -                | an announcement  | the call's end      | its bytes          |
//! | `channel` | -                | a [`ChannelCall`]| a [`ChannelPlace`]  | its bytes          |
//! | `pool`    | -                | a [`PoolCall`]   | what it gives       | its bytes          |
//! | `keep`    | bytes, version   | a keep's name    | a [`KeepPlace`]     | its bytes          |
//! | `region`  | ignored          | a region's name  | a [`KeepPlace`]     | its bytes          |
//! | `begin`   | patience, ns     | a call           | -                   | what names it      |
//! | `wake`    | a sending end    | -                | -                   | -                  |

mod channel;
mod keep;
mod pool;
mod slot;

use core::hint;
use core::ptr::NonNull;

use crate::{CoreId, Generation, Status, VirtAddr};
pub use channel::{ChannelCall, ChannelPlace, Event, KERNELS_TAGS, is_kernels};
pub use keep::{KeepPlace, keep_wants, keep_word};
pub use pool::{PoolCall, PoolHandle, PoolPlace};
pub use slot::UserSlot;

/// Where the addresses of packages begin. Below it nothing is ever mapped.
pub const USER_BASE: u64 = 0x1000_0000_0000;

/// Bytes of addresses that a package has of its own, and as many again for the node's pool.
pub const USER_BYTES: u64 = 1 << 40;

/// What a package may ask of its kernel. The numbers are fixed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u64)]
pub enum SystemCall {
    /// Answers: the measure of an empty system call.
    Nothing = 0,
    /// Ends the package.
    Exit = 1,
    /// Writes a line to the node's log.
    Log = 2,
    /// The time.
    Now = 3,
    /// Calls a method of a service by the kernel's half of the service transport layer.
    Invoke = 4,
    /// Waits for a call to one of the package's services, for the end of one that it has begun, for
    /// a channel, or for a moment.
    Wait = 5,
    /// Answers a call that `Wait` gave.
    Reply = 6,
    /// Publishes a service of the package's.
    Publish = 7,
    /// Opens, accepts or closes channels.
    Channel = 8,
    /// Takes, passes, claims, frees or views buffers of the node's pool.
    Pool = 9,
    /// Finds or makes memory that outlives the package.
    Keep = 10,
    /// Begins what `Invoke` does: `Wait` gives the end.
    Begin = 11,
    /// Wakes the package at the other end of a channel, which slept when it was last looked at.
    /// `Dead` if it is gone.
    Wake = 12,
    /// Has memory that packages of several cores share.
    Region = 13,
}

impl SystemCall {
    /// How many there are.
    pub const COUNT: usize = 14;

    const ALL: [SystemCall; SystemCall::COUNT] = [
        SystemCall::Nothing,
        SystemCall::Exit,
        SystemCall::Log,
        SystemCall::Now,
        SystemCall::Invoke,
        SystemCall::Wait,
        SystemCall::Reply,
        SystemCall::Publish,
        SystemCall::Channel,
        SystemCall::Pool,
        SystemCall::Keep,
        SystemCall::Begin,
        SystemCall::Wake,
        SystemCall::Region,
    ];

    /// The call with this number.
    pub fn from_number(number: u64) -> Option<SystemCall> {
        usize::try_from(number).ok().and_then(|number| SystemCall::ALL.get(number).copied())
    }
}

/// How a system call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Answer {
    /// A [`Status`] by its number.
    pub status: u64,
    /// What the call gives.
    pub value: u64,
}

impl Answer {
    /// Success.
    pub fn ok(value: u64) -> Answer {
        Answer { status: u64::from(Status::Ok.code()), value }
    }

    /// A failure.
    pub fn failed(status: Status) -> Answer {
        Answer { status: u64::from(status.code()), value: 0 }
    }

    /// The value, or why there is none; a status that is not known is `Invalid`.
    pub fn result(self) -> Result<u64, Status> {
        let code = u16::try_from(self.status).ok();
        match code.and_then(Status::from_code) {
            Some(Status::Ok) => Ok(self.value),
            Some(status) => Err(status),
            None => Err(Status::Invalid),
        }
    }
}

/// What a package is started with: a pointer to this, in read-only memory of its own, is the only
/// argument of its entry point. The layout is fixed; later versions only add fields.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EntryTable {
    /// [`EntryTable::MAGIC`].
    pub magic: u64,
    /// Bytes of this table.
    pub bytes: u64,
    /// The core that runs the package.
    pub core: CoreId,
    /// Its incarnation.
    pub generation: Generation,
    /// The address of the way into the kernel: a function with the C calling convention that takes
    /// number, word, input address and bytes, output address and bytes, and gives an [`Answer`].
    pub gate: u64,
    /// The package's first heap memory: where it is, how many bytes it has.
    pub arena: [u64; 2],
    /// The package's argument: where the bytes are, how many.
    pub argument: [u64; 2],
    /// The stack that the package runs on: its lowest address, its bytes.
    pub stack: [u64; 2],
}

impl EntryTable {
    /// What tells an entry table from anything else: `NILEENT1`, little-endian.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"NILEENT1");
}

/// The kernel as a package's code sees it: the entry table's gate on real machines, a switch to
/// the simulator in a simulation.
pub trait System {
    /// Makes a system call. Blocks until it is answered.
    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer;

    /// Where the package itself finds the `bytes` bytes of its memory that the kernel says are at
    /// `at`; they are there as long as the package runs. On machines that is where the kernel says;
    /// a simulation has them elsewhere, and `None` for what is not the package's. No system call.
    fn memory(&self, at: VirtAddr, _bytes: u64) -> Option<NonNull<u8>> {
        NonNull::new(at.0 as *mut u8)
    }

    /// Says that the caller polls for what another core does. No system call. In a simulation the
    /// other cores go on only then, and in system calls.
    fn relax(&self) {
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_numbers() {
        for call in SystemCall::ALL {
            assert_eq!(SystemCall::from_number(call as u64), Some(call));
        }
        assert_eq!(SystemCall::from_number(SystemCall::COUNT as u64), None);
        assert_eq!(SystemCall::from_number(u64::MAX), None);
    }

    #[test]
    fn an_answer_is_a_value_or_a_status() {
        assert_eq!(Answer::ok(7).result(), Ok(7));
        assert_eq!(Answer::failed(Status::Denied).result(), Err(Status::Denied));
        assert_eq!(Answer { status: 999, value: 1 }.result(), Err(Status::Invalid));
        assert_eq!(Answer { status: u64::MAX, value: 1 }.result(), Err(Status::Invalid));
    }

    #[test]
    fn the_table_has_its_layout() {
        use core::mem::{offset_of, size_of};
        assert_eq!(size_of::<EntryTable>(), 80);
        assert_eq!(offset_of!(EntryTable, core), 16);
        assert_eq!(offset_of!(EntryTable, generation), 20);
        assert_eq!(offset_of!(EntryTable, gate), 24);
        assert_eq!(offset_of!(EntryTable, stack), 64);
    }
}
