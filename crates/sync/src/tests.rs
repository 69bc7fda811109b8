//! Waiting tasks, polled by hand.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::Cell;
use core::future::{Future, pending};
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};

use super::*;

/// How often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that is polled by hand.
struct Task<T> {
    woken: Arc<Woken>,
    future: Option<Pin<Box<dyn Future<Output = T>>>>,
}

impl<T> Task<T> {
    fn new(future: impl Future<Output = T> + 'static) -> Task<T> {
        Task { woken: Arc::default(), future: Some(Box::pin(future)) }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(self.woken.clone());
        let future = self.future.as_mut().expect("it goes on");
        future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_waiter_is_woken_once_for_each_wait() {
    let (waiter, woken) = (Waiter::default(), Arc::new(Woken::default()));
    assert!(!waiter.wake(), "nobody waits");
    let waker = Waker::from(woken.clone());
    for times in 1..3 {
        waiter.wait(&waker);
        assert!(waiter.waits() && waiter.wake() && !waiter.waits() && !waiter.wake());
        assert_eq!(woken.0.load(Ordering::Relaxed), times);
    }
    waiter.wait(&waker);
    waiter.forget();
    assert!(!waiter.wake());
    let other = Arc::new(Woken::default());
    waiter.wait(&waker);
    waiter.wait(&Waker::from(other.clone()));
    assert!(waiter.wake());
    assert_eq!((woken.0.load(Ordering::Relaxed), other.0.load(Ordering::Relaxed)), (2, 1));
}

#[test]
fn all_who_wait_look_again_and_who_stops_leaves_nothing() {
    let (notify, value) = (Rc::new(Notify::default()), Rc::new(Cell::new(0)));
    let until = |least: u32| {
        let (notify, value) = (notify.clone(), value.clone());
        Task::new(async move {
            notify.until(|| Some(value.get()).filter(|value| *value >= least)).await
        })
    };
    assert_eq!(until(0).poll(), Poll::Ready(0), "it looks at once");
    let (mut one, mut two) = (until(1), until(2));
    assert!(one.poll().is_pending() && two.poll().is_pending() && two.poll().is_pending());
    value.set(1);
    assert!(notify.notify());
    assert_eq!((one.woken(), two.woken()), (1, 1));
    assert_eq!(one.poll(), Poll::Ready(1));
    assert!(two.poll().is_pending() && notify.waits());
    two.future = None;
    assert!(!notify.waits() && !notify.notify());
    assert_eq!(two.woken(), 1);
}

#[test]
fn the_next_change_is_waited_for_even_if_one_just_was() {
    let notify = Rc::new(Notify::default());
    notify.notify();
    let waiting = notify.clone();
    let mut next = Task::new(async move { waiting.next().await });
    assert!(next.poll().is_pending());
    notify.notify();
    assert_eq!((next.woken(), next.poll()), (1, Poll::Ready(())));
}

#[test]
fn a_flag_ends_what_it_is_raised_for() {
    let flag = Rc::new(Flag::default());
    let dropped = Rc::new(Cell::new(false));
    struct Told(Rc<Cell<bool>>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let (waiting, told) = (flag.clone(), Told(dropped.clone()));
    let mut or = Task::new(async move {
        let work = async move {
            let _told = told;
            pending::<u32>().await
        };
        waiting.or(work).await
    });
    assert!(or.poll().is_pending());
    flag.raise();
    assert_eq!((or.woken(), or.poll(), dropped.get()), (1, Poll::Ready(None), true));
    let raised = flag.clone();
    assert_eq!(Task::new(async move { raised.raised().await }).poll(), Poll::Ready(()));
    // Who was done before is not woken for it.
    let other = Rc::new(Flag::default());
    let waiting = other.clone();
    let mut done = Task::new(async move { waiting.or(async { 7 }).await });
    assert_eq!(done.poll(), Poll::Ready(Some(7)));
    other.raise();
    assert_eq!(done.woken(), 0);
}

#[test]
fn a_value_is_given_once() {
    let given = OneShot::default();
    let mut taken = Task::new(given.clone());
    assert!(taken.poll().is_pending());
    given.give("it");
    assert_eq!((taken.woken(), taken.poll()), (1, Poll::Ready("it")));
    assert_eq!(given.take(), None);
    given.give("more");
    assert_eq!(Task::new(given.clone()).poll(), Poll::Ready("more"));
}

#[test]
fn a_turn_comes_when_the_last_one_is_over() {
    let lock = Rc::new(Lock::default());
    let take = || {
        let lock = lock.clone();
        Task::new(async move {
            let _turn = lock.take().await;
            pending::<()>().await
        })
    };
    let (mut one, mut two) = (take(), take());
    assert!(one.poll().is_pending() && two.poll().is_pending());
    one.future = None;
    assert_eq!(two.woken(), 1);
    let mut three = take();
    assert!(two.poll().is_pending() && three.poll().is_pending());
    two.future = None;
    assert_eq!(three.woken(), 1);
}

#[test]
fn a_task_that_yields_is_polled_again() {
    let mut task = Task::new(yield_now());
    assert!(task.poll().is_pending());
    assert_eq!((task.woken(), task.poll()), (1, Poll::Ready(())));
}

#[test]
fn the_first_of_two_that_is_ready_is_taken() {
    let (one, two) = (OneShot::default(), OneShot::default());
    let mut either = Task::new(first(one.clone(), two.clone()));
    assert!(either.poll().is_pending());
    two.give(2);
    assert_eq!((either.woken(), either.poll()), (1, Poll::Ready(2)));
    one.give(1);
    two.give(2);
    assert_eq!(Task::new(first(one, two)).poll(), Poll::Ready(1));
}
