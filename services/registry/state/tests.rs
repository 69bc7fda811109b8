//! What the registry keeps, and for how long.

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Waker};

use alloc::sync::Arc;
use alloc::task::Wake;

use super::*;
use nile_registry::EXPELLED;

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

fn rating(number: u16, latency_ns: u64, calls: u32) -> Rating {
    let found = Found { node: 0, core: CORE.0, generation: 1, number };
    Rating { found, latency_ns, failures_ppm: 10, calls }
}

#[test]
fn what_was_measured_is_the_mean_of_the_cores_until_it_is_old() {
    let state = State::default();
    state.publish(CORE, &time(1, 5)).unwrap();
    let inner = &mut *state.0.borrow_mut();
    let id = *inner.places.keys().next().unwrap();
    let at = |seconds| Instant::START + core::time::Duration::from_secs(seconds);
    let latency = |inner: &Inner| {
        inner.registry.instance(id).unwrap().quality().map(|quality| quality.latency_ns)
    };
    let observed = &mut inner.observed;
    observed.note(&mut inner.registry, id, CoreId(1), &rating(5, 100, 30), at(0));
    observed.note(&mut inner.registry, id, CoreId(2), &rating(5, 500, 10), at(6));
    assert_eq!(latency(inner), Some(200));
    inner.observed.age(&mut inner.registry, at(9));
    assert_eq!(latency(inner), Some(200));
    inner.observed.age(&mut inner.registry, at(11));
    assert_eq!(latency(inner), Some(500), "what the first found is old");
    inner.observed.age(&mut inner.registry, at(17));
    assert_eq!(latency(inner), None, "nobody has called it of late");
    // More cores than are kept, and an instance that has ended.
    for core in 0..100 {
        let rating = rating(5, 1 + u64::from(core), 1);
        inner.observed.note(&mut inner.registry, id, CoreId(core), &rating, at(20));
    }
    assert!(latency(inner).is_some_and(|mean| (93..=100).contains(&mean)));
    inner.remove(id);
    inner.observed.age(&mut inner.registry, at(21));
}

#[test]
fn what_offers_has_only_pure_methods() {
    let state = State::default();
    for (number, name) in [(1, "time"), (2, "ackermann")] {
        let publication = Publication { name: name.into(), ..time(1, number) };
        state.publish(CORE, &publication).unwrap();
    }
    let rated = [rating(2, 77, 1), rating(99, 1, 1)];
    state.observe(CoreId(1), &rated);
    let offers = state.offers(0);
    let it = |offer: &Offered| (offer.name.clone(), offer.latency_ns, offer.measured);
    assert_eq!(offers.iter().map(it).collect::<Vec<_>>(), [("ackermann".into(), Some(77), true)]);
    assert_eq!(state.offers(1), []);
}

#[test]
fn an_expelled_policy_says_so_on_its_node_and_on_others() {
    let (own, other) = (State::default(), State::default());
    let fair = |number| Publication { name: "fair".into(), ..time(1, number) };
    own.publish(CORE, &fair(5)).unwrap();
    let at = |node, number| {
        let (core, generation, number) = (CORE, Generation(1), ServiceNumber(number));
        Place { node: NodeId(node), core, generation, number }
    };
    let entry = |state: &State| {
        let inner = state.0.borrow();
        let (id, _) = inner.places.iter().next().unwrap();
        inner.registry.instance(*id).unwrap().text(EXPELLED).map(String::from)
    };
    let why = "n1.c2: it lied";
    assert_eq!(own.expel(at(0, 6), why).unwrap_err().status, Status::NotFound);
    assert_eq!(entry(&own), None);
    own.expel(at(0, 5), why).unwrap();
    assert_eq!(entry(&own).as_deref(), Some(why));
    assert_eq!(own.local(0)[0].attributes.last(), Some(&told(why)));

    // Another node hears of it when it was published, and once more when it was expelled.
    let there = At { node: NodeId(7), core: CORE };
    other.publish(there, &fair(9)).unwrap();
    assert_eq!(entry(&other), None);
    for why in ["n7.c2: it lied", "n7.c3: it gave nothing"] {
        let attributes = Vec::from([told(why)]);
        other.publish(there, &Publication { attributes, ..fair(9) }).unwrap();
        assert_eq!(entry(&other).as_deref(), Some(why));
        assert_eq!(other.list(0).len(), 1);
    }
    // Published anew, it is a policy like any other.
    own.publish(CORE, &fair(6)).unwrap();
    other.publish(there, &fair(10)).unwrap();
    assert_eq!((entry(&own), entry(&other)), (None, None));
}

fn told(why: &str) -> NamedValue {
    NamedValue::from(&Attribute::text(EXPELLED, String::from(why)))
}
