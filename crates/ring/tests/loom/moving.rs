//! A receiver moves while its sender sends. Whenever the message is announced, the core that
//! runs the receiver in the end has seen it, or is woken in the way in which it sleeps.

use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::atomic::fence;
use loom::thread;
use nile_abi::{CoreId, EndpointId};
use nile_ring::{Mover, Notifier, Sender, Wake};

use crate::{Signals, check, ends, marked, must_fail, node};

const RECEIVER: EndpointId = EndpointId(0);

type Place = (CoreId, Wake);
const DEDICATED: Place = (CoreId(0), Wake::Quiet);
const SHARED: Place = (CoreId(1), Wake::Signal);

/// What a move may leave out.
#[derive(Clone, Copy, PartialEq)]
enum Care {
    Correct,
    NoFence,
    NoNotification,
}

/// Where the sending core is when it executes the fence that a move asks it for.
#[derive(Clone, Copy, PartialEq)]
enum Fenced {
    BeforeItSends,
    BeforeItRings,
    AfterItRang,
}

const ANYWHERE: [Fenced; 3] = [Fenced::BeforeItSends, Fenced::BeforeItRings, Fenced::AfterItRang];

/// The sending core, which runs up to its fence and then the rest.
struct Sending {
    sender: Option<Sender>,
    notifier: Notifier,
    signals: Signals,
    fenced: Fenced,
    running: Option<thread::JoinHandle<Sender>>,
}

impl Sending {
    fn start(sender: Sender, notifier: Notifier, signals: Signals, fenced: Fenced) -> Sending {
        let mut this = Sending { sender: Some(sender), notifier, signals, fenced, running: None };
        this.run(fenced != Fenced::BeforeItSends, fenced == Fenced::AfterItRang);
        this
    }

    /// Executes the fence: all before it is done, what comes after it has not begun.
    fn fence(&mut self) {
        self.join();
        self.run(self.fenced == Fenced::BeforeItSends, self.fenced != Fenced::AfterItRang);
    }

    fn run(&mut self, sends: bool, rings: bool) {
        if !sends && !rings {
            return;
        }
        let mut sender = self.sender.take().expect("it is not running");
        let (notifier, signals) = (self.notifier.clone(), self.signals.clone());
        self.running = Some(thread::spawn(move || {
            if sends {
                sender.try_send(&marked(1)).expect("the ring is empty");
            }
            if rings {
                sender.notify(&notifier, &signals);
            }
            fence(SeqCst);
            sender
        }));
    }

    fn join(&mut self) {
        if let Some(running) = self.running.take() {
            self.sender = Some(running.join().unwrap());
        }
    }
}

/// What the manager does: moves the receiver through `steps`.
fn manage(mut mover: Mover, steps: &[Place], care: Care, sending: &mut Sending) {
    for &(home, wake) in steps {
        let step = mover.begin(RECEIVER, home, wake).expect("it is in the map");
        if step.needs_fence() && care != Care::NoFence {
            sending.fence();
        }
        if care != Care::NoNotification {
            step.finish(&sending.signals);
        }
    }
}

/// Moves the receiver from `first` through `steps`, the last of which is where it stays.
fn moving(first: Place, steps: &'static [Place], care: Care, fenced: Fenced) {
    let (_, sender, receiver) = ends(1, RECEIVER.0);
    let (_, notifier, mover) = node(first.0, first.1);
    let signals = Signals::default();
    let managing = {
        let (notifier, signals) = (notifier.clone(), signals.clone());
        thread::spawn(move || {
            let mut sending = Sending::start(sender, notifier, signals, fenced);
            manage(mover, steps, care, &mut sending);
            sending.join();
        })
    };

    // The core on which the receiver stays, from when it runs out of work.
    let (home, _) = *steps.last().expect("a move");
    let bell = notifier.doorbells().of(home).expect("the node has it");
    let sleep = bell.prepare();
    let map = notifier.map();
    let watches = map.home(RECEIVER) == Some(home) && !map.needs_signal(RECEIVER);
    let seen = receiver.is_ready();
    let waits = !sleep.is_over();
    managing.join().unwrap();
    if waits && !seen {
        assert!(sleep.is_over() && (watches || signals.to(home) == 1), "lost wake-up");
    }
}

#[test]
fn from_a_dedicated_core_to_a_shared_one() {
    for fenced in ANYWHERE {
        check(2, move || moving(DEDICATED, &[SHARED], Care::Correct, fenced));
    }
}

#[test]
fn from_a_shared_core_to_a_dedicated_one() {
    check(2, || moving(SHARED, &[DEDICATED], Care::Correct, Fenced::AfterItRang));
}

#[test]
fn to_a_shared_core_and_back() {
    for fenced in ANYWHERE {
        check(2, move || moving(DEDICATED, &[SHARED, DEDICATED], Care::Correct, fenced));
    }
}

#[test]
fn to_a_dedicated_core_and_back() {
    for fenced in ANYWHERE {
        check(2, move || moving(SHARED, &[DEDICATED, SHARED], Care::Correct, fenced));
    }
}

#[test]
fn a_core_becomes_shared_or_dedicated_under_its_receiver() {
    for fenced in ANYWHERE {
        let becomes_shared: &[Place] = &[(DEDICATED.0, Wake::Signal)];
        check(2, move || moving(DEDICATED, becomes_shared, Care::Correct, fenced));
    }
    let becomes_dedicated: &[Place] = &[(SHARED.0, Wake::Quiet)];
    check(2, || moving(SHARED, becomes_dedicated, Care::Correct, Fenced::AfterItRang));
}

#[test]
fn control_to_a_shared_core_without_the_extra_notification() {
    must_fail("lost wake-up", || {
        moving(DEDICATED, &[SHARED], Care::NoNotification, Fenced::AfterItRang);
    });
}

#[test]
fn control_to_a_dedicated_core_without_the_extra_notification() {
    must_fail("lost wake-up", || {
        moving(SHARED, &[DEDICATED], Care::NoNotification, Fenced::AfterItRang);
    });
}

#[test]
fn control_to_a_shared_core_without_the_fence() {
    must_fail("lost wake-up", || {
        moving(DEDICATED, &[SHARED], Care::NoFence, Fenced::AfterItRang);
    });
}

#[test]
fn control_there_and_back_without_the_extra_notifications() {
    must_fail("lost wake-up", || {
        moving(SHARED, &[DEDICATED, SHARED], Care::NoNotification, Fenced::AfterItRang);
    });
}
