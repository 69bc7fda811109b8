//! The pool of another node of this machine, as that node shows it. Its buffers are read as a file
//! is: Linux copies them, and this process maps nothing of them. Mapped, they would count as this
//! node's memory, too. Only the words that say who has which buffer are mapped, for reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use nile_abi::Part;
use nile_ring::{Reader, Region};
use rustix::mm::{MapFlags, ProtFlags};

/// A pool has at most so many bytes for each byte of its words: one word for each buffer, which has
/// a page at least.
const PART_OF_WORDS: usize = 256;

/// Another node's pool.
pub struct PeerPool {
    /// By which name it is shown.
    pub name: u64,
    file: File,
    words: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the words are read only, as atomics.
unsafe impl Send for PeerPool {}
// SAFETY: as above.
unsafe impl Sync for PeerPool {}

impl PeerPool {
    /// The pool of `bytes` bytes that fills `file`. `InvalidData` if that is shorter.
    pub fn map(file: File, name: u64, bytes: u64) -> io::Result<PeerPool> {
        if bytes == 0 || file.metadata()?.len() < bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let bytes = (bytes as usize / PART_OF_WORDS).next_multiple_of(4096);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the mapping is new, at an address of Linux's choice.
        let words =
            unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, ProtFlags::READ, flags, &file, 0) }?;
        let words = NonNull::new(words.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PeerPool { name, file, words, bytes })
    }

    /// Fills `into` with parts, one after the other; whether all of it is what their owners had
    /// meant.
    pub fn read(&self, parts: &[Part], into: &mut [u8]) -> bool {
        // SAFETY: the mapping stays for as long as `self`, beyond this call, which the region does
        // not outlive. It is only read, as atomics. The file keeps its length as long as the node
        // runs that has it, and for as long as it is mapped here.
        let words = unsafe { Region::from_raw(self.words, self.bytes) };
        let Ok(pool) = Reader::attach(words) else { return false };
        let mut rest = into;
        for part in parts {
            let Some((here, after)) = rest.split_at_mut_checked(part.bytes as usize) else {
                return false;
            };
            let copy =
                |place: usize, into: &mut [u8]| self.file.read_exact_at(into, place as u64).is_ok();
            if pool.read(*part, 0, here, copy).is_err() {
                return false;
            }
            rest = after;
        }
        rest.is_empty()
    }
}

impl Drop for PeerPool {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing of it is lent any more.
        let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::os::fd::AsFd;

    use super::*;
    use nile_abi::CoreId;
    use nile_ring::{Pool, PoolId};
    use rustix::fs::MemfdFlags;

    const BYTES: usize = 1 << 20;

    /// A pool in a file, as its node has it.
    fn pool() -> (File, Pool) {
        let file: File = rustix::fs::memfd_create("pool", MemfdFlags::CLOEXEC).unwrap().into();
        file.set_len(BYTES as u64).unwrap();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, stays until the test ends, and has one pool.
        let pool = unsafe {
            let at: *mut c_void =
                rustix::mm::mmap(ptr::null_mut(), BYTES, rights, MapFlags::SHARED, file.as_fd(), 0)
                    .unwrap();
            let region = Region::from_raw(NonNull::new(at.cast()).unwrap(), BYTES);
            Pool::format(region, PoolId(0), CoreId(3), 64 << 10).unwrap()
        };
        (file, pool)
    }

    #[test]
    fn what_a_node_shows_is_read_until_it_is_given_up() {
        let (file, pool) = pool();
        let peer = PeerPool::map(file, 7, BYTES as u64).unwrap();
        let mut buffers = [pool.alloc().unwrap(), pool.alloc().unwrap()];
        for (at, buffer) in buffers.iter_mut().enumerate() {
            buffer.iter_mut().zip(0_usize..).for_each(|(byte, k)| *byte = (k * 7 + at) as u8);
        }
        let parts = [
            buffers[1].part(100, 5000).unwrap(),
            buffers[0].part(1, 3).unwrap(),
            buffers[1].part(0, 64 << 10).unwrap(),
        ];
        let all = 5003 + (64 << 10);
        let mut into = vec![0; all];
        assert!(peer.read(&parts, &mut into));
        assert_eq!(into[..5000], buffers[1][100..5100]);
        assert_eq!(into[5000..5003], buffers[0][1..4]);
        assert_eq!(into[5003..], buffers[1][..]);
        assert!(!peer.read(&parts, &mut into[..all - 1]) && !peer.read(&parts[..2], &mut into));
        let [zero, _one] = buffers;
        drop(zero);
        assert!(!peer.read(&parts, &mut into), "one of them was given up");
        assert!(peer.read(&parts[2..], &mut into[5003..]));
    }

    #[test]
    fn what_is_no_pool_is_not_read() {
        let file =
            || -> File { rustix::fs::memfd_create("none", MemfdFlags::CLOEXEC).unwrap().into() };
        assert!(PeerPool::map(file(), 7, 1).is_err(), "shorter than it is said to be");
        let empty = file();
        empty.set_len(BYTES as u64).unwrap();
        let peer = PeerPool::map(empty, 7, BYTES as u64).unwrap();
        let part = Part { index: 0, generation: 0, start: 0, bytes: 1 };
        assert!(!peer.read(&[part], &mut [0]), "not formatted yet");
    }
}
