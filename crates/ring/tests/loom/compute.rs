//! Computing while others send. A core that computes without having seen a message must show, by
//! the time its sender is done, that it misses something: whoever looks after it has it look.

use loom::thread::{self, JoinHandle};
use nile_abi::CoreId;
use nile_ring::{Notifier, Receiver, Wake};

use crate::{Signals, check, ends, marked, must_fail, node};

const CORE: CoreId = CoreId(1);

/// What a core leaves out that begins to compute.
#[derive(Clone, Copy, PartialEq)]
enum Computer {
    Correct,
    LooksBeforeItSaysSo,
}

/// A thread that sends one message to the core; where it comes, and who is signalled.
fn sending(wake: Wake) -> (JoinHandle<()>, Receiver, Notifier, Signals) {
    let (_, mut sender, receiver) = ends(2, 0);
    let (_, notifier, _) = node(CORE, wake);
    let signals = Signals::default();
    let (ring, ring_signals) = (notifier.clone(), signals.clone());
    let sending = thread::spawn(move || {
        sender.send(&marked(1), &ring, &ring_signals).expect("the ring is empty");
    });
    (sending, receiver, notifier, signals)
}

/// One sender and one core that computes twice.
fn one_message(wake: Wake, computer: Computer) {
    let (sending, receiver, notifier, signals) = sending(wake);
    let bell = notifier.doorbells().of(CORE).expect("the node has it");
    drop(bell.compute());
    let early = receiver.is_ready();
    let computing = bell.compute();
    let seen = if computer == Computer::Correct { receiver.is_ready() } else { early };
    sending.join().unwrap();
    assert!(seen || notifier.doorbells().is_missed(CORE), "nobody hears of it");
    assert_eq!(signals.to(CORE), 0, "it does not sleep");
    drop(computing);
}

#[test]
fn a_signal_that_is_not_sent_is_shown() {
    check(3, || one_message(Wake::Signal, Computer::Correct));
}

#[test]
fn a_quiet_ring_is_shown() {
    check(3, || one_message(Wake::Quiet, Computer::Correct));
}

#[test]
fn control_signal_without_looking_again() {
    must_fail("nobody hears", || one_message(Wake::Signal, Computer::LooksBeforeItSaysSo));
}

#[test]
fn control_quiet_without_looking_again() {
    must_fail("nobody hears", || one_message(Wake::Quiet, Computer::LooksBeforeItSaysSo));
}

/// A ring that comes late, to a core that sleeps by then, does not keep it from being woken.
#[test]
fn a_late_ring_wakes_who_sleeps() {
    check(3, || {
        let (sending, receiver, notifier, signals) = sending(Wake::Signal);
        let bell = notifier.doorbells().of(CORE).expect("the node has it");
        drop(bell.compute());
        let sleep = bell.prepare();
        let seen = receiver.is_ready();
        sending.join().unwrap();
        assert!(seen || sleep.is_over() && signals.to(CORE) == 1, "lost wake-up");
    });
}
