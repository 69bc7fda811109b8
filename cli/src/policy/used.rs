//! Who uses the policies that no policy manager has: cores their timers, nodes what assigns their
//! roles, jobs the orders in which they get workers.

use nile_abi::NodeId;
use nile_interfaces::core_manager::CoreManagerClient;
use nile_interfaces::job::records::{JobEnd, JobEntry, JobPolicy};
use nile_interfaces::timer::TimerClient;
use nile_stl::{CallResult, Client, all};

use super::lines::{Line, Lines, SCHEDULING};
use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::known::Target;

/// The type of what ends the sleep of cores.
const TIMER_SOURCE: &str = "timer_source";

/// The type of what says which core is for what.
const ROLE_ASSIGNMENT: &str = "role_assignment";

/// Whose task a worker does next. Every worker has these policies: it is no type of the registry.
const JOB_ORDER: &str = "job_order";

/// Notes which timer wakes each core; gives the nodes that did not answer.
pub fn timers(session: &mut Session, lines: &mut Lines) -> Result<Vec<NodeId>, Failure> {
    let ask = async |core: TimerClient| Ok(Some(core.sources().await?.used));
    note(session, lines, TIMER_SOURCE, Target::place, ask)
}

/// Notes what assigns the roles of each node; gives the nodes that did not answer.
pub fn roles(session: &mut Session, lines: &mut Lines) -> Result<Vec<NodeId>, Failure> {
    let ask = async |node: CoreManagerClient| node.role_policy().await;
    note(session, lines, ROLE_ASSIGNMENT, |node| node.node.to_string(), ask)
}

/// Asks each instance of a service which policy it uses.
fn note<C: Client>(
    session: &mut Session,
    lines: &mut Lines,
    kind: &str,
    user: impl Fn(&Target) -> String,
    ask: impl AsyncFn(C) -> CallResult<Option<String>>,
) -> Result<Vec<NodeId>, Failure> {
    let users = service::instances::<C>(session);
    let used = session.peer.work(session.patience, async |clients| {
        all(users.iter().map(|target| ask(clients.at(*target)))).await
    })?;
    for line in lines.0.iter_mut().filter(|it| it.kind() == kind) {
        line.bound.get_or_insert_default();
    }
    let mut silent = Vec::new();
    for (target, used) in users.iter().zip(used) {
        match used {
            Ok(Some(used)) => lines.at(kind, target.node, &used).bind(user(target)),
            Ok(None) => {}
            Err(_) => silent.push(target.node),
        }
    }
    Ok(silent)
}

/// Adds the policies by which jobs get workers, with the jobs that are open.
pub fn jobs(lines: &mut Lines, jobs: &[JobEntry]) {
    let all =
        [JobPolicy::EarliestDeadline { deadline_ms: 0 }, JobPolicy::default(), JobPolicy::Fifo];
    for policy in all {
        let name = policy.name();
        let open = |it: &&JobEntry| it.ended == JobEnd::Open && it.policy.name() == name;
        let bound = jobs.iter().filter(open).map(|it| format!("job {} ({})", it.job, it.output));
        // They are asked in the same order.
        let alike = |it: &&Line| it.kind() == SCHEDULING && it.name == name;
        lines.0.push(Line {
            types: vec![JOB_ORDER.into()],
            name: name.into(),
            location: "all workers".into(),
            priority: lines.0.iter().find(alike).and_then(|it| it.priority),
            bound: Some(bound.collect()),
            ..Line::default()
        });
    }
}
