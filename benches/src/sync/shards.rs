//! Shards that share nothing: two threads have half of the keys each, and are asked by messages, a
//! batch of operations at a time.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::client::{BATCH, Batch, Client, Mixes, Operation, Value, keys};
use crate::place::{Cpu, Stay};

/// Owners of shards.
const OWNERS: usize = 2;

/// Messages that an owner has room for.
const CAPACITY: usize = 64;

/// What an owner is asked by one client, and what it answers: the values of all keys that are read.
struct Message {
    client: usize,
    operations: [Operation; BATCH],
    values: [Value; BATCH],
    count: usize,
}

/// A thread's way in.
struct Shards {
    me: usize,
    owners: [SyncSender<Message>; OWNERS],
    answers: Receiver<Message>,
}

/// Clients of all keys to which nothing was added, whose owners are on these CPUs.
pub fn clients(
    count: u32,
    threads: u16,
    cpus: [Cpu; OWNERS],
) -> impl Iterator<Item = impl Client + 'static> {
    let answers: Vec<_> = (0..threads).map(|_| sync_channel(OWNERS)).collect();
    let (answer, answers): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
    let owners = [0, 1].map(|owner| {
        let (send, receive) = sync_channel(CAPACITY);
        let mine = keys(count).filter(|key| owner_of(*key) == owner);
        let map: HashMap<_, _, Mixes> = mine.map(|key| (key, Value::of(key, 0))).collect();
        let (answer, cpu) = (answer.clone(), cpus[owner]);
        thread::spawn(move || own(map, cpu, &receive, &answer));
        send
    });
    let each = answers.into_iter().enumerate();
    each.map(move |(me, answers)| Shards { me, owners: owners.clone(), answers })
}

fn owner_of(key: u64) -> usize {
    (key >> 63) as usize
}

/// Answers messages until there is no client any more.
fn own(
    mut map: HashMap<u64, Value, Mixes>,
    cpu: Cpu,
    messages: &Receiver<Message>,
    answer: &[SyncSender<Message>],
) {
    // It is a little slower elsewhere.
    let _stay = Stay::on(cpu);
    for mut message in messages {
        for at in 0..message.count {
            let Operation { key, is_add } = message.operations[at];
            let value = map.get_mut(&key).expect("the key is here");
            if is_add {
                *value = value.next(key);
            }
            message.values[at] = *value;
        }
        // A client that is gone needs no answer.
        let _ = answer[message.client].send(message);
    }
}

impl Shards {
    /// Asks both owners, and gives what they answer to `each`.
    fn ask(&self, operations: &[Operation], mut each: impl FnMut(Operation, Value)) {
        let mut asked = 0;
        for owner in 0..OWNERS {
            let empty = Operation { key: 0, is_add: false };
            let values = [Value::of(0, 0); BATCH];
            let mut message =
                Message { client: self.me, operations: [empty; BATCH], values, count: 0 };
            for operation in operations.iter().filter(|it| owner_of(it.key) == owner) {
                message.operations[message.count] = *operation;
                message.count += 1;
            }
            if message.count > 0 {
                self.owners[owner].send(message).expect("owners outlive clients");
                asked += 1;
            }
        }
        for message in self.answers.iter().take(asked) {
            let answers = message.operations.into_iter().zip(message.values);
            answers.take(message.count).for_each(|(operation, value)| each(operation, value));
        }
    }
}

impl Client for Shards {
    fn get(&mut self, key: u64) -> Value {
        let mut got = None;
        self.ask(&[Operation { key, is_add: false }], |_, value| got = Some(value));
        got.expect("the owner answers")
    }

    fn add(&mut self, key: u64) {
        self.ask(&[Operation { key, is_add: true }], |_, _| ());
    }

    fn batch(&mut self, batch: &Batch) -> u64 {
        let mut torn = 0;
        self.ask(&batch.operations, |operation, value| {
            torn += u64::from(!value.is_whole(operation.key));
        });
        torn
    }
}
