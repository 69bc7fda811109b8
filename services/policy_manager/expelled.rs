//! Policies that were expelled: nobody is bound to them any more, and the log and the registry say
//! why.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::poll_fn;

use nile_abi::Status;
use nile_interfaces::registry::{Asker, RegistryClient};
use nile_policy::{Decision, Expelled, Expulsion, Statistics, Subject, SubjectState};
use nile_stl::{CallError, CallResult, Place};

use super::{Asked, Shared, patiently};
use crate::cluster;

/// An expulsion in words.
pub(super) fn said(it: &Expelled) -> String {
    let at = it.at.as_nanos() / 1_000_000;
    let at = format!("{}.{:03} s after the node's start", at / 1000, at % 1000);
    let Expelled { why, subjects, .. } = it;
    match why {
        Expulsion::Fatal => format!("{why}, before {at}"),
        _ => format!("three times {why}; {subjects} bound to it went to the default, {at}"),
    }
}

/// The last decisions in words, the oldest first; those that follow each other alike are one.
pub(super) fn decisions(last: &[Decision], subjects: &[SubjectState]) -> Vec<String> {
    let name_of = |it: Subject| subjects.get(it.0 as usize).map_or("nobody", |it| &it.name);
    let mut all = Vec::new();
    for alike in last.chunk_by(|one, next| one == next) {
        let said = alike[0].said(name_of);
        all.push(match alike.len() {
            1 => said.to_string(),
            count => format!("{said} {count} times"),
        });
    }
    all
}

impl Shared {
    /// Says which policies are expelled, and that nobody is bound to them any more.
    pub(super) async fn watch(&self) {
        let Ok(manager) = self.manager() else { return };
        loop {
            let name = poll_fn(|context| manager.poll_expelled(context)).await;
            let state = manager.policies().into_iter().find(|it| it.name == name);
            let Some(it) = state.and_then(|it| it.expelled) else { continue };
            let host = self.stl.host();
            host.log(format_args!("policy {name} is expelled: {}", said(&it)));
            let last = decisions(&it.last, &manager.subjects()).join(", ");
            host.log(format_args!("policy {name} decided last: {last}"));
            let is_its = |it: &&Asked| it.policy == name;
            let freed: Vec<String> =
                self.bound.borrow().iter().filter(is_its).map(|it| it.subject.clone()).collect();
            for subject in freed {
                if let Err(error) = self.unbind(&subject).await {
                    host.log(format_args!("the registry has {subject} bound wrongly: {error}"));
                }
            }
            self.tell_expelled(&name, &it).await;
        }
    }

    /// The policies that are expelled here, and how.
    pub(super) fn expelled(&self) -> Vec<(String, Expelled)> {
        let all = self.manager().map(|manager| manager.policies()).unwrap_or_default();
        let expelled = |it: Statistics| Some((it.name, it.expelled?));
        all.into_iter().filter_map(expelled).collect()
    }

    /// Has the registry say it of all of them.
    pub(super) async fn tell_all_expelled(&self) {
        for (name, it) in self.expelled() {
            self.tell_expelled(&name, &it).await;
        }
    }

    /// Has the registry's entry of a policy say how it was expelled.
    pub(super) async fn tell_expelled(&self, name: &str, it: &Expelled) {
        let host = self.stl.host();
        let core = host.core();
        let why = format!("{}.{core}: {}", cluster::node(&self.stl), said(it));
        let known = self.instances.borrow().iter().find(|it| it.0 == name).map(|it| it.1);
        match patiently(&self.stl, || self.mark(name, known, &why)).await {
            // It is published no more.
            Ok(()) | Err(CallError { status: Status::NotFound, .. }) => {}
            Err(error) => {
                host.log(format_args!(
                    "the registry does not say that {name} is expelled: {error}"
                ));
            }
        }
    }

    async fn mark(&self, name: &str, known: Option<Place>, why: &str) -> CallResult<()> {
        let registry = RegistryClient::find(&self.stl).await?;
        let found = match known {
            Some(place) => place.into(),
            // It has ended the last incarnation of this core, which knew the instance.
            None => registry.locate(Asker::Operator, name).await?,
        };
        registry.expel(found, why).await
    }
}
