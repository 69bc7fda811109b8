//! Messages on their way. Nobody waits for them: what is lost is said again. One message at a time
//! is on its way to each of those who hear, so that who does not answer holds up nobody else.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::{CoreId, NodeId};
use nile_bosml::Bytes;
use nile_job::{JobId, ToKeeper, ToWorker, WorkerId};
use nile_order::SortedMap;
use nile_stl::Stl;

use super::cluster::{Cluster, SOON, spawn};
use nile_interfaces::job::JobClient;

/// Messages that wait for a keeper; of older ones the first are dropped.
const MOST_TO_KEEPER: usize = 8;

/// Who hears.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Worker(JobId, WorkerId),
    Keeper(JobId, NodeId),
}

/// The messages of this node's masters and keepers.
pub struct Post {
    stl: Stl,
    cluster: Rc<Cluster>,
    /// What waits for each of those that something is on its way to.
    waiting: RefCell<SortedMap<To, VecDeque<Vec<u8>>>>,
}

impl Post {
    /// An empty one.
    pub fn new(stl: &Stl, cluster: &Rc<Cluster>) -> Post {
        let stl = stl.with_patience(SOON);
        Post { stl, cluster: cluster.clone(), waiting: RefCell::default() }
    }

    /// Sends a master's message. It has all that the last one had and was not acknowledged, so
    /// only the latest waits.
    pub fn to_worker(self: &Rc<Self>, worker: WorkerId, message: &ToWorker) {
        if let Ok(bytes) = message.encode() {
            self.send(To::Worker(message.job, worker), bytes, 1);
        }
    }

    /// Sends a keeper's message.
    pub fn to_keeper(self: &Rc<Self>, node: NodeId, message: &ToKeeper) {
        if let Ok(bytes) = message.encode() {
            self.send(To::Keeper(message.job, node), bytes, MOST_TO_KEEPER);
        }
    }

    fn send(self: &Rc<Self>, to: To, bytes: Vec<u8>, most: usize) {
        let mut waiting = self.waiting.borrow_mut();
        if let Some(queue) = waiting.get_mut(&to) {
            queue.push_back(bytes);
            if queue.len() > most {
                queue.pop_front();
            }
            return;
        }
        waiting.insert(to, VecDeque::new());
        drop(waiting);
        let post = self.clone();
        spawn(&self.stl, async move {
            let mut next = Some(bytes);
            while let Some(bytes) = next {
                post.carry(to, &bytes).await;
                let mut waiting = post.waiting.borrow_mut();
                next = waiting.get_mut(&to).and_then(VecDeque::pop_front);
                if next.is_none() {
                    waiting.remove(&to);
                }
            }
        });
    }

    async fn carry(&self, to: To, bytes: &[u8]) {
        // Whatever comes of it: it is said again until an answer comes.
        match to {
            To::Worker(_, worker) => {
                let Some(line) = self.cluster.line(worker) else { return };
                let _ = line.orders(&self.stl, bytes).await;
            }
            To::Keeper(_, node) => {
                let at = self.cluster.at(node, CoreId::BOOT);
                if let Ok(client) = JobClient::find_at(&self.stl, at).await {
                    let _ = client.keep(Bytes::from(bytes)).await;
                }
            }
        }
    }
}
