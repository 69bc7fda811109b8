//! What other cores send: cells that are to be frames, and frames that are to be calls.

use std::task::{Context, Poll, Waker};

use nile_abi::{CoreId, Generation, Status};
use nile_interfaces::time::TimeClient;
use nile_ring::{Message, PAYLOAD_BYTES};
use nile_services::ackermann::AckermannClient;
use nile_stl::frame::{Assembler, CallId, Header, MAX_DATA, cells};
use nile_stl::{CallResult, FIRST_SERVICE, LocalFuture, PeerEnd, Place};

use crate::input::Input;
use crate::node::{CORES, TestHost};

/// Steps of one input.
const MOST_STEPS: usize = 64;

/// Calls that wait for what other cores say.
struct Waiting(Vec<(CoreId, LocalFuture<'static, CallResult<u64>>)>);

/// Steps: a cell from a core, any cell at all; a call to a core; the news that a core is gone.
/// Accepted: a frame was complete.
pub fn frame(bytes: &[u8]) -> bool {
    let host = TestHost::new();
    let (stl, _) = host.serve();
    let mut input = Input::new(bytes);
    let mut assemblers: [Assembler; CORES] = Default::default();
    let mut waiting = Waiting(Vec::new());
    let (mut requests, mut calls, mut frames) = (0, 0, 0);
    for _ in 0..MOST_STEPS {
        let Some([step, from]) = input.take() else { break };
        // This core sends itself nothing.
        let from = CoreId(1 + u16::from(from) % (CORES as u16 - 1));
        match step {
            0xff => {
                stl.peer_ended(from, Generation::FIRST, PeerEnd::By(CallId(u64::from(step))));
                host.poll_tasks();
                waiting.check(Some(from));
                assemblers[from.index()] = Assembler::default();
            }
            0xfe => {
                let generation = Generation::FIRST;
                let node = Place::HERE;
                let place = Place { node, core: from, generation, number: FIRST_SERVICE };
                let stl = stl.clone();
                let call: LocalFuture<'static, CallResult<u64>> = match input.byte() {
                    Some(0) => Box::pin(async move { TimeClient::at(&stl, place).now().await }),
                    _ => Box::pin(
                        async move { AckermannClient::at(&stl, place).compute(1, 1).await },
                    ),
                };
                calls += 1;
                waiting.0.push((from, call));
            }
            kind => {
                let length = usize::from(input.byte().unwrap_or(0)) % (PAYLOAD_BYTES + 1);
                let cell = Message::new(kind, input.most(length)).expect("it is short enough");
                let assembler = &mut assemblers[from.index()];
                if let Ok(Some(header)) = assembler.push(&cell) {
                    frames += 1;
                    requests += usize::from(matches!(header, Header::Request { .. }));
                    survives(&header, assembler.data());
                    stl.deliver(from, &header, assembler.data());
                }
            }
        }
        waiting.check(None);
        host.poll_tasks();
    }
    for core in (1..CORES as u16).map(CoreId) {
        stl.peer_ended(core, Generation::FIRST, PeerEnd::Died);
        host.poll_tasks();
        waiting.check(Some(core));
    }
    let sent = host.sent.take();
    let replies = sent.iter().filter(|(_, header)| matches!(header, Header::Reply { .. })).count();
    assert!(replies <= requests, "{replies} replies to {requests} requests");
    assert!(sent.len() - replies <= 2 * calls, "a call is one request and one cancellation");
    host.close(&stl);
    frames > 0
}

impl Waiting {
    /// Takes what is over. When a core is gone, so are all calls to it.
    fn check(&mut self, gone: Option<CoreId>) {
        let mut context = Context::from_waker(Waker::noop());
        self.0.retain_mut(|(core, call)| {
            let Poll::Ready(end) = call.as_mut().poll(&mut context) else {
                assert_ne!(Some(*core), gone, "a call outlives its callee");
                return true;
            };
            assert!(end.is_ok() || end.is_err_and(|error| error.status != Status::Ok));
            false
        });
    }
}

/// A frame in cells is the frame again.
fn survives(header: &Header, data: &[u8]) {
    assert!(data.len() <= MAX_DATA);
    let mut assembler = Assembler::default();
    let mut whole = None;
    for cell in cells(header, data) {
        assert_eq!(whole, None, "a frame is over before its last cell");
        whole = assembler.push(&cell).expect("the cells are in order");
    }
    assert_eq!((whole, assembler.data()), (Some(*header), data));
}
