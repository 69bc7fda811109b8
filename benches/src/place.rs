//! Which CPUs the threads of a benchmark run on. They are pinned, because a wake-up across CPUs
//! costs ten times one on the same CPU, and a thread that moves measures now one, now the other.

use std::fmt;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::figure::Failure;

/// A CPU by its number in Linux.
#[derive(Clone, Copy)]
pub struct Cpu(usize);

impl Cpu {
    /// The number.
    pub fn number(self) -> usize {
        self.0
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.0)
    }
}

/// The first two CPUs that this process may use.
pub fn two_cpus() -> Result<[Cpu; 2], Failure> {
    let set = sched_getaffinity(None).map_err(io::Error::from)?;
    let mut allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(Cpu);
    match (allowed.next(), allowed.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err(Failure::OneCpu),
    }
}

/// The calling thread's stay on one CPU; dropping it lets the thread go where it could before.
pub struct Stay {
    before: CpuSet,
}

impl Stay {
    /// Keeps the calling thread on `cpu`.
    pub fn on(cpu: Cpu) -> io::Result<Stay> {
        Stay::on_all(&[cpu])
    }

    /// Keeps the calling thread on these.
    pub fn on_all(cpus: &[Cpu]) -> io::Result<Stay> {
        let before = sched_getaffinity(None)?;
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(cpu.0));
        sched_setaffinity(None, &set)?;
        Ok(Stay { before })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // These CPUs were allowed before; should they no longer be, staying is all that is left.
        let _ = sched_setaffinity(None, &self.before);
    }
}
