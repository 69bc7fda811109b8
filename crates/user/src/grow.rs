//! More memory for the heap: from the kernel half of the heap service, by one system call. It is
//! called in the middle of an allocation, so it puts its call together without memory.

use nile_abi::VirtAddr;
use nile_abi::call::{System, SystemCall};

use crate::entry;

/// How long the kernel may take, nanoseconds.
const PATIENCE: u64 = 10_000_000_000;

/// `heap.grow` as a [`Relayed`](nile_stl::relay::Relayed) call: names and arguments, each with its
/// length before it; the bytes that are wanted go to the end.
const CALL: [u8; 22] = *b"\x04\0heap\x04\0grow\x08\0........";

/// At least so many more bytes: where, and how many. Nothing if the kernel has none for this
/// package, or the node has no heap service.
pub(crate) fn grow(bytes: u64) -> Option<(VirtAddr, u64)> {
    grow_by(&entry::gate()?, bytes)
}

fn grow_by(system: &dyn System, bytes: u64) -> Option<(VirtAddr, u64)> {
    let mut call = CALL;
    let arguments = call.len() - 8;
    call[arguments..].copy_from_slice(&bytes.to_le_bytes());
    let mut end = [0; 128];
    let length = system.call(SystemCall::Invoke, PATIENCE, &call, &mut end).result().ok()?;
    // Status, address, bytes.
    let (status, reply) = end.get(..usize::try_from(length).ok()?)?.split_first_chunk::<2>()?;
    let (address, bytes) = reply.split_first_chunk::<8>()?;
    let (bytes, rest) = bytes.split_first_chunk::<8>()?;
    let whole = *status == [0; 2] && rest.is_empty();
    whole.then(|| (VirtAddr(u64::from_le_bytes(*address)), u64::from_le_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::Cell;

    use nile_abi::call::Answer;
    use nile_bosml::Blob;
    use nile_stl::relay::{Relayed, decode, encode_end};

    struct Kernel {
        asked: Cell<u64>,
        end: Vec<u8>,
    }

    impl System for Kernel {
        fn call(&self, call: SystemCall, _: u64, input: &[u8], output: &mut [u8]) -> Answer {
            assert_eq!(call, SystemCall::Invoke);
            let Relayed { service, method, arguments: Blob(arguments) } = decode(input).unwrap();
            assert_eq!((&*service, &*method), ("heap", "grow"));
            self.asked.set(u64::from_le_bytes(arguments.try_into().unwrap()));
            output[..self.end.len()].copy_from_slice(&self.end);
            Answer::ok(self.end.len() as u64)
        }
    }

    #[test]
    fn the_call_is_what_the_kernel_reads() {
        let reply = [5u64.to_le_bytes(), 6u64.to_le_bytes()].concat();
        let kernel = Kernel { asked: Cell::new(0), end: encode_end(&Ok(reply)) };
        assert_eq!(grow_by(&kernel, 1 << 33), Some((VirtAddr(5), 6)));
        assert_eq!(kernel.asked.get(), 1 << 33);
        let refused = encode_end(&Err(nile_abi::Status::NoMemory.into()));
        for end in [refused, vec![], vec![0, 0], vec![0; 17], vec![0; 19]] {
            assert_eq!(grow_by(&Kernel { asked: Cell::new(0), end }, 1), None);
        }
    }
}
