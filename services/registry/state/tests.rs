//! What the registry keeps, and for how long.

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Waker};

use alloc::sync::Arc;
use alloc::task::Wake;

use super::*;

const CORE: CoreId = CoreId(3);

fn time(generation: u32, number: u16) -> Publication {
    Publication { name: "time".into(), generation, number, ..Publication::default() }
}

fn found(state: &State) -> Vec<(u32, u16)> {
    let listed = state.list(0);
    listed.iter().map(|it| (it.found.generation, it.found.number)).collect()
}

#[test]
fn a_core_has_one_instance_of_a_name_the_one_it_published_last() {
    let state = State::default();
    // What it asks again is no error: it may not have heard the answer.
    for (generation, number) in [(1, 5), (1, 5), (1, 6), (2, 5)] {
        assert_eq!(state.publish(CORE, &time(generation, number)), Ok(()));
        assert_eq!(found(&state), [(generation, number)]);
    }
    state.publish(CoreId(4), &time(1, 5)).unwrap();
    assert_eq!(found(&state).len(), 2);
    state.0.borrow_mut().forget(CORE, Generation(1));
    assert_eq!(found(&state).len(), 2, "its next incarnation's stays");
    state.0.borrow_mut().forget(CORE, Generation(2));
    assert_eq!(found(&state), [(1, 5)]);
}

#[test]
fn who_has_ended_watches_nothing() {
    let state = State::default();
    let kept = state.watch(CoreId(1), "").unwrap();
    let mut watched = 1;
    while state.watch(CORE, "").is_ok() {
        watched += 1;
    }
    assert_eq!(watched, nile_registry::limits::MAX_WATCHERS);
    state.0.borrow_mut().forget(CORE, Generation(1));
    assert!(state.watch(CORE, "").is_ok());
    assert_eq!(state.changes(kept), Ok(Vec::new()));
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_change_wakes_all_who_wait_and_nobody_else_is_kept() {
    let state = State::default();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let news = state.news();
    let wait = || news.until(|| None::<()>);
    let (mut first, mut second) = (pin!(wait()), pin!(wait()));
    let mut context = Context::from_waker(&waker);
    for _ in 0..3 {
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        // One that gives up.
        assert!(pin!(wait()).poll(&mut context).is_pending());
    }
    state.publish(CORE, &time(1, 5)).unwrap();
    assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    assert!(!news.waits());
}
