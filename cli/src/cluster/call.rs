//! `nile call`: calls a method of a service anywhere in the cluster.

use std::time::{Duration, Instant};

use nile_abi::Status;
use nile_bosml::discovery;
use nile_bosml::schema::Method;
use serde_json::json;

use super::args::{Call as Options, Place};
use super::session::Session;
use super::{document, reply, services};
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::peer::call::{Call, CallFailed};
use crate::peer::known::{self, Target};

/// Makes the call and prints its reply.
pub fn run(options: &Options) -> Result<(), Failure> {
    let (service, method) = options.called.rsplit_once('.').ok_or_else(|| {
        let called = &options.called;
        Failure::request(format!("`{called}` names no method; write SERVICE.METHOD"))
    })?;
    let mut session = Session::open(&options.query.which, options.query.timeout)?;
    let core = options.core.map(|core| core.on(&options.query.which)).transpose()?;
    let target = match target(&session, service, core)? {
        Ok(target) => target,
        Err(failed) => return fail(options, &failed),
    };
    let schema = match services::schema(&mut session, target)? {
        Ok(schema) => schema,
        Err(failed) => return fail(options, &failed),
    };
    // It was parsed before it was given.
    let schema = discovery::parse(&schema).map_err(|error| Failure::failed(error.to_string()))?;
    let wrong = |reason: String| Failure::request(format!("{}: {reason}", options.called));
    let (number, described) = schema.method(method).ok_or_else(|| {
        let methods = schema.methods.iter().map(|it| it.name.as_ref());
        let near = suggestion(method, methods);
        Failure::request(format!("{service} has no method `{method}`; {near}"))
    })?;
    let document = document::of_call(described, &options.parameters).map_err(wrong)?;
    if !session.record.sealed {
        check_open(described).map_err(wrong)?;
    }
    let number = u16::try_from(number).map_err(|error| wrong(error.to_string()))?;
    let call = Call { target, method: number, document };
    if let Some(times) = options.times {
        return match repeat(&mut session, &call, times)? {
            Ok(times) => say(options, target, &times),
            Err(failed) => fail(options, &failed),
        };
    }
    match session.peer.call(&call, session.patience)? {
        Ok(text) => {
            let json = reply::of_method(described, &text).map_err(|error| {
                Failure::failed(format!("the reply is not as its schema says: {error}"))
            })?;
            match options.query.json {
                true => {
                    let from = target.place();
                    let document = json!({ "status": "ok", "from": from, "reply": json });
                    crate::print(&format!("{document}\n"))
                }
                false => crate::print(&format!("{text}\n")),
            }
        }
        Err(failed) => fail(options, &failed),
    }
}

/// How long calls took, each of several that were made one after the other.
fn repeat(
    session: &mut Session,
    call: &Call,
    times: u32,
) -> Result<Result<Vec<Duration>, CallFailed>, Failure> {
    let mut took = Vec::with_capacity(times as usize);
    for _ in 0..times {
        let begun = Instant::now();
        match session.peer.call(call, session.patience)? {
            Ok(_) => took.push(begun.elapsed()),
            Err(failed) => return Ok(Err(failed)),
        }
    }
    took.sort();
    Ok(Ok(took))
}

/// Says how long calls took, which are in rising order.
fn say(options: &Options, target: Target, took: &[Duration]) -> Result<(), Failure> {
    let micros = |part: f64| percentile(took, part).as_secs_f64() * 1e6;
    let parts = [50.0, 99.0, 99.9, 100.0].map(|part| micros(part / 100.0));
    let [p50, p99, p999, most] = parts;
    let (calls, from) = (took.len(), target.place());
    match options.query.json {
        true => crate::print(&format!(
            "{}\n",
            json!({ "status": "ok", "from": from, "calls": calls, "p50_us": p50, "p99_us": p99,
                "p999_us": p999, "most_us": most })
        )),
        false => crate::print(&format!(
            "{calls} calls of {from}: p50 {p50:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs, most \
             {most:.0} µs\n"
        )),
    }
}

/// The time within which so large a part of the calls was done.
fn percentile(rising: &[Duration], part: f64) -> Duration {
    let at = (rising.len() as f64 * part).ceil() as usize;
    rising.get(at.max(1) - 1).copied().unwrap_or_default()
}

/// A call that was made, or could not be though nothing was wrong with it.
fn fail(options: &Options, failed: &CallFailed) -> Result<(), Failure> {
    if options.query.json {
        let CallFailed { status, message } = failed;
        let document = json!({ "status": "error", "error": status.name(), "message": message });
        crate::print(&format!("{document}\n"))?;
    }
    Err(Failure::failed(format!("{}: {failed}", options.called)))
}

/// Which instance is called. A node that is gone is no wrong request: it is `dead`.
fn target(
    session: &Session,
    service: &str,
    core: Option<Place>,
) -> Result<Result<Target, CallFailed>, Failure> {
    let Some(place) = core else {
        return Ok(Ok(services::first(&services::instances(session, service)?)));
    };
    let node = place.node;
    let gossip = session.peer.known();
    let lives = known::living(gossip).any(|member| member.node == node);
    // Those of other machines are known by gossip alone.
    if !lives || session.record.nodes.iter().any(|it| it.node() == node) {
        session.record.node(node)?;
        if !session.running().contains(&node) {
            // The others may not have noticed yet.
            return Ok(Err(CallFailed::new(Status::Dead, format!("{node} does not run"))));
        }
    }
    if !lives {
        let message = format!("{node} cannot be reached");
        return Ok(Err(CallFailed::new(Status::Timeout, message)));
    }
    let cores = known::cores(gossip, node);
    if let Some(core) = place.core
        && !cores.iter().any(|it| it.core == core.0)
    {
        let names: Vec<String> = cores.iter().map(|it| format!("{node}.c{}", it.core)).collect();
        let near = suggestion(&place.to_string(), names.iter().map(String::as_str));
        return Err(Failure::request(format!("no core `{place}`; {near}")));
    }
    let all = services::instances(session, service)?;
    let is_there = |it: &&Target| it.node == node && place.core.is_none_or(|core| it.core == core);
    let there: Vec<Target> = all.iter().filter(is_there).copied().collect();
    match there.is_empty() {
        false => Ok(Ok(services::first(&there))),
        true => {
            let mut places: Vec<String> = all.iter().map(Target::place).collect();
            places.dedup();
            Err(Failure::request(format!(
                "{service} is not on {place}; it is on {}",
                places.join(", ")
            )))
        }
    }
}

/// A value that is to be encrypted goes over no network that everybody can read.
fn check_open(method: &Method<'_>) -> Result<(), String> {
    match method.parameters.iter().find(|it| it.encrypted) {
        Some(it) => Err(format!("`{}` is secret, and this cluster has no key", it.name)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_time_of_a_call() {
        let took: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        let micros = |part| percentile(&took, part).as_micros();
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(micros), [100, 198, 200, 200]);
        assert_eq!(percentile(&took[..1], 0.01).as_micros(), 1);
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }
}
