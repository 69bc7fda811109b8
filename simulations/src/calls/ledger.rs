//! What the calls of a run promise, kept apart from the endpoints that make them.

use std::collections::{BTreeMap, HashSet};

use nile_abi::{Generation, Instant, NodeId, Status};
use nile_ipioe::End;

/// A call, by the number that its data begin with.
pub type Token = u64;

/// Bytes of a request before its filling, and of a reply.
const HEAD_BYTES: usize = 16;

/// A call that was made.
pub struct Promise {
    pub from: NodeId,
    pub to: NodeId,
    /// The incarnation of the callee that the caller knew, if any.
    pub known: Option<Generation>,
    pub wanted: Option<Generation>,
    pub deadline: Instant,
    pub request_bytes: usize,
    pub reply_bytes: usize,
    has_ended: bool,
    /// The incarnation that did it.
    done: Option<Generation>,
    is_refused: bool,
}

/// All promises of a run, and every frame that was sent honestly.
#[derive(Default)]
pub struct Ledger {
    promises: BTreeMap<Token, Promise>,
    next: Token,
    /// Gossip and broadcasts, by token: whose, and how many bytes.
    told: BTreeMap<Token, (NodeId, usize)>,
    /// Names of the frames that nodes sent.
    genuine: HashSet<u64>,
    pub answered: u64,
    pub timed_out: u64,
    pub dead: u64,
    pub busy: u64,
}

/// The data that begin with these words: the filling follows from them.
fn data(words: [u64; 2], bytes: usize) -> Vec<u8> {
    let mut data = [words[0].to_be_bytes(), words[1].to_be_bytes()].concat();
    let fill = words[0].wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ words[1];
    let pattern = fill.to_be_bytes().into_iter().cycle();
    data.extend(pattern.take(bytes.saturating_sub(HEAD_BYTES)));
    data
}

fn words(data: &[u8]) -> Option<[u64; 2]> {
    let word = |at: usize| Some(u64::from_be_bytes(*data.get(at..)?.first_chunk()?));
    Some([word(0)?, word(8)?])
}

/// A reply names who did the call.
fn reply_words(token: Token, by: NodeId, generation: Generation) -> [u64; 2] {
    [!token, u64::from(by.0) << 32 | u64::from(generation.0)]
}

impl Promise {
    pub fn new(from: NodeId, to: NodeId, deadline: Instant, bytes: [usize; 2]) -> Promise {
        Promise {
            from,
            to,
            known: None,
            wanted: None,
            deadline,
            request_bytes: bytes[0].max(HEAD_BYTES),
            reply_bytes: bytes[1].max(HEAD_BYTES),
            has_ended: false,
            done: None,
            is_refused: false,
        }
    }
}

impl Ledger {
    fn token(&mut self) -> Token {
        self.next += 1;
        self.next
    }

    /// A call is to be made; its data.
    pub fn promise(&mut self, promise: Promise) -> (Token, Vec<u8>) {
        let token = self.token();
        let data = data([token, u64::from(promise.to.0)], promise.request_bytes);
        self.promises.insert(token, promise);
        (token, data)
    }

    /// The endpoint did not take the call.
    pub fn withdraw(&mut self, token: Token) {
        self.promises.remove(&token);
    }

    /// A node's incarnation is told to do a call; which one it is.
    pub fn execute(
        &mut self,
        node: NodeId,
        generation: Generation,
        from: NodeId,
        request: &[u8],
    ) -> Result<Token, String> {
        let token = words(request).map_or(0, |words| words[0]);
        let Some(promise) = self.promises.get_mut(&token) else {
            return Err(format!("{node} was told to do a call that nobody made"));
        };
        if (promise.from, promise.to) != (from, node)
            || data([token, u64::from(node.0)], promise.request_bytes) != request
        {
            return Err(format!("call {token} reached {node} from {from} in another form"));
        }
        if let Some(before) = promise.done {
            return Err(format!("call {token} was done twice by {node}: {before}, {generation}"));
        }
        if promise.is_refused {
            return Err(format!("call {token} was refused as busy and then done by {node}"));
        }
        if promise.wanted.is_some_and(|wanted| wanted != generation) {
            return Err(format!("call {token} reached another incarnation of {node}"));
        }
        promise.done = Some(generation);
        Ok(token)
    }

    /// What a node's incarnation answers.
    pub fn reply(&self, token: Token, node: NodeId, generation: Generation) -> Vec<u8> {
        let bytes = self.promises.get(&token).map_or(0, |promise| promise.reply_bytes);
        data(reply_words(token, node, generation), bytes)
    }

    /// A call ended at its caller, where the callee's incarnation is `lives` by now.
    pub fn end(
        &mut self,
        now: Instant,
        token: Token,
        end: &End,
        lives: Generation,
    ) -> Result<(), String> {
        let promise = self.promises.get_mut(&token).ok_or("a call ended that nobody made")?;
        if std::mem::replace(&mut promise.has_ended, true) {
            return Err(format!("call {token} ended twice"));
        }
        if now > promise.deadline {
            return Err(format!("call {token} ended after its deadline"));
        }
        match end {
            End::Answered { status: Status::Ok, data: reply, .. } => {
                self.answered += 1;
                let Some(by) = promise.done else {
                    return Err(format!("call {token} was answered and never done"));
                };
                if data(reply_words(token, promise.to, by), promise.reply_bytes) != *reply {
                    return Err(format!("call {token} got another call's reply"));
                }
            }
            End::Answered { status: Status::Busy, .. } => {
                self.busy += 1;
                promise.is_refused = true;
                if promise.done.is_some() {
                    return Err(format!("call {token} was done and then refused as busy"));
                }
            }
            End::Answered { status: Status::NoMemory, .. } if promise.done.is_some() => {}
            End::Answered { status, .. } => {
                return Err(format!("call {token} ended as {status}, which nobody said"));
            }
            End::TimedOut => self.timed_out += 1,
            End::Dead => {
                self.dead += 1;
                let believed = promise.wanted.or(promise.known).unwrap_or(Generation::FIRST);
                if lives <= believed {
                    return Err(format!("call {token} ended as dead, and its callee lives"));
                }
            }
        }
        Ok(())
    }

    /// The calls of a node's incarnation ended with it.
    pub fn forget(&mut self, tokens: impl Iterator<Item = Token>) {
        for token in tokens {
            if let Some(promise) = self.promises.get_mut(&token) {
                promise.has_ended = true;
            }
        }
    }

    /// Calls whose deadline has passed and that have not ended.
    pub fn overdue(&self, now: Instant) -> Option<Token> {
        let mut promises = self.promises.iter();
        promises.find(|(_, it)| !it.has_ended && it.deadline < now).map(|(token, _)| *token)
    }

    /// Something that is told without an answer; its data.
    pub fn tell(&mut self, from: NodeId, bytes: usize) -> Vec<u8> {
        let token = self.token();
        self.told.insert(token, (from, bytes.max(HEAD_BYTES)));
        data([token, 0], bytes)
    }

    /// Something was told to a node; its token.
    pub fn heard(&self, from: NodeId, heard: &[u8]) -> Result<Token, String> {
        let token = words(heard).map_or(0, |words| words[0]);
        match self.told.get(&token) {
            Some((by, bytes)) if *by == from && data([token, 0], *bytes) == heard => Ok(token),
            _ => Err(format!("gossip that {from} never sent was taken for its own")),
        }
    }

    /// A node sent a frame of this name.
    pub fn sent(&mut self, name: u64) {
        self.genuine.insert(name);
    }

    /// Whether a node ever sent a frame of this name.
    pub fn is_genuine(&self, name: u64) -> bool {
        self.genuine.contains(&name)
    }
}

/// A frame's name: the hash of everything but the address that it goes to, which no seal covers.
pub fn name(frame: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(frame.get(6..).unwrap_or_default());
    hasher.finish()
}
