//! Names that travel in messages, so that a peer can make them up.

use nile_abi::{CoreId, Generation, Instant};
use nile_ring::{Buffer, Handle, Message, Pool, PoolId, Request, RequestId, Requests};

use crate::input::Input;

const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 64;

/// Steps: take a buffer, send one away, ask something, or be given a handle or an answer that may
/// name anything. Accepted: something was named rightly.
pub fn handle(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    let pool = Pool::owned(PoolId(0), CoreId(0), BUFFERS, BUFFER_BYTES).expect("the size is right");
    let mut requests: Requests<RequestId> = Requests::with_capacity(BUFFERS as u32);
    let mut owned: Vec<Buffer> = Vec::new();
    let mut in_flight: Vec<Handle> = Vec::new();
    let mut asked: Vec<RequestId> = Vec::new();
    let mut accepted = false;
    while let Some(step) = input.byte() {
        match step % 6 {
            0 => owned.extend(pool.alloc()),
            1 => in_flight.extend(owned.pop().map(|it| it.into_handle(usize::from(step)))),
            2 => drop(owned.pop()),
            3 => {
                let Some(handle) =
                    input.take().and_then(|b: [u8; Handle::BYTES]| Handle::from_bytes(&b))
                else {
                    break;
                };
                let known =
                    in_flight.iter().position(|it| Handle { len: handle.len, ..*it } == handle);
                let fits = handle.len as usize <= BUFFER_BYTES;
                let claimed = pool.claim(handle);
                assert_eq!(claimed.is_ok(), known.is_some() && fits);
                if let (Ok(mut buffer), Some(known)) = (claimed, known) {
                    assert_eq!((buffer.index(), buffer.len()), (handle.index, handle.len as usize));
                    buffer.fill(step);
                    in_flight.swap_remove(known);
                    owned.push(buffer);
                    accepted = true;
                }
            }
            4 => asked.extend(requests.issue(request)),
            _ => {
                let Some(id) = input.word().map(RequestId::from_bits) else { break };
                let known = asked.iter().position(|it| *it == id);
                assert_eq!(requests.complete(id), known.map(|at| asked.swap_remove(at)));
                accepted |= known.is_some();
            }
        }
        assert!(owned.len() + in_flight.len() <= BUFFERS);
        assert_eq!(requests.len(), asked.len());
    }
    accepted
}

fn request(id: RequestId) -> Request<RequestId> {
    let message = Message::new(0, &id.to_bits().to_le_bytes()).expect("it fits");
    Request { peer: Generation::FIRST, message, deadline: Instant::START, context: id }
}
