//! The nodes' service `job`, called by its schema. Any node's can be asked; one that is gone or
//! does not know the job is followed by the next.

use std::time::{Duration, Instant};

use nile_abi::Status;
use nile_bosml::discovery;
use serde_json::{Value, json};

use super::{Attempt, End, Jobs, Phase, Request, State, Timeline};
use crate::cluster::{document, reply, services};
use crate::data::stores::Stores;
use crate::failure::Failure;
use crate::peer::call::{Call, CallFailed};
use crate::peer::known::{self, Target};

/// What the service is called.
const SERVICE: &str = "job";

/// How long one node may take to answer before the next is asked.
const ANSWER: Duration = Duration::from_secs(3);

/// How long one may take to begin a job: it looks around first, and may wait for workers that come
/// back and for nodes that do not answer.
const BEGUN: Duration = Duration::from_secs(30);

/// How long all of them may take to find a job's new master.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it is waited before all are asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The service, on whichever node it can be asked.
pub struct Service<'s> {
    stores: &'s mut Stores,
    schema: String,
    /// The instance that answered last.
    last: Option<Target>,
}

impl<'s> Service<'s> {
    /// Finds it; a wrong request if no node offers it.
    pub fn open(stores: &'s mut Stores) -> Result<Service<'s>, Failure> {
        let mut why = None;
        for target in instances(stores) {
            match services::schema(&mut stores.session, target)? {
                Ok(schema) => return Ok(Service { stores, schema, last: Some(target) }),
                Err(failed) => why = Some(format!("{}: {failed}", target.place())),
            }
        }
        Err(match why {
            Some(why) => Failure::failed(why),
            None => Failure::request("no node of the cluster runs jobs"),
        })
    }

    fn call(
        &mut self,
        target: Target,
        name: &str,
        values: &Value,
        patience: Duration,
    ) -> Result<Answer, Failure> {
        let wrong = |why: String| Failure::failed(format!("{SERVICE}.{name}: {why}"));
        let schema = discovery::parse(&self.schema).map_err(|it| wrong(it.to_string()))?;
        let other = || wrong("the nodes are of another version".into());
        let (number, method) = schema.method(name).ok_or_else(other)?;
        let document = document::of_values(method, values).map_err(wrong)?;
        let call = Call { target, method: number as u16, document };
        Ok(match self.stores.session.peer.call(&call, patience)? {
            Ok(text) => Ok(reply::of_method(method, &text).map_err(|it| wrong(it.to_string()))?),
            Err(failed) => Err(failed),
        })
    }

    /// When what of a job ran that has ended.
    pub fn timeline(&mut self, job: u64) -> Result<Timeline, Failure> {
        let mut all = Timeline::default();
        loop {
            let values = json!({ "job": job, "from": all.attempts.len() });
            let reply = self.ask("timeline", &values)?;
            let kept = add_times(&mut all, &reply["timeline"])?;
            if all.attempts.len() as u64 >= kept {
                return Ok(all);
            }
        }
    }

    /// Asks one node after the other until one knows the answer.
    fn ask(&mut self, name: &str, values: &Value) -> Result<Value, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut targets = instances(self.stores);
            // The one that answered last first.
            targets.sort_by_key(|target| Some(*target) != self.last);
            let mut why = format!("no node runs the service {SERVICE} any more");
            for target in targets {
                match self.call(target, name, values, ANSWER)? {
                    Ok(reply) => {
                        self.last = Some(target);
                        return Ok(reply);
                    }
                    Err(failed) if is_elsewhere(&failed) => {
                        why = format!("{}: {failed}", target.place());
                    }
                    Err(failed) => {
                        return Err(Failure::failed(format!("{}: {failed}", target.place())));
                    }
                }
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(why));
            }
            self.rest(PAUSE)?;
        }
    }
}

type Answer = Result<Value, CallFailed>;

/// Whether another node may know.
fn is_elsewhere(failed: &CallFailed) -> bool {
    use Status::{Busy, Dead, NotFound, Panicked, Timeout};
    matches!(failed.status, Dead | Timeout | NotFound | Panicked | Busy)
}

fn instances(stores: &Stores) -> Vec<Target> {
    let all = known::instances(stores.session.peer.known());
    all.into_iter().filter(|(_, it)| it.name == SERVICE).map(|(target, _)| target).collect()
}

impl Jobs for Service<'_> {
    fn submit(&mut self, request: &Request) -> Result<u64, Failure> {
        let gone = || Failure::failed(format!("no node runs the service {SERVICE} any more"));
        let target = self.last.ok_or_else(gone)?;
        let Request { name, package, arguments, input, output, .. } = request;
        let values = json!({ "request": {
            "name": name,
            "package": package,
            "arguments": arguments,
            "input": input,
            "output": output,
            "reducers": request.reducers,
            "samples": request.samples,
            "memory": request.memory,
            "copies": request.copies,
            "conserves": request.conserves,
            "task_timeout": request.task_timeout,
        }});
        match self.call(target, "submit", &values, BEGUN)? {
            Ok(reply) => number(&reply["job"]),
            Err(failed) => Err(refused(request, &failed)),
        }
    }

    fn news(&mut self, job: u64, seen: usize, wait: Duration) -> Result<State, Failure> {
        let wait = wait.as_millis() as u64;
        let reply = self.ask("news", &json!({ "job": job, "seen": seen, "wait": wait }))?;
        state(&reply["progress"])
    }

    fn cancel(&mut self, job: u64) -> Result<(), Failure> {
        self.ask("cancel", &json!({ "job": job })).map(drop)
    }

    fn rest(&mut self, span: Duration) -> Result<(), Failure> {
        self.stores.session.peer.until(span, |_| false).map(drop)
    }

    fn insist(&mut self) {
        self.stores.session.peer.insist();
    }
}

/// Why a job was not begun.
fn refused(request: &Request, failed: &CallFailed) -> Failure {
    let message = format!("{}: {failed}", request.name);
    match failed.status {
        Status::Invalid | Status::NotFound | Status::Exists => Failure::Request(message),
        _ => Failure::Failed(message),
    }
}

fn number(value: &Value) -> Result<u64, Failure> {
    value.as_u64().ok_or_else(|| Failure::failed("the job service answered nonsense"))
}

/// Adds what the service says of a job's times; how many attempts it has.
fn add_times(all: &mut Timeline, reply: &Value) -> Result<u64, Failure> {
    let micros = |value: &Value| number(value).map(Duration::from_micros);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let list = |name: &str| reply[name].as_array().into_iter().flatten();
    let phase =
        |it: &Value| Ok((text(&it["name"]), micros(&it["begun_us"])?, micros(&it["ended_us"])?));
    let attempt = |it: &Value| {
        Ok(Attempt {
            node: number(&it["node"])? as u32,
            core: number(&it["core"])? as u16,
            kind: text(&it["kind"]),
            task: number(&it["task"])?,
            number: number(&it["attempt"])?,
            begun: micros(&it["begun_us"])?,
            ended: micros(&it["ended_us"])?,
            outcome: text(&it["outcome"]),
            read: number(&it["read"])?,
        })
    };
    all.until = micros(&reply["until_us"])?;
    all.phases = list("phases").map(phase).collect::<Result<_, Failure>>()?;
    all.lost = number(&reply["lost"])?;
    let more: Vec<Attempt> = list("attempts").map(attempt).collect::<Result<_, Failure>>()?;
    // A reply without news would be asked for without end.
    let kept = if more.is_empty() { 0 } else { number(&reply["kept"])? };
    all.attempts.extend(more);
    Ok(kept)
}

/// What the service says of a job.
fn state(reply: &Value) -> Result<State, Failure> {
    let long = |name: &str| number(&reply[name]);
    let short = |name: &str| Ok::<u32, Failure>(long(name)? as u32);
    let micros = |value: &Value| number(value).map(Duration::from_micros);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let phases = reply["phases"].as_array().into_iter().flatten();
    let phase = |it: &Value| {
        Ok(Phase {
            name: text(&it["name"]),
            took: micros(&it["us"])?,
            bytes: number(&it["bytes"])?,
        })
    };
    let end = match long("ended")? {
        0 => None,
        1 => Some(End::Done { records: long("records")?, checksum: long("checksum")? }),
        _ => Some(End::Failed(text(&reply["error"]))),
    };
    Ok(State {
        phase: text(&reply["phase"]),
        maps: (short("maps_done")?, short("maps")?),
        reduces: (short("reduces_done")?, short("reduces")?),
        bytes: long("read")? + long("written")?,
        retries: short("retries")?,
        spilled: long("spilled")?,
        imbalance: long("imbalance")? as f64 / 1000.0,
        phases: phases.map(phase).collect::<Result<_, Failure>>()?,
        first_task: Some(micros(&reply["first_task_us"])?).filter(|it| !it.is_zero()),
        waits: if end.is_none() { text(&reply["error"]) } else { String::new() },
        end,
    })
}
