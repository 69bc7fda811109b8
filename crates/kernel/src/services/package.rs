//! The kernel's half of the transport layer as a package reaches it, by system calls: it relays
//! the package's calls, and hands it the calls to the services that it publishes.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;

use nile_abi::call::{Event, SystemCall, UserSlot};
use nile_abi::{ChannelId, Instant, Status};
use nile_bosml::discovery;
use nile_platform::Machine;
use nile_registry::Layer;
use nile_stl::frame::MAX_DATA;
use nile_stl::relay::{self, Announcement, Keyword, Relayed};
use nile_stl::{CallError, CallResult, Described, Half, ServiceNumber, Stl};

use super::begun::Begun;
use super::buffers::{self, Buffers};
use super::channels::{self, Ends};
use super::desk::{Desk, Window};
use crate::packages::{self, Calls, Package};

/// The most bytes of the end of a call that a package has begun.
const MOST_END: usize = MAX_DATA + 64;

/// What answers a package's system calls that are about services.
pub struct ServiceCalls {
    stl: Stl,
    desk: Rc<RefCell<Desk>>,
    /// Whether the desk is for the next package, too.
    stays: bool,
    ends: Rc<Ends>,
    begun: Rc<Begun>,
    buffers: Rc<Buffers>,
}

impl ServiceCalls {
    /// The services of `stl`'s core, for one package.
    pub fn new(stl: &Stl) -> ServiceCalls {
        ServiceCalls::at(stl, Rc::default(), false)
    }

    /// The same at a desk that stays if it `stays`.
    pub(crate) fn at(stl: &Stl, desk: Rc<RefCell<Desk>>, stays: bool) -> ServiceCalls {
        let (ends, begun, buffers) = (Rc::default(), Rc::default(), Rc::default());
        ServiceCalls { stl: stl.for_package(), desk, stays, ends, begun, buffers }
    }
}

/// Ends what a package offers that has ended, all at once: the core's next package may have
/// services of these names. If it stays, that waits for its next incarnation.
pub(crate) fn end_offers(stl: &Stl, desk: &RefCell<Desk>, stays: bool) {
    let ended = desk.borrow_mut().end_package(stays);
    for name in ended {
        let own = stl.clone();
        stl.host().spawn(Box::pin(async move {
            // The registry forgets the instance, or has done so with the core.
            let _ = own.unpublish(&name).await;
        }));
    }
}

impl<M: Machine> Calls<M> for ServiceCalls {
    fn call(
        &self,
        package: &Package<M>,
        call: SystemCall,
        word: u64,
        input: Vec<u8>,
        room: usize,
    ) -> packages::LocalFuture<Result<(u64, Vec<u8>), Status>> {
        let (stl, desk) = (self.stl.clone(), self.desk.clone());
        let (package, ends, owned) = (package.clone(), self.ends.clone(), self.buffers.clone());
        let begun = self.begun.clone();
        Box::pin(async move {
            match call {
                SystemCall::Invoke => {
                    invoke(&stl, || package.uses_frames(), word, relayed(&input)?, room).await
                }
                SystemCall::Begin => {
                    let what = relayed(&input)?;
                    let call = async move {
                        let uses_frames = || package.uses_frames();
                        let end = invoke(&stl, uses_frames, word, what, MOST_END).await;
                        end.map_or_else(|status| relay::encode_end(&Err(status.into())), |it| it.1)
                    };
                    let mut call = Some(Box::pin(call) as packages::LocalFuture<Vec<u8>>);
                    let began = poll_fn(|context| {
                        let call = call.take().ok_or(Status::Invalid);
                        Poll::Ready(call.and_then(|call| begun.begin(call, context)))
                    });
                    Ok((began.await?, Vec::new()))
                }
                SystemCall::Wait => {
                    let there = There { stl: &stl, desk: &desk, ends: &ends, begun: &begun };
                    wait(there, Instant::from_nanos(word), room).await
                }
                SystemCall::Wake => ends.wake(word).map(|()| (0, Vec::new())),
                SystemCall::Reply => {
                    desk.borrow_mut().answer(word, &input).map(|()| (0, Vec::new()))
                }
                SystemCall::Publish => {
                    let announcement: Announcement =
                        relay::decode(&input).map_err(|_| Status::Invalid)?;
                    let end = publish(&stl, &desk, announcement, |name| {
                        package.manifest().is_none_or(|manifest| manifest.may_publish(name))
                    });
                    let end = end.await.map(|number| number.0.to_le_bytes().to_vec());
                    Ok(told(relay::encode_end(&end), room))
                }
                SystemCall::Channel => {
                    let place = channels::answer(package, ends, input).await?;
                    if place.len() > room {
                        return Err(Status::Invalid);
                    }
                    Ok((place.len() as u64, place))
                }
                SystemCall::Pool => {
                    // What is not in its memory it has no use for.
                    let core = package.core();
                    let pool = core.pool().filter(|_| package.has_pool());
                    let pool = pool.ok_or(Status::Denied)?;
                    // Looked at first: a buffer whose name does not arrive is lost to it.
                    if room < buffers::ROOM && !buffers::gives_nothing(&input) {
                        return Err(Status::Invalid);
                    }
                    let (seen, most) = (package.slot().pool(), package.limits().buffers as usize);
                    let given = owned.answer((pool, seen), most, &input);
                    package.keep_buffers(owned.count());
                    let given = given?;
                    Ok((given.len() as u64, given))
                }
                _ => Err(Status::NotFound),
            }
        })
    }

    fn wake_neighbour(&self, channel: ChannelId) -> Option<UserSlot> {
        self.ends.wake_neighbour(channel)
    }

    fn next_of_channels(&self) -> Option<u64> {
        let event = self.ends.pop_event()?;
        self.desk.borrow_mut().had_channel = true;
        Some(event)
    }

    fn waits_for_channels(&self) -> bool {
        self.begun.is_empty() && !self.desk.borrow().has_calls()
    }

    fn ended(&self, package: &Package<M>) {
        self.begun.end();
        self.buffers.end(package.core().pool().map(|pool| &**pool));
        self.ends.end(package);
        end_offers(&self.stl, &self.desk, self.stays);
    }
}

/// The end of a call as a system call's output; one that the package has no room for is told so.
fn told(end: Vec<u8>, room: usize) -> (u64, Vec<u8>) {
    if end.len() <= room {
        return (end.len() as u64, end);
    }
    let mut short = relay::encode_end(&Err(CallError::new(
        Status::NoMemory,
        format!("the reply has {} bytes, and there is room for {room}", end.len()),
    )));
    short.truncate(room);
    (short.len() as u64, short)
}

/// The method that gives a core's package the network's frames, and its service: it learns from
/// nobody but the kernel which package of the core that is.
const ATTACH: (&str, &str) = ("frames", "attach");

fn relayed(input: &[u8]) -> Result<Relayed, Status> {
    relay::decode(input).map_err(|_| Status::Invalid)
}

async fn invoke(
    stl: &Stl,
    uses_frames: impl Fn() -> bool,
    patience: u64,
    what: Relayed,
    room: usize,
) -> Result<(u64, Vec<u8>), Status> {
    let Relayed { service, method, arguments } = what;
    let stl = stl.with_patience(Duration::from_nanos(patience));
    let end = match (service.as_str(), method.as_str()) == ATTACH && !uses_frames() {
        true => Err(CallError::new(Status::Denied, "the manifest does not say `uses frames`")),
        false => stl.invoke(&service, &method, &arguments.0).await,
    };
    Ok(told(relay::encode_end(&end), room))
}

/// Where what there is for a package comes from.
struct There<'a> {
    stl: &'a Stl,
    desk: &'a RefCell<Desk>,
    ends: &'a Ends,
    begun: &'a Begun,
}

/// What there is for the package: what happened to its channels, in turn with calls to its
/// services and with ends of those that it has begun. `Timeout` if nothing comes before `until`. A
/// call that does not fit into `room` is refused; without room for the longest end while a call is
/// begun, the wait is `Invalid`.
async fn wait(there: There<'_>, until: Instant, room: usize) -> Result<(u64, Vec<u8>), Status> {
    let There { stl, desk, ends, begun } = there;
    if !begun.is_empty() && room < Event::END_BYTES + MOST_END {
        return Err(Status::Invalid);
    }
    let mut deadline = stl.host().sleep_until(until);
    poll_fn(|context| {
        // No kind keeps another waiting for ever.
        let ends_first = !core::mem::replace(&mut desk.borrow_mut().had_end, false);
        let end = |context: &mut Context<'_>| {
            let end = begun.next_end(context)?;
            desk.borrow_mut().had_end = true;
            Some(Poll::Ready(Ok((end.len() as u64, end))))
        };
        if ends_first && let Some(ended) = end(context) {
            return ended;
        }
        let mut desk = desk.borrow_mut();
        let calls_first = core::mem::replace(&mut desk.had_channel, false);
        let call = if calls_first { desk.next_call(room) } else { None };
        if let Some(call) = call {
            return Poll::Ready(Ok((call.len() as u64, call)));
        }
        if let Some(event) = ends.next_event(context.waker()) {
            desk.had_channel = true;
            return Poll::Ready(Ok((event, Vec::new())));
        }
        if let Some(call) = desk.next_call(room) {
            return Poll::Ready(Ok((call.len() as u64, call)));
        }
        desk.waiter.wait(context.waker());
        drop(desk);
        if !ends_first && let Some(ended) = end(context) {
            return ended;
        }
        deadline.as_mut().poll(context).map(|()| Err(Status::Timeout))
    })
    .await
}

async fn publish(
    stl: &Stl,
    desk: &Rc<RefCell<Desk>>,
    announcement: Announcement,
    may: impl Fn(&str) -> bool,
) -> CallResult<ServiceNumber> {
    if let Some(number) = desk.borrow_mut().claim(&announcement) {
        return Ok(number);
    }
    let said = announcement.clone();
    let Announcement { document, subsystem, capability, keywords, type_name, attributes } =
        announcement;
    desk.borrow_mut().announce(document.len())?;
    let schema = discovery::parse(&document)?.into_owned();
    let name = String::from(&*schema.name);
    let ty = if type_name.is_empty() { &name } else { &type_name };
    if !may(ty) {
        let message = format!("the package's manifest does not name {ty}");
        return Err(CallError::new(Status::Denied, message));
    }
    let keyword = |Keyword { word, weight }| (word, weight);
    let described = Described {
        schema,
        subsystem,
        capability,
        layer: Layer::High,
        keywords: keywords.into_iter().map(keyword).collect(),
        type_name,
        attributes: attributes.into_iter().map(|it| (it.name, it.value)).collect(),
    };
    let window = desk.clone();
    let is_other = desk.borrow_mut().drops(&name);
    if is_other {
        stl.unpublish(&name).await?;
    }
    // Noted before: if the package is stopped meanwhile, the service ends with it.
    desk.borrow_mut().begin_to_offer(name.clone(), said);
    let place = stl.publish_described(described, |place| {
        let service = Rc::new(Window { number: place.number, desk: window });
        Half { service, asks_caller: true }
    });
    let number = place.await.map(|place| place.number);
    desk.borrow_mut().has_offered(&name, number.as_ref().ok().copied());
    number
}
