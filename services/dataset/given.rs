//! Buffers that this core has given to callers. One that its caller never claimed, because its core
//! has ended meanwhile, would be nobody's: it is taken back.

use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::{CoreId, Generation};
use nile_stl::node::{Buffer, Handle, Pool, in_call};

/// Handles that are remembered before it is looked which of them were claimed.
const MOST: usize = 64;

/// Handles that were given, and to which incarnation of which core.
#[derive(Default)]
pub struct Given(RefCell<Vec<(Handle, CoreId, Generation)>>);

impl Given {
    /// Gives the first `bytes` of a buffer to a core.
    pub fn give(
        &self,
        pool: &Pool,
        (core, generation): (CoreId, Generation),
        buffer: Buffer,
        bytes: usize,
    ) -> nile_bosml::Buffer {
        let handle = buffer.into_handle(bytes);
        let given = &mut *self.0.borrow_mut();
        if given.len() >= MOST {
            given.retain(|(handle, ..)| pool.is_in_flight(*handle));
        }
        given.push((handle, core, generation));
        in_call(handle)
    }

    /// Takes back what a core was given whose incarnation is over, and those before it.
    pub fn sweep(&self, pool: &Pool, ended: (CoreId, Generation)) {
        let given = &mut *self.0.borrow_mut();
        let is_over = |(_, core, generation): &mut (Handle, CoreId, Generation)| {
            *core == ended.0 && *generation <= ended.1
        };
        // Those that were claimed are not there any more.
        given.extract_if(.., is_over).for_each(|(handle, ..)| drop(pool.claim(handle)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_stl::node::{PoolId, from_call};

    #[test]
    fn what_a_core_that_ended_has_not_claimed_is_free() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 8, 4096).unwrap();
        let given = Given::default();
        let give = |core, generation| {
            let to = (CoreId(core), Generation(generation));
            given.give(&pool, to, pool.alloc().unwrap(), 9)
        };
        let [claimed, lost, other] = [give(2, 1), give(2, 1), give(3, 1)];
        let claimed = pool.claim(from_call(claimed)).unwrap();
        assert_eq!(claimed.len(), 9);
        given.sweep(&pool, (CoreId(4), Generation(1)));
        assert_eq!(pool.free_buffers(), 5);
        let later = give(2, 2);
        given.sweep(&pool, (CoreId(2), Generation(1)));
        assert_eq!(pool.free_buffers(), 5, "one is free, and one more was given");
        assert!(pool.claim(from_call(lost)).is_err());
        assert!(pool.claim(from_call(other)).is_ok());
        assert!(pool.claim(from_call(later)).is_ok());
    }
}
