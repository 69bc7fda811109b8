//! Services made of services whose parts are on different cores: chained, side by side,
//! orchestrated, as a network, and one within another. Parts that do not fit are refused when they
//! are composed; a part that fails, or has gone, ends the call with its status, but for a pure one,
//! which is called once more; calls that nobody waits for end.

mod parts;

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use nile_abi::Status;
use nile_bosml::schema::{Parameter, Type};
use nile_bosml::{Blob, Bytes, Decode, Encode, Reader, Writer};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_registry::Layer;
use nile_registry::composition::{Composition, Orchestration, Reference, Source, Wire};
use nile_stl::{CallError, CallResult, CompositeType, DEFAULT_PATIENCE, Place, Registration, Stl};

use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};
use parts::gate::{GateClient, Seen};
use parts::wire::WireClient;
use parts::{adder, flaky, gate, meter, packet, segment, sum_of, wire, wrapped};

/// How long a part may take to be published.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long until what is not there yet is looked for again.
const RETRY: Duration = Duration::from_micros(200);

/// The parts; each is on the core of its place in this list, as far as there are cores.
static PARTS: [&Registration; 7] = [
    &segment::REGISTRATION,
    &gate::REGISTRATION,
    &packet::REGISTRATION,
    &wire::REGISTRATION,
    &adder::REGISTRATION,
    &meter::REGISTRATION,
    &flaky::REGISTRATION,
];

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    let owner = core.clone();
    core.spawn(async move {
        let (stl, cores) = (owner.stl(), owner.peers().count());
        let here = |(place, _): &(usize, _)| place % cores == owner.id().index();
        for (_, part) in PARTS.iter().enumerate().filter(here) {
            if let Some(make) = part.kernel
                && let Err(error) = stl.publish(part, make).await
            {
                owner.machine().log(format_args!("no {}: {error}", part.name()));
            }
        }
        // Composed on the last core, of what is on others.
        if owner.id().index() + 1 == cores
            && let Err(error) = publish(&stl, &patient("patient")).await
        {
            owner.machine().log(format_args!("not composed: {error}"));
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "composed", move |findings| async move {
            let stl = core.stl();
            if let Err(error) = check(&stl, &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

async fn check(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let all = [stack(), looks(), pair(), send(), inspect(), patient("hasty"), digest()];
    for composition in
        all.iter().chain(&[fails_and("looks_again", "look"), fails_and("acts", "act")])
    {
        publish(stl, composition).await?;
    }
    check_results(stl, findings).await?;
    check_refused(stl, findings).await?;
    check_ends(stl, findings).await
}

/// Publishes a composition, whose parts may still be on their way.
async fn publish(stl: &Stl, composition: &Composition) -> CallResult<Place> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    let ty = || CompositeType {
        doc: format!("Composed: {}", composition.name),
        subsystem: "composed".into(),
        capability: composition.name.clone().into(),
        layer: Layer::High,
        keywords: vec![("composed".into(), 1)],
    };
    loop {
        match stl.publish_composite(composition, ty()).await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < deadline => {
                host.sleep_until(host.now() + RETRY).await;
            }
            result => return result,
        }
    }
}

fn part(service: &'static str, method: &'static str) -> Composition {
    named(service, service, method)
}

fn named(name: &'static str, service: &'static str, method: &'static str) -> Composition {
    Composition::component(name, Reference::Type(service.into()), method)
}

/// Three layers of a network's stack.
fn stack() -> Composition {
    let layers = vec![part("segment", "wrap"), part("packet", "wrap"), part("wire", "wrap")];
    Composition::lengthwise("stack", layers)
}

/// Two looks at one buffer.
fn looks() -> Composition {
    Composition::widthwise("looks", vec![part("adder", "add"), part("meter", "measure")])
}

/// Two who wait for each other.
fn pair() -> Composition {
    let meet = |name| named(name, "gate", "meet");
    Composition::widthwise("pair", vec![meet("left"), meet("right")])
}

/// One who waits for as many others as it is told.
fn patient(name: &'static str) -> Composition {
    Composition::lengthwise(name, vec![part("gate", "meet")])
}

/// Inputs to some parts, results from others: what goes out, what it adds up to, and a tag.
fn send() -> Composition {
    let value = |name: &'static str, ty| Parameter {
        name: name.into(),
        doc: "".into(),
        ty,
        range: None,
        encoded: true,
        encrypted: false,
    };
    let wire = |to: &'static str, from| Wire { to: to.into(), from };
    let input = |name: &'static str| Source::Input(name.into());
    let output = |part: &'static str, name: &'static str| Source::Output(part.into(), name.into());
    let orchestration = Orchestration {
        parameters: vec![value("data", Type::Bytes), value("tag", Type::Uint64)],
        reply: vec![
            value("tag", Type::Uint64),
            value("frame", Type::Bytes),
            value("sum", Type::Uint32),
        ],
        parts: vec![
            (part("stack", "stack"), vec![wire("buffer", input("data"))]),
            (part("adder", "add"), vec![wire("buffer", input("data"))]),
        ],
        results: vec![
            wire("sum", output("adder", "sum")),
            wire("frame", output("stack", "buffer")),
            wire("tag", input("tag")),
        ],
    };
    Composition::orchestrated("send", orchestration)
}

/// A part that feeds another one, beside one that it does not feed.
fn digest() -> Composition {
    let wire = |to: &'static str, from| Wire { to: to.into(), from };
    let input = || Source::Input("buffer".into());
    let output = |part: &'static str, name: &'static str| Source::Output(part.into(), name.into());
    let wrapped = || vec![wire("buffer", output("stack", "buffer"))];
    Composition::network(
        "digest",
        Orchestration {
            parameters: vec![Parameter::plain("buffer", Type::Bytes)],
            reply: vec![
                Parameter::plain("sum", Type::Uint32),
                Parameter::plain("bytes", Type::Uint64),
            ],
            parts: vec![
                (part("stack", "stack"), vec![wire("buffer", input())]),
                (part("adder", "add"), wrapped()),
                (part("meter", "measure"), vec![wire("buffer", input())]),
            ],
            results: vec![
                wire("sum", output("adder", "sum")),
                wire("bytes", output("meter", "bytes")),
            ],
        },
    )
}

/// One part, every other call of which fails.
fn fails_and(name: &'static str, method: &'static str) -> Composition {
    Composition::lengthwise(name, vec![part("flaky", method)])
}

/// A composed service, then others side by side of which one is composed here.
fn inspect() -> Composition {
    let sides = vec![part("looks", "looks"), Composition::lengthwise("again", vec![stack()])];
    let sides = Composition::widthwise("sides", sides);
    Composition::lengthwise("inspect", vec![part("stack", "stack"), sides])
}

fn encoded(value: &impl Encode) -> CallResult<Vec<u8>> {
    let mut out = Writer::new();
    value.encode(&mut out);
    Ok(out.into_bytes()?)
}

async fn call(stl: &Stl, service: &str, arguments: &[u8]) -> CallResult<Vec<u8>> {
    stl.invoke(service, service, arguments).await
}

async fn check_results(stl: &Stl, findings: &Findings) -> CallResult<()> {
    for length in [0, 1, 50, 1200] {
        let data: Vec<u8> = (0..length).map(|place| (place * 3) as u8).collect();
        let argument = encoded(&Bytes::from(&*data))?;
        let right = |holds, what| {
            findings.check(holds, format_args!("{what} is wrong about {length} bytes"));
        };

        let frame = wrapped(&data);
        let reply = call(stl, "stack", &argument).await?;
        right(reply == encoded(&Bytes::from(&*frame))?, "stack");

        let reply = call(stl, "looks", &argument).await?;
        let mut input = Reader::new(&reply);
        right(u32::decode(&mut input)? == sum_of(&data), "looks.adder");
        right(u64::decode(&mut input)? == length, "looks.meter");
        input.finish()?;

        let tag = length + 7;
        let reply = call(stl, "send", &[&*argument, &tag.to_le_bytes()].concat()).await?;
        let mut input = Reader::new(&reply);
        right(u64::decode(&mut input)? == tag, "send.tag");
        right(Blob::decode(&mut input)?.0 == frame, "send.frame");
        right(u32::decode(&mut input)? == sum_of(&data), "send.sum");
        input.finish()?;

        let reply = call(stl, "digest", &argument).await?;
        let mut input = Reader::new(&reply);
        right(u32::decode(&mut input)? == sum_of(&frame), "digest.sum");
        right(u64::decode(&mut input)? == length, "digest.bytes");
        input.finish()?;

        let reply = call(stl, "inspect", &argument).await?;
        let mut input = Reader::new(&reply);
        right(u32::decode(&mut input)? == sum_of(&frame), "inspect.looks.adder");
        right(u64::decode(&mut input)? == frame.len() as u64, "inspect.looks.meter");
        right(Blob::decode(&mut input)?.0 == wrapped(&frame), "inspect.again");
        input.finish()?;
    }
    // What is pure is called again, what has effects never.
    let reply = call(stl, "looks_again", &[]).await?;
    findings.check(reply == 2u64.to_le_bytes(), format_args!("looks_again: {reply:?}"));
    let failed = call(stl, "acts", &[]).await.map_err(|error| error.status);
    findings.check(failed == Err(Status::Dead), format_args!("acts: {failed:?}"));
    // One after the other, they would wait for ever.
    let reply = call(stl, "pair", &2u64.to_le_bytes()).await?;
    findings.check(reply == [2u64, 2].map(u64::to_le_bytes).concat(), format_args!("pair"));
    let document = stl.discover("inspect").await?;
    let told = document.contains("looks") && document.contains("bytes");
    findings.check(told, format_args!("inspect says of itself: {document}"));
    Ok(())
}

/// What is not composed, and what a refusal must name.
async fn check_refused(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let chain = |parts| Composition::lengthwise("bad", parts);
    let cases: [(Composition, Status, &[&str]); 6] = [
        (
            chain(vec![part("adder", "add"), part("segment", "wrap")]),
            Status::Invalid,
            &["adder", "segment", "buffer"],
        ),
        (
            Composition::widthwise("bad", vec![part("adder", "add"), part("gate", "meet")]),
            Status::Invalid,
            &["adder", "gate", "buffer"],
        ),
        (chain(vec![part("nobody", "wrap")]), Status::NotFound, &["nobody"]),
        (chain(vec![part("segment", "unwrap")]), Status::NotFound, &["segment", "unwrap"]),
        // A service of the high layer reaches the low one and no further.
        (chain(vec![part("registry", "list")]), Status::Denied, &["registry", "skips"]),
        (chain(vec![part("bad", "bad")]), Status::Invalid, &["bad", "itself"]),
    ];
    for (composition, status, names) in cases {
        let ty = CompositeType {
            doc: "".into(),
            subsystem: "composed".into(),
            capability: "bad".into(),
            layer: Layer::High,
            keywords: Vec::new(),
        };
        let refused = stl.publish_composite(&composition, ty).await;
        let named = refused.as_ref().is_err_and(|error| {
            error.status == status && names.iter().all(|name| error.message.contains(name))
        });
        findings.check(named, format_args!("not {status} about {names:?}: {refused:?}"));
    }
    let found = call(stl, "bad", &[]).await.map_err(|error| error.status);
    findings.check(found == Err(Status::NotFound), format_args!("bad is there: {found:?}"));
    Ok(())
}

/// Calls that end otherwise.
async fn check_ends(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let fails = |result: CallResult<_>, status, name: &str| {
        let told = |error: &CallError| error.status == status && error.message.contains(name);
        let as_expected = result.as_ref().is_err_and(told);
        findings.check(as_expected, format_args!("not {status} about {name}: {result:?}"));
    };
    fails(call(stl, "stack", &[1]).await, Status::Invalid, "buffer");
    wait_for_patient(stl).await?;
    // No call has so much, whether the service is here or not.
    for service in ["stack", "patient"] {
        fails(call(stl, service, &[0; 70_000]).await, Status::Invalid, "");
    }
    let long = encoded(&Bytes::from(&*vec![0; 1500]))?;
    fails(call(stl, "stack", &long).await, Status::Invalid, "part wire");
    fails(call(stl, "inspect", &long).await, Status::Invalid, "part wire");
    check_cancelled(stl, findings).await?;
    // The instance that answers is the one that goes: its last answer may still come.
    let _ = WireClient::find(stl).await?.leave().await;
    let argument = encoded(&Bytes::from(&b"x"[..]))?;
    for service in ["stack", "send"] {
        fails(call(stl, service, &argument_of(service, &argument)).await, Status::NotFound, "wire");
    }
    // What does not need it goes on.
    findings.check(call(stl, "looks", &argument).await.is_ok(), format_args!("looks has gone too"));
    Ok(())
}

fn argument_of(service: &str, buffer: &[u8]) -> Vec<u8> {
    let tag: &[u8] = if service == "send" { &[0; 8] } else { &[] };
    [buffer, tag].concat()
}

/// A part's call ends when the call to the whole is dropped, and when its deadline comes.
async fn check_cancelled(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let host = stl.host();
    let gate = GateClient::find(stl).await?;
    let until = |reached: fn(&Seen, u64) -> bool, number: u64| {
        let gate = &gate;
        async move {
            let deadline = host.now() + PATIENCE;
            loop {
                let seen = gate.look().await?;
                if reached(&seen, number) || host.now() > deadline {
                    return CallResult::Ok(seen);
                }
                host.sleep_until(host.now() + RETRY).await;
            }
        }
    };
    let before = gate.look().await?;
    let all_went = |seen: &Seen, least| seen.went == seen.came && seen.came >= least;
    findings.check(all_went(&before, 2), format_args!("the pair is still there: {before:?}"));

    // More than ever come, so that it waits for as long as somebody waits for it.
    let many = 1000u64.to_le_bytes();
    {
        let mut waits = pin!(call(stl, "patient", &many));
        let mut seen = pin!(until(|seen, number| seen.came >= number, before.came + 1));
        let ended = poll_fn(|context| {
            if let Poll::Ready(result) = waits.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            seen.as_mut().poll(context).map(|_| None)
        });
        let ended = ended.await;
        findings.check(ended.is_none(), format_args!("patient did not wait: {ended:?}"));
    }
    let seen = until(all_went, before.came + 1).await?;
    findings.check(all_went(&seen, before.came + 1), format_args!("not cancelled: {seen:?}"));

    // A call on the same core has no deadline, but its parts on others have that of their caller.
    let short = Duration::from_millis(20);
    for service in ["patient", "hasty"].into_iter().filter(|_| host.cores() > 1) {
        let begin = host.now();
        let late = call(&stl.with_patience(short), service, &many).await;
        let late = late.map_err(|error| error.status);
        findings.check(late == Err(Status::Timeout), format_args!("{service}: {late:?}"));
        let took = host.now().since(begin);
        findings.check(took < DEFAULT_PATIENCE / 2, format_args!("{service}: late after {took:?}"));
        let seen = until(all_went, before.came + 1).await?;
        findings.check(all_went(&seen, before.came + 1), format_args!("{service}: {seen:?}"));
    }
    Ok(())
}

/// Waits until what the last core composes is there.
async fn wait_for_patient(stl: &Stl) -> CallResult<()> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        match stl.discover("patient").await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < deadline => {
                host.sleep_until(host.now() + RETRY).await;
            }
            result => return result.map(|_| ()),
        }
    }
}
