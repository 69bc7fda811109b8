//! Every core calls every other one without rest while cores end and come back: each call ends at
//! once, rightly or with a reason that is true. None is forgotten until its deadline, and none is
//! told `Dead` by a core that lives.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Instant, Status};
use nile_bosml::Bytes;
use nile_interfaces::time::TimeClient;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::{CallResult, Record, Stl};

use crate::arguments::Arguments;
use crate::calls::{probe_on, serve};
use crate::conduct::{conduct, conducts};
use crate::probe::{self, ProbeClient};

/// Tasks of one core that call another one, the first of them with long calls.
const CALLERS: usize = 3;

/// Less than a cell's.
const SHORT: usize = 10;

/// More than a link's channel has room for: the rest waits in the sender.
const LONG: usize = 26_000;

/// Far longer than any call here takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// A call that is answered so many microseconds later follows each: the simulator's links
/// take next to no time, and cores should end in the midst of calls.
const WAIT: u64 = 200;

/// How long until a core that restarts is called again.
const RETRY: Duration = Duration::from_micros(50);

/// How calls ended.
#[derive(Record, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ends {
    /// With the right reply.
    pub good: u64,
    /// Because their callee's core ended.
    pub dead: u64,
    /// By their deadline: nobody told the caller.
    pub silent: u64,
    /// In any other way.
    pub wrong: u64,
}

impl Ends {
    fn add(&mut self, other: Ends) {
        self.good += other.good;
        self.dead += other.dead;
        self.silent += other.silent;
        self.wrong += other.wrong;
    }
}

/// Starts this core's part: the conductor has every core's probe call until the time is up.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let span = Duration::from_millis(arguments.number("ms", 60));
    serve(core);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "calls-churn", move |findings| async move {
            for peer in core.peers() {
                // One that cannot be found now is looked for again.
                let _ = probe_on(&core.stl(), peer).await;
            }
            let until = core.now() + span;
            let asked = core.peers().map(|peer| {
                let own = core.clone();
                core.spawn(async move {
                    let (stl, mut ends) = (own.stl().with_patience(PATIENCE * 20), Ends::default());
                    while own.now() < until {
                        let Ok(probe) = probe_on(&stl, peer).await else { continue };
                        match probe.churn(until.as_nanos()).await {
                            Ok(told) => ends.add(told),
                            Err(error) if error.status == Status::Dead => {}
                            Err(_) => ends.wrong += 1,
                        }
                    }
                    ends
                })
            });
            let (asked, mut all) = (asked.collect::<vec::Vec<_>>(), Ends::default());
            for answer in asked {
                all.add(answer.await);
            }
            for peer in core.peers() {
                let stl = core.stl();
                if let Err(error) = probe_on(&stl, peer).await {
                    findings.check(false, format_args!("{peer} has lost its probe: {error}"));
                }
                if let Err(error) = TimeClient::find_at(&stl, peer).await {
                    findings.check(false, format_args!("{peer} has lost a service: {error}"));
                }
            }
            findings.figure("good", all.good);
            findings.figure("dead", all.dead);
            findings.check(all.good > 0, format_args!("nobody was called: {all:?}"));
            findings.check(all.silent == 0, format_args!("calls that nobody ended: {all:?}"));
            findings.check(all.wrong == 0, format_args!("calls that ended wrongly: {all:?}"));
        });
    }
}

/// Calls the probes of all other cores until then.
pub async fn churn(stl: &Stl, until: Instant) -> Ends {
    let host = stl.host();
    let (ends, left) = (Rc::new(Cell::new(Ends::default())), Rc::new(Cell::new(0)));
    let others = (0..host.cores() as u16).map(CoreId).filter(|core| *core != host.core());
    for (peer, number) in others.flat_map(|peer| (0..CALLERS).map(move |number| (peer, number))) {
        let (stl, ends, left) = (stl.with_patience(PATIENCE), ends.clone(), left.clone());
        left.set(left.get() + 1);
        host.spawn(Box::pin(async move {
            let (length, mut fill) = (if number == 0 { LONG } else { SHORT }, number as u8);
            while stl.host().now() < until {
                fill = fill.wrapping_add(CALLERS as u8);
                let end = call(&stl, peer, &vec![fill; length]).await;
                let mut all = ends.get();
                all.add(end);
                ends.set(all);
                if end.good == 0 {
                    stl.host().sleep_until(stl.host().now() + RETRY).await;
                }
            }
            left.set(left.get() - 1);
        }));
    }
    while left.get() != 0 {
        host.sleep_until(host.now() + RETRY).await;
    }
    ends.get()
}

/// A call with so many bytes and one that takes long, and how they ended.
async fn call(stl: &Stl, peer: CoreId, sent: &[u8]) -> Ends {
    let living = |core| stl.host().generation_of(core);
    let (registry, before) = (living(CoreId::BOOT), living(peer));
    let place = match stl.find_at(peer, probe::REGISTRATION.name()).await {
        Ok(place) => place,
        // It has yet to publish its probe.
        Err(error) if error.status == Status::NotFound => return Ends::default(),
        Err(error) => return bad(stl, error.status, living(CoreId::BOOT) != registry),
    };
    let probe = ProbeClient::at(stl, place);
    let ended: CallResult<bool> = async {
        let echoed = probe.echo(Bytes::from(sent)).await?;
        let waited = probe.wait(WAIT).await?;
        Ok(echoed.0 == sent && waited == WAIT)
    }
    .await;
    match ended {
        Ok(true) => Ends { good: 1, ..Ends::default() },
        Ok(false) => Ends { wrong: 1, ..Ends::default() },
        Err(error) => bad(stl, error.status, place.generation != before || living(peer) != before),
    }
}

fn bad(stl: &Stl, status: Status, died: bool) -> Ends {
    match status {
        Status::Dead if died => Ends { dead: 1, ..Ends::default() },
        Status::Timeout => Ends { silent: 1, ..Ends::default() },
        other => {
            stl.host().log(format_args!("a call ended with {other}"));
            Ends { wrong: 1, ..Ends::default() }
        }
    }
}
