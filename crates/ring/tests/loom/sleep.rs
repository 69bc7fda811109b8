//! Falling asleep and being woken. A core that went to sleep without having seen a message must
//! have been woken by the time its sender is done; nothing here has to wait for it.

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::fence;
use loom::thread;
use nile_abi::{CoreId, EndpointId};
use nile_ring::{Notifier, Receiver, Region, SLEEPING, Signal, Wake};

use crate::{Signals, check, ends, marked, must_fail, node};

const CORE: CoreId = CoreId(1);

/// The state word of a core that sleeps.
const ASLEEP: u64 = (SLEEPING as u64) << 32 | SLEEPING as u64;

/// What a core does when it runs out of work, and what may be left out of it.
#[derive(Clone, Copy, PartialEq)]
enum Sleeper {
    Correct,
    LooksBeforeItPrepares,
    HasNoFence,
}

/// What a sender does, and what may be left out of it.
#[derive(Clone, Copy, PartialEq)]
enum Ringer {
    Correct,
    /// Correct as well: it has no receiver map, and rings loudly whatever it would say.
    AlwaysLoud,
    RingsFirst,
    HasNoFence,
}

/// One sender and one core that falls asleep.
fn one_message(wake: Wake, sleeper: Sleeper, ringer: Ringer) {
    let (_, mut sender, receiver) = ends(2, 0);
    let (lines, notifier, _) = node(CORE, wake);
    let signals = Signals::default();

    let (ring, ring_lines, ring_signals) = (notifier.clone(), lines.clone(), signals.clone());
    let sending = thread::spawn(move || match ringer {
        Ringer::Correct => {
            sender.send(&marked(1), &ring, &ring_signals).expect("the ring is empty");
        }
        Ringer::AlwaysLoud => {
            sender.try_send(&marked(1)).expect("the ring is empty");
            ring.doorbells().wake(CORE, &ring_signals);
        }
        Ringer::RingsFirst => {
            ring.notify(EndpointId(0), 1, &ring_signals);
            sender.try_send(&marked(1)).expect("the ring is empty");
        }
        Ringer::HasNoFence => {
            sender.try_send(&marked(1)).expect("the ring is empty");
            let state = &ring_lines.lines()[CORE.index()][0];
            if state.load(Relaxed) == ASLEEP {
                state.store(0, Release);
                ring_signals.signal(CORE);
            }
        }
    });

    fall_asleep(sleeper, &notifier, &lines, &[receiver], || {
        sending.join().unwrap();
        match wake {
            Wake::Quiet => true,
            Wake::Signal => signals.to(CORE) == 1,
        }
    });
    assert!(signals.to(CORE) <= 1, "two signals");
}

/// Runs the sleeper; `done` lets the senders finish and says whether they signalled as the mode
/// demands.
fn fall_asleep(
    sleeper: Sleeper,
    notifier: &Notifier,
    lines: &Region,
    receivers: &[Receiver],
    done: impl FnOnce() -> bool,
) {
    let look = || receivers.iter().any(Receiver::is_ready);
    if sleeper == Sleeper::HasNoFence {
        let line = &lines.lines()[CORE.index()];
        let bell = line[1].load(Acquire);
        line[0].store(ASLEEP, Release);
        let asleep = !look();
        let signalled = done();
        let over = line[0].load(Acquire) != ASLEEP || line[1].load(Acquire) != bell;
        assert!(!asleep || over && signalled, "lost wake-up");
        return;
    }
    let bell = notifier.doorbells().of(CORE).expect("the node has it");
    let seen_early = sleeper == Sleeper::LooksBeforeItPrepares && look();
    let sleep = bell.prepare();
    let seen = if sleeper == Sleeper::Correct { look() } else { seen_early };
    let rung_early = sleep.is_over();
    if rung_early {
        assert!(receivers.iter().any(Receiver::is_ready), "rung for a message not yet there");
    }
    let signalled = done();
    if !seen {
        assert!(sleep.is_over() && (rung_early || signalled), "lost wake-up");
    }
}

#[test]
fn a_quiet_ring_is_not_lost() {
    loom::model(|| one_message(Wake::Quiet, Sleeper::Correct, Ringer::Correct));
}

#[test]
fn control_quiet_without_looking_again() {
    must_fail("lost wake-up", || {
        one_message(Wake::Quiet, Sleeper::LooksBeforeItPrepares, Ringer::Correct);
    });
}

#[test]
fn control_quiet_ring_before_the_message() {
    must_fail("not yet there", || {
        one_message(Wake::Quiet, Sleeper::Correct, Ringer::RingsFirst);
    });
}

#[test]
fn a_signal_is_not_lost() {
    loom::model(|| one_message(Wake::Signal, Sleeper::Correct, Ringer::Correct));
}

/// How packages wake each other: the signal is a system call.
#[test]
fn a_signal_between_packages_is_not_lost() {
    loom::model(|| one_message(Wake::Signal, Sleeper::Correct, Ringer::AlwaysLoud));
}

#[test]
fn control_signal_between_packages_without_looking_again() {
    must_fail("lost wake-up", || {
        one_message(Wake::Signal, Sleeper::LooksBeforeItPrepares, Ringer::AlwaysLoud);
    });
}

#[test]
fn control_signal_without_looking_again() {
    must_fail("lost wake-up", || {
        one_message(Wake::Signal, Sleeper::LooksBeforeItPrepares, Ringer::Correct);
    });
}

#[test]
fn control_signal_without_the_sender_s_fence() {
    must_fail("lost wake-up", || {
        one_message(Wake::Signal, Sleeper::Correct, Ringer::HasNoFence);
    });
}

#[test]
fn control_signal_without_the_sleeper_s_fence() {
    must_fail("lost wake-up", || {
        one_message(Wake::Signal, Sleeper::HasNoFence, Ringer::Correct);
    });
}

/// Two senders, each with a channel of its own, to one core that falls asleep.
fn two_senders(wake: Wake, ring: fn(&Notifier, &Region, u16, &Signals)) {
    let (lines, notifier, _) = node(CORE, wake);
    let signals = Signals::default();
    let mut receivers = Vec::new();
    let senders = [0, 1].map(|id| {
        let (_, mut sender, receiver) = ends(1, id);
        receivers.push(receiver);
        let (notifier, lines, signals) = (notifier.clone(), lines.clone(), signals.clone());
        thread::spawn(move || {
            sender.try_send(&marked(1)).expect("the ring is empty");
            ring(&notifier, &lines, id, &signals);
        })
    });
    let bell = notifier.doorbells().of(CORE).expect("the node has it");
    let sleep = bell.prepare();
    let seen = receivers.iter().filter(|receiver| receiver.is_ready()).count();
    for sender in senders {
        sender.join().unwrap();
    }
    assert!(signals.to(CORE) <= 1, "two signals");
    if seen < 2 {
        let signalled = wake == Wake::Quiet || signals.to(CORE) == 1;
        assert!(sleep.is_over() && signalled, "lost wake-up");
    }
}

#[test]
fn of_two_senders_one_signals() {
    check(3, || {
        two_senders(Wake::Signal, |notifier, _, id, signals| {
            notifier.notify(EndpointId(id), u64::from(id) << 32 | 1, signals);
        });
    });
}

#[test]
fn control_two_senders_that_do_not_swap() {
    must_fail("two signals", || {
        two_senders(Wake::Signal, |_, lines, _, signals| {
            fence(SeqCst);
            let state = &lines.lines()[CORE.index()][0];
            if state.load(Relaxed) == ASLEEP {
                state.store(0, Release);
                signals.signal(CORE);
            }
        });
    });
}

#[test]
fn of_two_quiet_senders_neither_is_lost() {
    check(3, || {
        two_senders(Wake::Quiet, |notifier, _, id, signals| {
            notifier.notify(EndpointId(id), u64::from(id) << 32 | 1, signals);
        });
    });
}

#[test]
fn control_two_quiet_senders_that_count() {
    must_fail("lost wake-up", || {
        two_senders(Wake::Quiet, |_, lines, _, _| {
            let bell = &lines.lines()[CORE.index()][1];
            let count = bell.load(Relaxed);
            // The exchange orders the stores as the machine does.
            bell.swap(count + 1, Release);
        });
    });
}
