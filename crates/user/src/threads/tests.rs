//! Threads in one process, over a kernel that only counts and answers what a test says.

use core::cell::{Cell, RefCell};

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use nile_abi::call::{Answer, System, SystemCall};
use nile_abi::{Instant, Status};

use super::{Runtime, WaitQueue};

/// Answers each `Wait` with the next event, and notes until when it was to wait.
#[derive(Default)]
struct Kernel {
    events: RefCell<Vec<&'static [u8]>>,
    waits: RefCell<Vec<u64>>,
}

impl System for Kernel {
    fn call(&self, call: SystemCall, word: u64, _: &[u8], output: &mut [u8]) -> Answer {
        assert_eq!(call, SystemCall::Wait);
        self.waits.borrow_mut().push(word);
        match self.events.borrow_mut().pop() {
            None if word == u64::MAX => panic!("nobody will ever wake"),
            None => Answer::failed(Status::Timeout),
            Some(event) => {
                output[..event.len()].copy_from_slice(event);
                Answer::ok(event.len() as u64)
            }
        }
    }
}

#[test]
fn threads_take_turns_in_order() {
    let kernel = Kernel::default();
    let runtime = Runtime::new(&kernel);
    let said = Rc::new(RefCell::new(String::new()));
    let threads: Vec<_> = "abc"
        .chars()
        .map(|name| {
            let said = said.clone();
            runtime.spawn(move |runtime| {
                for _ in 0..3 {
                    said.borrow_mut().push(name);
                    runtime.yield_now();
                }
                name as u32
            })
        })
        .collect();
    assert_eq!(*said.borrow(), "", "nobody runs before the core is given away");
    runtime.yield_now();
    assert_eq!(*said.borrow(), "abc");
    assert!(threads.iter().all(|thread| !thread.is_finished()));
    let results: Vec<u32> = threads.into_iter().map(|thread| thread.join(&runtime)).collect();
    assert_eq!(results, [97, 98, 99]);
    assert_eq!(*said.borrow(), "abcabcabc");
    assert_eq!(runtime.system_calls(), 0);
}

#[test]
fn threads_spawn_join_and_borrow_what_outlives_the_runtime() {
    let kernel = Kernel::default();
    let data = [1, 2, 3];
    let sum = Cell::new(0);
    let runtime = Runtime::new(&kernel);
    let outer = runtime.spawn(|runtime| {
        let parts: Vec<_> = data.iter().map(|part| runtime.spawn(move |_| part * 10)).collect();
        sum.set(parts.into_iter().map(|part| part.join(runtime)).sum());
    });
    outer.join(&runtime);
    assert_eq!(sum.get(), 60);
    assert_eq!(runtime.system_calls(), 0);
}

#[test]
fn waiters_are_woken_in_order_and_only_by_who_wakes_them() {
    let kernel = Kernel::default();
    let runtime = Runtime::new(&kernel);
    let queue = Rc::new(WaitQueue::new());
    let woken = Rc::new(RefCell::new(Vec::new()));
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let (queue, woken) = (queue.clone(), woken.clone());
            runtime.spawn(move |runtime| {
                queue.wait(runtime);
                woken.borrow_mut().push(number);
            })
        })
        .collect();
    runtime.yield_now();
    // A stray wake-up is no reason to go on.
    runtime.unpark(threads[1].thread());
    runtime.yield_now();
    assert!(woken.borrow().is_empty());
    assert!(queue.wake_one(&runtime));
    runtime.yield_now();
    assert_eq!(*woken.borrow(), [0]);
    assert_eq!(queue.wake_all(&runtime), 2);
    assert!(!queue.wake_one(&runtime));
    threads.into_iter().for_each(|thread| thread.join(&runtime));
    assert_eq!(*woken.borrow(), [0, 1, 2]);
    assert_eq!(runtime.system_calls(), 0);
}

#[test]
fn an_early_unpark_is_remembered_once() {
    let kernel = Kernel::default();
    let runtime = Runtime::new(&kernel);
    let passed = Rc::new(Cell::new(0));
    let count = passed.clone();
    let thread = runtime.spawn(move |runtime| {
        runtime.yield_now();
        for _ in 0..2 {
            runtime.park();
            count.set(count.get() + 1);
        }
    });
    runtime.yield_now();
    (0..3).for_each(|_| runtime.unpark(thread.thread()));
    (0..5).for_each(|_| runtime.yield_now());
    assert_eq!(passed.get(), 1);
    runtime.unpark(thread.thread());
    thread.join(&runtime);
    assert_eq!(passed.get(), 2);
}

#[test]
fn when_all_wait_the_kernel_is_asked_once() {
    let kernel = Kernel::default();
    kernel.events.borrow_mut().push(b"call");
    let runtime = Runtime::new(&kernel);
    let queue = Rc::new(WaitQueue::new());
    let (heard, woken) = (Rc::new(RefCell::new(Vec::new())), queue.clone());
    let log = heard.clone();
    runtime.on_event(move |runtime, event| {
        log.borrow_mut().extend_from_slice(event);
        woken.wake_all(runtime);
    });
    let thread = runtime.spawn(move |runtime| queue.wait(runtime));
    thread.join(&runtime);
    assert_eq!(*heard.borrow(), b"call");
    assert_eq!(*kernel.waits.borrow(), [u64::MAX]);
    assert_eq!(runtime.system_calls(), 1);
}

#[test]
fn sleepers_wake_by_their_deadlines() {
    let kernel = Kernel::default();
    let runtime = Runtime::new(&kernel);
    let woken = Rc::new(RefCell::new(Vec::new()));
    let threads: Vec<_> = [30, 10, 20, 10]
        .map(|nanos| {
            let woken = woken.clone();
            runtime.spawn(move |runtime| {
                runtime.sleep_until(Instant::from_nanos(nanos));
                woken.borrow_mut().push(nanos);
            })
        })
        .into();
    threads.into_iter().for_each(|thread| thread.join(&runtime));
    assert_eq!(*woken.borrow(), [10, 10, 20, 30]);
    assert_eq!(*kernel.waits.borrow(), [10, 20, 30]);
}

#[test]
fn threads_that_never_end_are_forgotten_with_the_runtime() {
    let kernel = Kernel::default();
    let kept = Rc::new(());
    let held = kept.clone();
    {
        let runtime = Runtime::new(&kernel);
        drop(runtime.spawn(move |runtime| {
            let _held = held;
            runtime.park();
        }));
        runtime.yield_now();
        drop(runtime.spawn(|_| unreachable!("main ends first")));
        drop(runtime.spawn(|runtime| runtime.yield_now()));
        runtime.on_event(|_, _| {});
    }
    assert_eq!(Rc::strong_count(&kept), 2, "not dropped, and not freed either");
}

#[test]
#[should_panic(expected = "another runtime")]
fn a_thread_of_another_runtime_cannot_be_woken() {
    let kernel = Kernel::default();
    let (one, other) = (Runtime::new(&kernel), Runtime::new(&kernel));
    other.unpark(one.spawn(|_| ()).thread());
}

#[test]
fn many_threads_with_deep_stacks_switch_many_times() {
    fn depth(levels: u64) -> u64 {
        let held = core::hint::black_box([levels; 32]);
        if levels == 0 { 0 } else { 1 + depth(levels - 1) + (held[7] - levels) }
    }
    let kernel = Kernel::default();
    let runtime = Runtime::new(&kernel);
    let threads: Vec<_> = (0..50)
        .map(|number| {
            runtime.spawn_with_stack(256 << 10, move |runtime| {
                let mut sum = 0;
                for round in 0..20 {
                    sum += depth(number + round);
                    runtime.yield_now();
                }
                sum
            })
        })
        .collect();
    let sums: Vec<u64> = threads.into_iter().map(|thread| thread.join(&runtime)).collect();
    assert!((0..50).all(|number| sums[number] == 20 * number as u64 + 190));
    assert_eq!(runtime.system_calls(), 0);
}
