//! Interleavings that were wrong once. Each stands here as the few steps that made it, under many
//! seeds, and must stay right.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, PageSize, Status};
use nile_kernel::{Config, Core};
use nile_platform::{Machine, Outcome, WakeMode};
use nile_platform_sim::{Finished, Options, SimMachine, Stuck, simulate};
use nile_ring::Message;

use crate::options;

type C = Core<SimMachine>;

fn opt(seed: u64, cores: usize, mode: Option<WakeMode>) -> Options {
    Options { wake_mode: mode, limit: Duration::from_secs(100), ..options(seed, cores) }
}

fn ms(n: u64) -> Instant {
    Instant::START + Duration::from_millis(n)
}

fn say(n: u64) -> Message {
    Message::new(1, &n.to_le_bytes()).unwrap()
}

fn heard(message: &Message) -> u64 {
    u64::from_le_bytes(message.payload().try_into().unwrap())
}

/// Runs a node whose cores each start with `part`.
fn go(options: &Options, part: impl Fn(&C)) -> Result<Finished, Stuck> {
    let config = Config::default();
    simulate(options, |machine| Box::new(Core::start(machine, &config, |core| part(core))))
}

/// Lets the management core end the node at millisecond `n`.
fn end_at(core: &C, n: u64) {
    if core.id() == CoreId::BOOT {
        let c = core.clone();
        core.spawn(async move {
            c.sleep_until(ms(n)).await;
            c.finish(Outcome::Success)
        });
    }
}

/// The sender is dropped while the move of its receiver waits for the sender's fence: the receiver
/// learns it where it has moved to.
#[test]
fn close_during_move() {
    for seed in 0..50 {
        let told = Rc::new(Cell::new(false));
        let r = go(&opt(seed, 4, Some(WakeMode::Monitored)), |core| {
            end_at(core, 2000);
            let c = core.clone();
            let told = told.clone();
            match core.id().0 {
                3 => {
                    core.spawn(async move {
                        c.sleep_until(ms(10)).await;
                        let out = c.open(CoreId(1), 5, 4).await.unwrap();
                        out.send(&say(1)).await.unwrap();
                        // Does not look at its channels meanwhile, so Close is asked before Fenced.
                        c.sleep_until(ms(20)).await;
                        c.machine().compute(Duration::from_millis(5));
                        drop(out);
                    });
                }
                1 => {
                    core.spawn(async move {
                        let i = c.accept(5).await.unwrap();
                        i.receive().await.unwrap();
                        c.sleep_until(ms(21)).await;
                        let r = i.move_to(CoreId(2)).await;
                        assert!(r.is_ok());
                    });
                }
                2 => {
                    core.spawn(async move {
                        let i = c.accept(5).await.unwrap();
                        if i.receive().await == Err(Status::Dead) {
                            told.set(true);
                        }
                    });
                }
                _ => {}
            }
        })
        .unwrap();
        assert!(r.log.is_empty(), "{:?}", r.log);
        assert!(told.get(), "seed {seed}: the receiver never learned DEAD");
    }
}

/// The receiver's core restarts while its channel is opened, and the opener hears of both at once:
/// it learns that the channel is closed.
#[test]
fn closed_as_soon_as_opened() {
    for (seed, opener) in (0..50).flat_map(|seed| [(seed, 0), (seed, 2)]) {
        let told = Rc::new(Cell::new(false));
        go(&opt(seed, 4, None), |core| {
            end_at(core, 2000);
            let c = core.clone();
            if core.id() == CoreId(opener) {
                let told = told.clone();
                core.spawn(async move {
                    c.sleep_until(ms(20)).await;
                    let mut opening = Box::pin(c.open(CoreId(1), 5, 4));
                    let asked = poll_fn(|context| Poll::Ready(opening.as_mut().poll(context)));
                    assert!(asked.await.is_pending());
                    c.machine().compute(Duration::from_millis(5));
                    opening.await.unwrap().closed().await;
                    told.set(true);
                });
            } else if core.id() == CoreId(1) && core.machine().generation() == Generation::FIRST {
                core.spawn(async move {
                    c.sleep_until(ms(22)).await;
                    panic!("on purpose")
                });
            }
        })
        .unwrap();
        assert!(told.get(), "seed {seed}: core {opener} never learned that its channel is closed");
    }
}

/// The core that a receiver moves to restarts before the move is over: its next incarnation is
/// offered nothing that it cannot have.
#[test]
fn target_dies_during_move() {
    let mut bad = Vec::new();
    for seed in 0..300 {
        let bads = Rc::new(RefCell::new(Vec::new()));
        let mut o = opt(seed, 4, Some(WakeMode::Monitored));
        o.limit = Duration::from_secs(60);
        let r = go(&o, |core| {
            end_at(core, 1000);
            let c = core.clone();
            let bads = bads.clone();
            match core.id().0 {
                3 => {
                    core.spawn(async move {
                        c.sleep_until(ms(10)).await;
                        let Ok(out) = c.open(CoreId(1), 5, 64).await else { return };
                        out.send(&say(0)).await.ok();
                        c.sleep_until(ms(20)).await;
                        c.machine().compute(Duration::from_millis(5));
                        c.sleep(Duration::from_millis(50)).await;
                    });
                }
                1 => {
                    core.spawn(async move {
                        let i = c.accept(5).await.unwrap();
                        i.receive().await.ok();
                        c.sleep_until(ms(21)).await;
                        let _ = i.move_to(CoreId(2)).await;
                    });
                }
                2 => {
                    let c2 = core.clone();
                    if core.machine().generation() == Generation(1) {
                        core.spawn(async move {
                            c2.sleep_until(ms(22)).await;
                            panic!("x")
                        });
                    }
                    core.spawn(async move {
                        loop {
                            match c.accept(5).await {
                                Ok(_) => {}
                                Err(s) => bads.borrow_mut().push(format!("accept: {s}")),
                            }
                        }
                    });
                }
                _ => {}
            }
        });
        if !bads.borrow().is_empty() {
            bad.push((seed, bads.borrow()[0].clone()));
        }
        if r.is_err() {
            bad.push((seed, "stuck".into()));
        }
        if bad.len() > 2 {
            break;
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

/// A receiver moves, the management core restarts, the receiver is dropped: the sender learns it.
#[test]
fn rejoin_after_move() {
    let mut bad = Vec::new();
    for seed in 0..60 {
        let told = Rc::new(Cell::new(false));
        go(&opt(seed, 4, None), |core| {
            let c = core.clone();
            let told = told.clone();
            match core.id().0 {
                0 => {
                    if core.machine().generation() == Generation(1) {
                        core.spawn(async move {
                            c.sleep_until(ms(30)).await;
                            panic!("on purpose")
                        });
                    } else {
                        end_at(core, 3000)
                    }
                }
                3 => {
                    core.spawn(async move {
                        c.sleep_until(ms(10)).await;
                        let out = c.open(CoreId(1), 5, 64).await.unwrap();
                        loop {
                            c.sleep(Duration::from_millis(1)).await;
                            if out.send(&say(0)).await.is_err() {
                                told.set(true);
                                return;
                            }
                            if c.now() > ms(2000) {
                                return;
                            }
                        }
                    });
                }
                1 => {
                    core.spawn(async move {
                        let i = c.accept(5).await.unwrap();
                        i.receive().await.ok();
                        assert!(i.move_to(CoreId(2)).await.is_ok());
                    });
                }
                2 => {
                    core.spawn(async move {
                        let i = c.accept(5).await.unwrap();
                        while c.now() < ms(60) {
                            i.receive().await.unwrap();
                        }
                        drop(i)
                    });
                }
                _ => {}
            }
        })
        .unwrap();
        if !told.get() {
            bad.push(seed)
        }
    }
    assert!(bad.is_empty(), "sender never learned Dead: {} seeds {bad:?}", bad.len());
}

/// Two tasks accept the same tag: each gets a channel.
#[test]
fn two_acceptors() {
    let got = Rc::new(Cell::new(0));
    go(&opt(1, 2, None), |core| {
        end_at(core, 1000);
        let c = core.clone();
        if core.id().0 == 1 {
            for _ in 0..2 {
                let (c, got) = (core.clone(), got.clone());
                core.spawn(async move {
                    let i = c.accept(5).await.unwrap();
                    got.set(got.get() + 1);
                    let _ = i.receive().await;
                });
            }
        } else {
            core.spawn(async move {
                c.sleep_until(ms(20)).await;
                let a = c.open(CoreId(1), 5, 4).await.unwrap();
                let b = c.open(CoreId(1), 5, 4).await.unwrap();
                c.sleep_until(ms(500)).await;
                drop((a, b));
            });
        }
    })
    .unwrap();
    assert_eq!(got.get(), 2);
}

/// A core that stops for good is noticed: the other end of its channel is dead.
#[test]
fn stopped_core() {
    let told = Rc::new(Cell::new(false));
    go(&opt(1, 4, None), |core| {
        end_at(core, 3000);
        let c = core.clone();
        let told = told.clone();
        match core.id().0 {
            1 => {
                core.spawn(async move {
                    c.sleep_until(ms(10)).await;
                    let o = c.open(CoreId(2), 5, 4).await.unwrap();
                    o.send(&say(1)).await.unwrap();
                    c.sleep_until(ms(20)).await;
                    c.finish(Outcome::Success);
                    c.sleep_until(ms(90000)).await;
                    drop(o)
                });
            }
            2 => {
                core.spawn(async move {
                    let i = c.accept(5).await.unwrap();
                    while i.receive().await.is_ok() {}
                    told.set(true)
                });
            }
            _ => {}
        }
    })
    .unwrap();
    assert!(told.get());
}

/// However often the management core has restarted, no channel gets another's endpoint.
#[test]
fn ninth_incarnation() {
    let got = Rc::new(Cell::new(0u64));
    let r = go(&opt(1, 4, Some(WakeMode::Signalled)), |core| {
        let c = core.clone();
        let got = got.clone();
        match core.id().0 {
            0 => {
                let g = core.machine().generation().0;
                if g < 9 {
                    core.spawn(async move {
                        c.sleep_until(ms(20 * u64::from(g))).await;
                        panic!("on purpose")
                    });
                } else {
                    end_at(core, 2000)
                }
            }
            1 => {
                core.spawn(async move {
                    c.sleep_until(ms(5)).await;
                    let o = c.open(CoreId(2), 5, 64).await.unwrap();
                    c.sleep_until(ms(300)).await;
                    let mine = c.open(CoreId(3), 6, 4).await.unwrap();
                    c.sleep_until(ms(400)).await;
                    for n in 0..10 {
                        o.send(&say(n)).await.unwrap();
                        c.sleep(Duration::from_millis(10)).await
                    }
                    c.sleep_until(ms(90000)).await;
                    drop((o, mine))
                });
            }
            2 => {
                core.spawn(async move {
                    let i = c.accept(5).await.unwrap();
                    while i.receive().await.is_ok() {
                        got.set(got.get() + 1)
                    }
                });
            }
            3 => {
                core.spawn(async move {
                    let i = c.accept(6).await.unwrap();
                    while i.receive().await.is_ok() {}
                });
            }
            _ => {}
        }
    });
    println!("{:?}", r.map(|r| r.log));
    assert_eq!(got.get(), 10);
}

/// The answer that a dead incarnation waited for is not taken for one of its successor's.
#[test]
fn reply_to_the_dead() {
    let mut bad = Vec::new();
    for seed in 0..400 {
        let log = Rc::new(RefCell::new(Vec::new()));
        let _ = go(&opt(seed, 4, Some(WakeMode::Monitored)), |core| {
            end_at(core, 2000);
            let c = core.clone();
            let log = log.clone();
            match core.id().0 {
                3 => {
                    core.spawn(async move {
                        c.sleep_until(ms(10)).await;
                        let Ok(o) = c.open(CoreId(1), 5, 64).await else { return };
                        o.send(&say(0)).await.ok();
                        c.sleep_until(ms(20)).await;
                        c.machine().compute(Duration::from_millis(30));
                        c.sleep_until(ms(1000)).await;
                        drop(o)
                    });
                }
                2 => {
                    core.spawn(async move {
                        while let Ok(i) = c.accept(5).await {
                            let _ = i.receive().await;
                        }
                    });
                }
                1 => {
                    if core.machine().generation() == Generation(1) {
                        let c2 = core.clone();
                        core.spawn(async move {
                            let i = c.accept(5).await.unwrap();
                            i.receive().await.ok();
                            c.sleep_until(ms(21)).await;
                            let _ = c.memory_statistics().await;
                            let _ = i.move_to(CoreId(2)).await;
                        });
                        core.spawn(async move {
                            c2.sleep_until(ms(25)).await;
                            panic!("x")
                        });
                    } else {
                        core.spawn(async move {
                            // To a core that computes.
                            c.sleep_until(Instant::from_nanos(49_990_000 + seed * 100)).await;
                            for _ in 0..1 {
                                match c.allocate(PageSize::Small).await {
                                    Ok(f) => {
                                        f.release().await.ok();
                                    }
                                    Err(s) => {
                                        log.borrow_mut().push(format!("{} allocate: {s}", c.now()))
                                    }
                                }
                            }
                        });
                    }
                }
                _ => {}
            }
        });
        if !log.borrow().is_empty() {
            bad.push((seed, log.borrow()[0].clone()))
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

/// A sender's core computes for long while a move waits for its fence: the move happens then, and
/// once.
#[test]
fn move_timeout() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let r = go(&opt(1, 4, Some(WakeMode::Monitored)), |core| {
        end_at(core, 30_000);
        let c = core.clone();
        let log = log.clone();
        match core.id().0 {
            3 => {
                core.spawn(async move {
                    let out = loop {
                        if let Ok(o) = c.open(CoreId(1), 5, 64).await {
                            break o;
                        }
                    };
                    out.send(&say(0)).await.unwrap();
                    c.sleep_until(ms(20)).await;
                    c.machine().compute(Duration::from_secs(12));
                    for n in 1..20 {
                        out.send(&say(n)).await.unwrap();
                        c.sleep(Duration::from_micros(50)).await;
                    }
                    c.sleep(Duration::from_secs(5)).await;
                });
            }
            1 | 2 => {
                core.spawn(async move {
                    let i = c.accept(5).await.unwrap();
                    let mut i = if c.id().0 == 1 {
                        i.receive().await.unwrap();
                        c.sleep_until(ms(21)).await;
                        match i.move_to(CoreId(2)).await {
                            Ok(()) => return,
                            Err((i, s)) => {
                                log.borrow_mut().push(format!("move: {s}"));
                                i
                            }
                        }
                    } else {
                        i
                    };
                    while let Ok(m) = i.receive().await {
                        log.borrow_mut().push(format!("{} got {}", c.id(), heard(&m)));
                    }
                    let _ = &mut i;
                });
            }
            _ => {}
        }
    });
    println!("{:?}\n{:?}", log.borrow(), r.map(|f| f.log));
    let both = ["c1 got", "c2 got"].iter().all(|p| log.borrow().iter().any(|l| l.starts_with(p)));
    assert!(!both, "two cores receive from one ring");
    assert!(
        !log.borrow().iter().any(|l| l == "move: timeout"),
        "a move timed out but was carried out later"
    );
}
