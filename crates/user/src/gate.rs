//! The kernel as a package on a real machine reaches it.

use core::mem;

use nile_abi::call::{Answer, EntryTable, System, SystemCall};

/// What is at the gate's address: takes number, word, input address and bytes, output address and
/// bytes.
type Enter = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> Answer;

/// The kernel behind the gate of an entry table.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    enter: Enter,
}

impl Gate {
    /// The gate that `table` names.
    ///
    /// # Safety
    /// The kernel has made the table for this package.
    pub unsafe fn of(table: &EntryTable) -> Gate {
        // SAFETY: the kernel has put a function of this type there.
        unsafe { Gate::at(table.gate) }
    }

    /// The gate at an address.
    ///
    /// # Safety
    /// It is the address of this package's gate.
    pub(crate) unsafe fn at(address: u64) -> Gate {
        // SAFETY: an address and a function pointer have one size here, and it is one.
        let enter = unsafe { mem::transmute::<usize, Enter>(address as usize) };
        Gate { enter }
    }

    /// Makes any system call at all: what the kernel must bear.
    ///
    /// # Safety
    /// If the kernel writes to the output, nothing else lives there.
    pub unsafe fn raw(
        &self,
        number: u64,
        word: u64,
        input: (u64, u64),
        output: (u64, u64),
    ) -> Answer {
        // SAFETY: the kernel checks everything; what it writes is the caller's.
        unsafe { (self.enter)(number, word, input.0, input.1, output.0, output.1) }
    }
}

impl System for Gate {
    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer {
        let input = (input.as_ptr() as u64, input.len() as u64);
        let output = (output.as_mut_ptr() as u64, output.len() as u64);
        // SAFETY: the output is borrowed for the call, and any bytes may be in it.
        unsafe { self.raw(call as u64, word, input, output) }
    }
}
