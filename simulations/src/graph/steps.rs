//! Tasks that go on in any order, a step at a time, and that may end at any step.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use super::World;

/// Tasks, by their numbers.
#[derive(Default)]
pub struct Steps(Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>);

impl Steps {
    /// Begins a task; its number.
    pub fn start(&mut self, task: impl Future<Output = ()> + 'static) -> usize {
        self.0.push(Some(Box::pin(task)));
        self.0.len() - 1
    }

    /// Has one of the tasks go on.
    pub fn step(&mut self, world: &World) {
        let there: Vec<usize> =
            (0..self.0.len()).filter(|number| self.0[*number].is_some()).collect();
        if there.is_empty() {
            return;
        }
        let number = there[world.below(there.len() as u64) as usize];
        if let Some(task) = &mut self.0[number]
            && task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        {
            self.0[number] = None;
        }
    }

    /// Ends a task where it is; whether it went on.
    pub fn kill(&mut self, number: usize) -> bool {
        self.0[number].take().is_some()
    }

    /// Ends all.
    pub fn end(&mut self) {
        self.0.clear();
    }

    /// Whether all have ended.
    pub fn are_over(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Lets others go on.
pub async fn pause() {
    let mut is_over = false;
    poll_fn(|_| match std::mem::replace(&mut is_over, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Has both go on until one ends.
pub async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await;
}
