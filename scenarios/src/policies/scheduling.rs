//! Scheduling policies at work: two subjects of a core race, bound to one policy and another, while
//! they run; a policy that does wrong harms nobody and is expelled.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_interfaces::policy_manager::PolicyManagerClient;
use nile_interfaces::registry::{NamedValue, Wanted};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_policy::{Answer, Ready, Scheduling, Token};
use nile_services::fair;
use nile_stl::{CallResult, Registration, Start, Stl, service};
use nile_sync::yield_now;

use super::{OPERATOR, expect, expelled, publish};
use crate::conduct::Findings;

/// Turns of each that races.
pub const TURNS: u64 = 2_000;

/// Races until one is as it is to be.
const MOST_RACES: usize = 8;

/// Answers nothing.
#[derive(Default)]
pub struct Mute;

impl Scheduling for Mute {
    fn enqueue(&mut self, _: &Ready) {}
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, _: Instant) -> Option<Answer> {
        None
    }
}

/// Answers the first that it was ever given, again and again.
#[derive(Default)]
pub struct Stuck(Option<Token>);

impl Scheduling for Stuck {
    fn enqueue(&mut self, it: &Ready) {
        self.0.get_or_insert(it.token);
    }
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.0.map(|token| Answer::Run(token, None))
    }
}

mod mute {
    use super::*;

    pub struct Silent;

    impl Start for Silent {
        fn start(_: &Stl) -> Silent {
            Silent
        }
    }

    /// A policy that answers nothing.
    #[service(
        type = fair::TYPE,
        keywords(mute = 9),
        attributes(global_priority = 60),
        policy = super::Mute,
    )]
    impl Silent {
        /// How it decides.
        #[stl_k(reply = "text", allow(package, operator, peer))]
        fn explain(&self) -> String {
            "it does not".into()
        }
    }
}

mod stuck {
    use super::*;

    pub struct Liar;

    impl Start for Liar {
        fn start(_: &Stl) -> Liar {
            Liar
        }
    }

    /// A policy that answers what has had its turn.
    #[service(
        type = fair::TYPE,
        keywords(stuck = 9),
        attributes(global_priority = 61),
        policy = super::Stuck,
    )]
    impl Liar {
        /// How it decides.
        #[stl_k(reply = "text", allow(package, operator, peer))]
        fn explain(&self) -> String {
            "the first one, for ever".into()
        }
    }
}

/// The policies that do wrong, what each is found by, and what it decides until it is expelled.
static HOSTILE: [(&Registration, &str, &str); 2] = [
    (&mute::REGISTRATION, "mute", "(nothing) 3 times"),
    (&stuck::REGISTRATION, "stuck", "red, (what is not ready) 3 times"),
];

/// Checks it on the calling core.
pub async fn check<M: Machine>(core: &Core<M>, findings: &Findings) -> CallResult<()> {
    let stl = core.stl();
    for name in ["red", "green"] {
        stl.host().subject(name);
    }
    let manager = PolicyManagerClient::find(&stl).await?;
    let bench = Bench { core: core.clone(), manager, turn: Duration::ZERO };
    bench.check_shares(findings).await?;
    bench.check_refused(findings).await?;
    bench.check_hostile(findings).await?;
    let subjects = bench.manager.subjects().await?;
    let bound: Vec<_> = subjects.iter().filter(|it| it.policy != "default").collect();
    findings.check(bound.is_empty(), format_args!("still bound: {bound:?}"));
    Ok(())
}

pub struct Bench<M: Machine> {
    pub core: Core<M>,
    pub manager: PolicyManagerClient,
    /// How long a turn computes.
    pub turn: Duration,
}

impl<M: Machine> Bench<M> {
    pub async fn bind(
        &self,
        subject: &str,
        word: &str,
        given: &[(&str, i64)],
    ) -> CallResult<String> {
        let wanted = Wanted::of(&fair::TYPE).keyword(word);
        let given = given.iter().map(|(name, value)| NamedValue::written(name, &value.to_string()));
        let bound = self.manager.bind(OPERATOR, subject.into(), wanted, given.collect()).await?;
        Ok(bound.name)
    }

    /// Has both take so many turns each; how many the other had had when each was done.
    pub async fn race(&self) -> [u64; 2] {
        let stl = self.core.stl();
        let counts: [Rc<Cell<u64>>; 2] = Default::default();
        let mut ends = Vec::new();
        for (which, name) in ["red", "green"].into_iter().enumerate() {
            let (own, other) = (counts[which].clone(), counts[1 - which].clone());
            let host = stl.host();
            let before = host.act_as(host.subject(name));
            let (core, turn) = (self.core.clone(), self.turn);
            ends.push(self.core.spawn(async move {
                for _ in 0..TURNS {
                    if !turn.is_zero() {
                        core.machine().compute(turn);
                    }
                    own.set(own.get() + 1);
                    yield_now().await;
                }
                other.get()
            }));
            host.act_as(before);
        }
        let mut others = [0; 2];
        for (other, end) in others.iter_mut().zip(ends) {
            *other = end.await;
        }
        others
    }

    /// Races until one ends `right`; how the last one ended otherwise. Now and then a machine holds
    /// a core up in the midst of a turn, which that subject's policy counts as it must.
    pub async fn race_until(&self, right: impl Fn(u64, u64) -> bool) -> Result<(), [u64; 2]> {
        let mut last = [0; 2];
        for _ in 0..MOST_RACES {
            last = self.race().await;
            if right(last[0], last[1]) {
                return Ok(());
            }
        }
        Err(last)
    }

    async fn check_shares(&self, findings: &Findings) -> CallResult<()> {
        let even = self.race_until(|green, _| green + 2 >= TURNS).await;
        findings.check(even.is_ok(), format_args!("unbound, {even:?} of {TURNS}"));
        for (subject, weight) in [("red", 400), ("green", 100)] {
            let name = self.bind(subject, "share", &[("weight", weight)]).await?;
            findings.check(name == "fair", format_args!("{name} gives shares"));
        }
        let quarter = TURNS / 8..=TURNS / 2;
        let shares = self.race_until(|green, _| quarter.contains(&green)).await;
        findings.check(shares.is_ok(), format_args!("with a quarter of the weight {shares:?}"));
        // Rebound while it is bound; the one that is urgent goes first, and the batch last.
        self.bind("red", "batch", &[]).await?;
        self.bind("green", "realtime", &[("local_priority", 5)]).await?;
        let urgent = self.race_until(|_, red| red <= TURNS / 4).await;
        findings.check(urgent.is_ok(), format_args!("before real time was done, {urgent:?}"));
        for subject in ["red", "green"] {
            let unbound = self.manager.unbind(subject.into()).await?;
            findings.check(unbound, format_args!("{subject} was not bound"));
        }
        let again = self.manager.unbind("red".into()).await?;
        findings.check(!again, format_args!("it was unbound before"));
        Ok(())
    }

    async fn check_refused(&self, findings: &Findings) -> CallResult<()> {
        let period: &[_] = &[("period_us", 10_000), ("budget_us", 9_000)];
        self.bind("red", "deadline", period).await?;
        for (subject, word, given, status, why) in [
            ("blue", "share", &[][..], Status::NotFound, "has no subject blue"),
            ("green", "share", &[("weight", 0)][..], Status::Invalid, "weight"),
            ("green", "batch", &[("weight", 5)][..], Status::Invalid, "takes no parameter"),
            ("green", "share", &[("nice", 5)][..], Status::Invalid, "nice"),
            ("green", "deadline", &[][..], Status::Invalid, "deadline_us"),
            ("green", "deadline", period, Status::Busy, "promised"),
        ] {
            let refused = self.bind(subject, word, given).await.map(|_| ());
            expect(findings, refused, status, why);
        }
        let subjects = self.manager.subjects().await?;
        let green = subjects.iter().find(|it| it.name == "green").map(|it| it.policy.as_str());
        findings.check(green == Some("default"), format_args!("green is bound to {green:?}"));
        self.manager.unbind("red".into()).await?;
        Ok(())
    }

    async fn check_hostile(&self, findings: &Findings) -> CallResult<()> {
        for (registration, word, last) in HOSTILE {
            publish(&self.core, registration).await?;
            self.bind("red", word, &[]).await?;
            self.bind("green", "share", &[]).await?;
            // Both come to their ends.
            self.race().await;
            let policies = self.manager.policies().await?;
            let hostile = policies.iter().find(|it| it.name == registration.name());
            let told = hostile.map(|it| (it.subjects, it.refused, it.expelled.is_some()));
            let right = told == Some((0, 3, true));
            findings.check(right, format_args!("{} is {hostile:?}", registration.name()));
            let decided = hostile.map(|it| it.last.join(", ")).unwrap_or_default();
            findings.check(decided == last, format_args!("it decided last: {decided}"));
            let entry = expelled(&self.core.stl(), registration.name()).await?;
            let said = ["c0: three times it gave ", "; 1 bound to it went to the default, "];
            let says = said.iter().all(|part| entry.contains(part));
            findings.check(says, format_args!("its entry says: {entry}"));
            let again = self.bind("red", word, &[]).await.map(|_| ());
            expect(findings, again, Status::Denied, "expelled");
            self.manager.unbind("green".into()).await?;
            self.core.stl().unpublish(registration.name()).await?;
        }
        Ok(())
    }
}
