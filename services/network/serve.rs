//! Calls of other nodes to instances of this one.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::{Instant, Status};
use nile_bosml::{REPLY, binary_to_text, discovery, text_to_binary};
use nile_ipioe::{Asker, ServingId};
use nile_order::SortedMap;
use nile_stl::{CallError, CallResult, MethodNumber, Origin, Place, Stl};
use nile_sync::Flag;

use super::calls::Calls;

/// A call of another node, as it came.
pub struct Asked {
    pub serving: ServingId,
    /// The instance that is meant; `None` if its number means none any more.
    pub place: Option<Place>,
    pub method: MethodNumber,
    /// Whether the arguments are in the binary form, as the reply then is.
    pub encoded: bool,
    pub asker: Asker,
    pub deadline: Instant,
    pub data: Vec<u8>,
}

/// The calls that are being served; the flag of one is raised when nobody waits for its end any
/// more.
#[derive(Default)]
pub struct Serving(RefCell<SortedMap<ServingId, Rc<Flag>>>);

impl Serving {
    /// Begins to serve a call, and answers it in the incarnation of this node that it came to.
    pub fn begin(self: &Rc<Self>, stl: &Stl, calls: &Rc<Calls>, asked: Asked) {
        let cancel: Rc<Flag> = Rc::default();
        self.0.borrow_mut().insert(asked.serving, cancel.clone());
        let (stl, calls, all) = (stl.clone(), calls.clone(), self.clone());
        stl.host().clone().spawn(Box::pin(async move {
            let (serving, encoded, place) = (asked.serving, asked.encoded, asked.place);
            let (host, begun) = (stl.host(), stl.host().now());
            // What it still works on when it is cancelled ends with it.
            let result = cancel.or(answer(&stl, asked)).await;
            all.0.borrow_mut().remove(&serving);
            if let Some(result) = result {
                reply(&calls, serving, encoded, result);
                // Another core counts its own answers.
                if place.is_some_and(|it| it.core == host.core()) {
                    host.answered(host.now().since(begun));
                }
            }
        }));
    }

    /// Nobody waits any more.
    pub fn cancel(&self, serving: ServingId) {
        if let Some(cancel) = self.0.borrow_mut().remove(&serving) {
            cancel.raise();
        }
    }
}

/// Sends the end of a call. A caller that is gone has nobody to tell.
fn reply(calls: &Calls, serving: ServingId, encoded: bool, result: CallResult<Vec<u8>>) {
    let (status, data) = match result {
        Ok(data) => (Status::Ok, data),
        Err(error) => (error.status, error.message.as_bytes().into()),
    };
    let _ = calls.with(|endpoint, now| endpoint.reply(now, serving, status, encoded, data));
}

async fn answer(stl: &Stl, asked: Asked) -> CallResult<Vec<u8>> {
    let place = asked.place.ok_or_else(CallError::instance_gone)?;
    let origin = match asked.asker {
        Asker::Kernel => Origin::Peer,
        Asker::Package => Origin::PeersPackage,
        Asker::Operator => Origin::Operator,
    };
    let stl = stl.on_behalf_of(origin).with_patience(asked.deadline - stl.host().now());
    if asked.encoded {
        return stl.try_at(place, asked.method, &asked.data).await;
    }
    let document = String::from_utf8(asked.data);
    let document = document.map_err(|_| CallError::new(Status::Invalid, "it is no text"))?;
    in_text(&stl, place, asked.method, &document).await
}

/// A call whose arguments and reply are documents, checked by the schema that the instance gives.
async fn in_text(
    stl: &Stl,
    place: Place,
    method: MethodNumber,
    document: &str,
) -> CallResult<Vec<u8>> {
    let about = stl.document_at(place).await?;
    if method == MethodNumber::DISCOVER {
        return Ok(about.as_bytes().into());
    }
    let schema = discovery::parse(&about)?;
    let missing =
        || CallError::new(Status::NotFound, format!("{} has no method {}", schema.name, method.0));
    let described = schema.methods.get(usize::from(method.0)).ok_or_else(missing)?;
    let arguments = text_to_binary(&described.parameters, &described.name, document)?;
    let reply = stl.try_at(place, method, &arguments).await?;
    Ok(binary_to_text(&described.reply, REPLY, &reply)?.into_bytes())
}
