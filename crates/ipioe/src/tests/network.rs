//! Endpoints on a network in memory, in virtual time, that a test can interfere with.

use std::boxed::Box;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};

use crate::wire::BootNonce;
use crate::{Asker, ClusterKey, Endpoint, Event, Request, ServingId, Settings};

/// What becomes of a frame: how many times it arrives, and how much later than others.
pub type Fate = Box<dyn FnMut(usize, &mut Vec<u8>) -> Vec<Duration>>;

pub struct Network {
    pub now: Instant,
    pub nodes: Vec<Endpoint>,
    /// When, from which node, the frame.
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    pub fate: Fate,
    /// Every frame that was sent.
    pub captured: Vec<Vec<u8>>,
    pub events: Vec<VecDeque<Event>>,
}

pub const DELAY: Duration = Duration::from_micros(10);

pub fn mac(node: u32) -> MacAddress {
    MacAddress::local(NodeId(node), 0)
}

pub fn settings(node: u32, generation: u32, key: Option<u8>) -> Settings {
    let nonce = BootNonce([(node.wrapping_mul(16) + generation) as u8; 16]);
    let key = key.map(|byte| ClusterKey([byte; 32]));
    let (node, generation) = (NodeId(node), Generation(generation));
    Settings { key, ..Settings::new(node, generation, mac(node.0), nonce) }
}

pub fn nodes(count: u32, key: Option<u8>) -> Vec<Endpoint> {
    (1..=count).map(|node| Endpoint::new(settings(node, 1, key))).collect()
}

pub fn request(to: u32, deadline: Instant) -> Request {
    Request {
        to: NodeId(to),
        generation: None,
        source_core: CoreId(3),
        core: CoreId(4),
        service: 5,
        method: 6,
        encoded: true,
        asker: Asker::Kernel,
        deadline,
    }
}

impl Network {
    pub fn new(nodes: Vec<Endpoint>) -> Network {
        let events = nodes.iter().map(|_| VecDeque::new()).collect();
        Network {
            now: Instant::from_nanos(1_000_000),
            nodes,
            wire: VecDeque::new(),
            fate: Box::new(|_, _| vec![DELAY]),
            captured: Vec::new(),
            events,
        }
    }

    pub fn later(&self, millis: u64) -> Instant {
        self.now + Duration::from_millis(millis)
    }

    /// Takes what the endpoints want to send and to tell.
    pub fn flush(&mut self) {
        let mut buffer = [0; 1514];
        for index in 0..self.nodes.len() {
            while let Some(bytes) = self.nodes[index].transmit(self.now, &mut buffer) {
                let mut frame = buffer[..bytes].to_vec();
                self.captured.push(frame.clone());
                for delay in (self.fate)(index, &mut frame) {
                    let at = self.now + delay;
                    let place = self.wire.partition_point(|(other, ..)| *other <= at);
                    self.wire.insert(place, (at, index, frame.clone()));
                }
            }
            while let Some(event) = self.nodes[index].poll() {
                self.events[index].push_back(event);
            }
        }
    }

    /// Does the next thing that happens, if it does by `end`.
    pub fn step(&mut self, end: Instant) -> bool {
        self.flush();
        let due = self.nodes.iter().filter_map(Endpoint::next_due).min();
        let arrival = self.wire.front().map(|(at, ..)| *at);
        let next = due.into_iter().chain(arrival).min().filter(|next| *next <= end);
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        if arrival.is_some_and(|at| at <= self.now) {
            if let Some((_, from, frame)) = self.wire.pop_front() {
                let now = self.now;
                let others = self.nodes.iter_mut().enumerate().filter(|(to, _)| *to != from);
                others.for_each(|(_, node)| node.receive(now, &frame));
            }
        } else {
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.on_time(now));
        }
        self.flush();
        true
    }

    /// Lets `millis` pass.
    pub fn run(&mut self, millis: u64) {
        let end = self.later(millis);
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until a node has an event that `is` it, which is taken.
    pub fn wait<T>(&mut self, node: usize, millis: u64, is: impl Fn(&Event) -> Option<T>) -> T {
        let end = self.later(millis);
        self.flush();
        loop {
            if let Some(at) = self.events[node].iter().position(|event| is(event).is_some()) {
                let event = self.events[node].remove(at).expect("it is there");
                return is(&event).expect("it was it");
            }
            assert!(self.step(end), "nothing: {:?} {:?}", self.events, self.nodes[node].counters());
        }
    }

    pub fn wait_request(&mut self, node: usize) -> (ServingId, Vec<u8>) {
        self.wait(node, 1000, |event| match event {
            Event::Request { serving, data, .. } => Some((*serving, data.clone())),
            _ => None,
        })
    }

    pub fn wait_end(&mut self, node: usize) -> crate::End {
        self.wait(node, 10_000, |event| match event {
            Event::Ended { end, .. } => Some(end.clone()),
            _ => None,
        })
    }

    /// Calls from the first node to the second, which answers; the reply.
    pub fn call(&mut self, data: &[u8], answer: &[u8]) -> Vec<u8> {
        let deadline = self.later(5000);
        self.events.iter_mut().for_each(VecDeque::clear);
        self.nodes[0].call(self.now, request(2, deadline), data.to_vec()).expect("room");
        let (serving, asked) = self.wait_request(1);
        assert_eq!(asked, data);
        self.nodes[1].reply(self.now, serving, Status::Ok, false, answer.to_vec()).expect("waited");
        match self.wait_end(0) {
            crate::End::Answered { status: Status::Ok, encoded: false, data } => data,
            other => panic!("{other:?}"),
        }
    }
}
