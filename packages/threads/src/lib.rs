//! A package that checks its threads from within: their order, joining, waiting, sleeping, stacks
//! of their own, and that none of it but sleeping is a system call. It exits with 0, or with 100
//! and the number of the first check that failed. Its heap never holds more than 2 MiB.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::hint::black_box;

use nile_abi::Instant;
use nile_abi::call::{System, SystemCall};
use nile_user::{JoinHandle, Runtime, WaitQueue};

/// What is added to the number of a failed check: the runtime's own exit codes are below.
const FAILED: u64 = 100;

/// Threads of each check.
const THREADS: u64 = 8;

/// Turns of each thread.
const TURNS: u64 = 100;

/// Runs every check. The argument is not looked at.
pub fn main(system: &dyn System, _argument: &[u8]) -> u64 {
    const QUIET: [fn(&Runtime<'_>) -> bool; 4] = [turns, joining, waiting, stacks];
    let runtime = Runtime::new(system);
    for (number, check) in (1..).zip(QUIET) {
        if !check(&runtime) {
            return FAILED + number;
        }
    }
    if runtime.system_calls() != 0 {
        return FAILED + 5;
    }
    if !sleeping(&runtime) {
        return FAILED + 6;
    }
    0
}

/// Threads go on in the order in which they began, turn by turn.
fn turns(runtime: &Runtime<'_>) -> bool {
    let order = Rc::new(RefCell::new(Vec::new()));
    let threads: Vec<JoinHandle<()>> = (0..THREADS)
        .map(|number| {
            let order = order.clone();
            runtime.spawn(move |runtime| {
                for _ in 0..TURNS {
                    order.borrow_mut().push(number);
                    runtime.yield_now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join(runtime));
    let expected = (0..TURNS).flat_map(|_| 0..THREADS);
    order.borrow().iter().copied().eq(expected)
}

/// Threads start threads, and their results come back.
fn joining(runtime: &Runtime<'_>) -> bool {
    fn sum(runtime: &Runtime<'_>, from: u64, to: u64) -> u64 {
        if to - from == 1 {
            return from;
        }
        let middle = (from + to) / 2;
        let left = runtime.spawn_with_stack(32 << 10, move |runtime| sum(runtime, from, middle));
        let right = sum(runtime, middle, to);
        left.join(runtime) + right
    }
    sum(runtime, 0, 32) == 496
}

/// One thread makes, the others take, and nobody goes on before there is something.
fn waiting(runtime: &Runtime<'_>) -> bool {
    let stock = Rc::new(Cell::new(0u64));
    let arrived = Rc::new(WaitQueue::new());
    let takers: Vec<JoinHandle<u64>> = (0..THREADS)
        .map(|_| {
            let (stock, arrived) = (stock.clone(), arrived.clone());
            runtime.spawn(move |runtime| {
                let mut taken = 0;
                for _ in 0..TURNS {
                    arrived.wait_while(runtime, || stock.get() == 0);
                    stock.set(stock.get() - 1);
                    taken += 1;
                }
                taken
            })
        })
        .collect();
    let maker = runtime.spawn(move |runtime| {
        for _ in 0..THREADS * TURNS {
            stock.set(stock.get() + 1);
            arrived.wake_one(runtime);
            runtime.yield_now();
        }
        stock
    });
    let taken: u64 = takers.into_iter().map(|taker| taker.join(runtime)).sum();
    maker.join(runtime).get() == 0 && taken == THREADS * TURNS
}

/// Each thread keeps what is on its stack and in its registers, whoever runs in between.
fn stacks(runtime: &Runtime<'_>) -> bool {
    fn climb(runtime: &Runtime<'_>, level: u64, seed: u64) -> u64 {
        let held = black_box([seed ^ level; 16]);
        let ratio = black_box(seed as f64 + 0.5);
        runtime.yield_now();
        let below = if level == 0 { 0 } else { climb(runtime, level - 1, seed) };
        let whole = held.iter().all(|word| *word == seed ^ level);
        below + u64::from(whole && ratio == seed as f64 + 0.5)
    }
    let threads: Vec<JoinHandle<u64>> =
        (0..THREADS).map(|seed| runtime.spawn(move |runtime| climb(runtime, 49, seed))).collect();
    threads.into_iter().all(|thread| thread.join(runtime) == 50)
}

/// When every thread sleeps, the package does: by one system call for each deadline.
fn sleeping(runtime: &Runtime<'_>) -> bool {
    const MILLISECOND: u64 = 1_000_000;
    let now = || runtime.call(SystemCall::Now, 0, &[], &mut []).result();
    let Ok(start) = now() else { return false };
    let before = runtime.system_calls();
    let sleep = |milliseconds: u64| {
        let deadline = Instant::from_nanos(start + milliseconds * MILLISECOND);
        runtime.spawn(move |runtime| runtime.sleep_until(deadline))
    };
    let threads = [sleep(2), sleep(1), sleep(2)];
    threads.into_iter().for_each(|thread| thread.join(runtime));
    let waits = runtime.system_calls() - before;
    let Ok(end) = now() else { return false };
    end >= start + 2 * MILLISECOND && (1..=3).contains(&waits)
}
