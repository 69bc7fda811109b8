//! What calls cost, each beside what it stands on: a bound call beside a direct and a virtual one,
//! a call by name beside a bound one, a call to another core beside a bare channel there and back.
//!
//! Contestants run in turns, round by round. A figure is the middle round's time for one operation,
//! in hundredths of a nanosecond (of an instruction where instructions are counted); `a/b` is the
//! middle of the rounds' ratios, in ten-thousandths.

mod contest;
mod costed;

use alloc::boxed::Box;
use core::hint::black_box;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_bosml::Bytes;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_ring::{Message, PAYLOAD_BYTES};
use nile_stl::{CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;
use contest::{Contest, Contestant};
use costed::{CostedClient, REGISTRATION, work};

/// Cells that are sent back over a channel.
const BOUNCE: u32 = 7;

/// The argument that goes to another core.
const ARGUMENT: [u8; 64] = [0xa5; 64];

/// The argument of the work.
const SEED: u64 = 7;

/// The service's name.
const COSTED: &str = "costed";

/// How long a core may take to publish its services.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    serve(core);
    let bouncer = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&bouncer, BOUNCE).await else { return };
        while let Ok(cell) = talk.back.receive().await {
            if talk.out.send(&cell).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let rounds = arguments.number("rounds", 5);
        let here = Contest { rounds, operations: arguments.number("calls", 100).max(1) };
        let across = Contest { rounds, operations: arguments.number("crossings", 20).max(1) };
        let core = core.clone();
        conduct(&core.clone(), "call-cost", move |findings| async move {
            findings.expect(on_this_core(&core, here, &findings).await, "calls on this core");
            let last = CoreId(core.stl().host().cores() as u16 - 1);
            let crossed = to_another_core(&core, last, across, &findings).await;
            findings.expect(crossed, "calls to another core");
        });
    }
}

/// Starts the default services and the one that is measured.
fn serve<M: Machine>(core: &Core<M>) {
    let (core, stl) = (core.clone(), core.stl());
    core.clone().spawn(async move {
        nile_services::deploy(&stl, core.roles()).await;
        if let Some(make) = REGISTRATION.kernel
            && let Err(error) = stl.publish(&REGISTRATION, make).await
        {
            core.machine().log(format_args!("nothing to call: {error}"));
        }
    });
}

/// The service on one core, once it is published.
async fn find(stl: &Stl, core: CoreId) -> CallResult<CostedClient> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        match CostedClient::find_at(stl, core).await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < deadline => {
                host.sleep_until(host.now() + Duration::from_micros(200)).await;
            }
            result => return result,
        }
    }
}

async fn on_this_core<M: Machine>(
    core: &Core<M>,
    contest: Contest,
    findings: &Findings,
) -> CallResult<()> {
    let (stl, right) = (&core.stl(), work(SEED));
    let bound = &find(stl, core.id()).await?;
    let object: &dyn Nothing = black_box(&Object);
    let working = [
        Contestant {
            name: "direct-work",
            run: &|calls| {
                Box::pin(async move {
                    (0..calls).try_for_each(|_| same(&work(black_box(SEED)), &right))
                })
            },
        },
        Contestant {
            name: "bound-work",
            run: &|calls| {
                Box::pin(async move {
                    for _ in 0..calls {
                        same(&bound.work(black_box(SEED)).await?, &right)?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "named-work",
            run: &|calls| {
                Box::pin(async move {
                    let argument = SEED.to_le_bytes();
                    for _ in 0..calls {
                        let reply = stl.invoke(COSTED, "work", &argument).await?;
                        same(&*reply, &right.to_le_bytes()[..])?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "discovered-work",
            run: &|calls| {
                Box::pin(async move {
                    for _ in 0..calls {
                        stl.discover(COSTED).await?;
                        same(&bound.work(black_box(SEED)).await?, &right)?;
                    }
                    Ok(())
                })
            },
        },
    ];
    contest.run(core, findings, &working).await?;
    let empty = [
        Contestant {
            name: "virtual",
            run: &|calls| {
                Box::pin(async move {
                    (0..calls).for_each(|_| object.nothing());
                    Ok(())
                })
            },
        },
        Contestant {
            name: "bound",
            run: &|calls| {
                Box::pin(async move {
                    for _ in 0..calls {
                        bound.nothing().await?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "named",
            run: &|calls| {
                Box::pin(async move {
                    for _ in 0..calls {
                        stl.invoke(COSTED, "nothing", &[]).await?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "discovered",
            run: &|calls| {
                Box::pin(async move {
                    for _ in 0..calls {
                        stl.discover(COSTED).await?;
                        stl.invoke(COSTED, "nothing", &[]).await?;
                    }
                    Ok(())
                })
            },
        },
    ];
    contest.run(core, findings, &empty).await
}

async fn to_another_core<M: Machine>(
    core: &Core<M>,
    to: CoreId,
    contest: Contest,
    findings: &Findings,
) -> CallResult<()> {
    let stl = &core.stl();
    let bound = &find(stl, to).await?;
    let talk = &Talk::start(core, to, BOUNCE).await?;
    let cell = &Message::new(1, &[0x5a; PAYLOAD_BYTES]).expect("that is how long one may be");
    let contestants = [
        Contestant {
            name: "channel",
            run: &|times| {
                Box::pin(async move {
                    for _ in 0..times {
                        talk.out.send(cell).await?;
                        same(talk.back.receive().await?.payload(), cell.payload())?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "bound-across",
            run: &|times| {
                Box::pin(async move {
                    for _ in 0..times {
                        same(&*bound.echo(Bytes::from(&ARGUMENT[..])).await?.0, &ARGUMENT[..])?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "named-across",
            run: &|times| {
                Box::pin(async move {
                    let mut argument = nile_bosml::Writer::new();
                    nile_bosml::Encode::encode(&Bytes::from(&ARGUMENT[..]), &mut argument);
                    let argument = argument.into_bytes()?;
                    for _ in 0..times {
                        let reply = stl.invoke_at(to, COSTED, "echo", &argument).await?;
                        same(&reply, &argument)?;
                    }
                    Ok(())
                })
            },
        },
        Contestant {
            name: "tenfold-across",
            run: &|times| {
                Box::pin(async move {
                    for _ in 0..10 * times {
                        same(&*bound.echo(Bytes::from(&ARGUMENT[..])).await?.0, &ARGUMENT[..])?;
                    }
                    Ok(())
                })
            },
        },
    ];
    contest.run(core, findings, &contestants).await
}

/// A wrong answer ends the contest.
#[inline]
fn same<T: PartialEq + ?Sized>(got: &T, right: &T) -> CallResult<()> {
    if got == right { Ok(()) } else { Err(CallError::new(Status::Invalid, "a wrong answer")) }
}

/// What a virtual call calls.
trait Nothing {
    fn nothing(&self);
}

struct Object;

impl Nothing for Object {
    fn nothing(&self) {}
}
