//! Policies as services (Dhara, IV.A): instances of one type, found by their keywords and their
//! attributes, ordered by their global priorities, bound to tasks one at a time.

mod dispatching;
mod node;

use nile_abi::Status;
use nile_interfaces::policy_manager::PolicyManagerClient;
use nile_interfaces::registry::{Asker, NamedValue, RegistryClient, Wanted};
use nile_interfaces::time::TimeClient;
use nile_registry::{Attribute, AttributeValue, Caller as Binder, Layer, Relation};
use nile_services::fair;
use nile_stl::{CallError, CallResult, Registration, Stl};

use dispatching::even::{self, EvenClient};
use dispatching::queued::{self, QueuedClient};
use dispatching::urgent::{self, UrgentClient};

const OPERATOR: Asker = Asker::Operator;

async fn publish(stl: &Stl, policies: &[&'static Registration]) -> CallResult<()> {
    for policy in policies {
        stl.publish(policy, policy.kernel.expect("it has a kernel half")).await?;
    }
    Ok(())
}

fn policy() -> Wanted {
    Wanted::of(&even::TYPE)
}

fn refused<T>(result: CallResult<T>) -> (Status, String) {
    let CallError { status, message } = result.err().expect("it is refused");
    (status, message.into())
}

/// Which policy that is: the one that has the task which is given to it.
async fn which(stl: &Stl, found: &EvenClient) -> CallResult<&'static str> {
    found.enqueue(1, 0).await?;
    let all = [
        ("even", EvenClient::find(stl).await?.next().await?),
        ("queued", QueuedClient::find(stl).await?.next().await?),
        ("urgent", UrgentClient::find(stl).await?.next().await?),
    ];
    let has: Vec<_> = all.iter().filter(|(_, task)| *task == 1).map(|(name, _)| *name).collect();
    assert_eq!(has.len(), 1, "{all:?}");
    Ok(has[0])
}

#[test]
fn a_policy_is_found_by_what_is_said_of_it() {
    node::run(2, |stl| async move {
        // The type is registered by whichever instance comes first.
        publish(&stl, &[&queued::REGISTRATION, &even::REGISTRATION, &urgent::REGISTRATION]).await?;
        let order = |value: &'static str| Attribute::text("order", value);
        let preemptive = Attribute::new("preemptive", AttributeValue::Bool(true));
        for (wanted, name) in [
            (policy().keyword("batch"), "queued"),
            (policy().keyword("latency"), "urgent"),
            (policy().keyword("latency").keyword("interactive"), "even"),
            (policy().keyword("latency").at_most("global_priority", 25), "even"),
            (policy().at_least("global_priority", 21), "urgent"),
            (policy().with(&order("arrival")), "queued"),
            (policy().with(&preemptive).with(&order("priority")), "urgent"),
            // What matches nothing is served by the default, as is who wants nothing.
            (policy().keyword("energy"), "even"),
            (policy(), "even"),
        ] {
            let found: EvenClient = wanted.find(&stl).await?;
            assert_eq!(which(&stl, &found).await?, name, "{wanted:?}");
        }
        let nobody =
            refused(policy().at_least("global_priority", 31).find::<EvenClient>(&stl).await);
        assert_eq!(nobody.0, Status::NotFound, "{}", nobody.1);
        let default = policy().keyword("batch").at_least("global_priority", 11);
        let default: EvenClient = default.find(&stl).await?;
        assert_eq!(which(&stl, &default).await?, "even", "the default satisfies it");

        // Who has gone is not found, and what it matched goes to the default.
        stl.unpublish("queued").await?;
        let found: EvenClient = policy().keyword("batch").find(&stl).await?;
        found.enqueue(7, 0).await?;
        assert_eq!(EvenClient::find(&stl).await?.next().await?, 7);
        Ok(())
    });
}

#[test]
fn wrong_queries_are_refused() {
    node::run(1, |stl| async move {
        let unknown = refused(policy().find::<EvenClient>(&stl).await);
        assert_eq!(unknown.0, Status::NotFound);
        assert!(unknown.1.contains("dispatching"), "{}", unknown.1);
        publish(&stl, &[&even::REGISTRATION]).await?;

        let other = refused(policy().find::<TimeClient>(&stl).await);
        assert_eq!(other.0, Status::Invalid);
        assert!(other.1.contains("time") && other.1.contains("dispatching"), "{}", other.1);
        let low = stl.acting_as(Binder::Service(Layer::Low));
        assert_eq!(refused(policy().find::<EvenClient>(&low).await).0, Status::Denied);
        let high = stl.acting_as(Binder::Service(Layer::High));
        assert_eq!(policy().find::<EvenClient>(&high).await?.next().await?, 0);

        let registry = RegistryClient::find(&stl).await?;
        let order = Attribute::text("global_priority", "high");
        let mut sized = policy().with(&order);
        sized.conditions[0].relation = Relation::AtLeast;
        assert_eq!(refused(registry.search(OPERATOR, sized).await).0, Status::Invalid);
        // What a person writes is taken as the type's rule wants it.
        let mut said = policy();
        said.conditions = policy().at_least("global_priority", 0).conditions;
        said.conditions[0].value = NamedValue::written("global_priority", "20");
        registry.search(OPERATOR, said).await?;
        Ok(())
    });
}

#[test]
fn a_policy_manager_visits_policies_by_their_global_priorities() {
    node::run(2, |stl| async move {
        publish(&stl, &[&even::REGISTRATION, &queued::REGISTRATION, &urgent::REGISTRATION]).await?;
        for (wanted, task) in [("batch", 1), ("interactive", 2), ("realtime", 3), ("realtime", 4)] {
            let found: EvenClient = policy().keyword(wanted).find(&stl).await?;
            found.enqueue(task, task).await?;
        }
        let registry = RegistryClient::find(&stl).await?;
        let order = registry.order("dispatching").await?;
        let names: Vec<_> = order.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["urgent", "even", "queued"]);
        assert!(order.iter().all(|it| it.type_name == "dispatching"), "{order:?}");
        let mut ran = Vec::new();
        while ran.len() < 4 {
            for policy in &order {
                let task = EvenClient::at(&stl, policy.found.into()).next().await?;
                if task > 0 {
                    ran.push(task);
                    break;
                }
            }
        }
        assert_eq!(ran, [4, 3, 2, 1]);
        assert_eq!(refused(registry.order("paging").await).0, Status::NotFound);

        // What the policies share is with their type.
        let runnable = |count| vec![NamedValue::from(&Attribute::int("runnable", count))];
        let share = |asker, values| registry.share(asker, "dispatching", values);
        assert_eq!(share(OPERATOR, vec![]).await?, runnable(0));
        assert_eq!(share(OPERATOR, runnable(4)).await?, runnable(4));
        let text = vec![NamedValue::from(&Attribute::text("runnable", "many"))];
        assert_eq!(refused(share(OPERATOR, text).await).0, Status::Invalid);
        let other = vec![NamedValue::from(&Attribute::int("running", 1))];
        assert_eq!(refused(share(OPERATOR, other).await).0, Status::Invalid);
        let low = Asker::Service(Layer::Low);
        let denied = refused(share(low, runnable(5)).await);
        assert_eq!(denied.0, Status::Denied, "a lower layer shares nothing with a higher one");
        assert_eq!(share(low, vec![]).await?, runnable(4));
        Ok(())
    });
}

#[test]
fn a_task_is_bound_to_one_policy_with_parameters_that_fit() {
    node::run(1, |stl| async move {
        publish(&stl, &[&even::REGISTRATION, &queued::REGISTRATION]).await?;
        let registry = RegistryClient::find(&stl).await?;
        let task = 42;
        let batch = || policy().keyword("batch");
        let local = |value: i64| vec![NamedValue::from(&Attribute::int("local_priority", value))];
        let bound = registry.bind(OPERATOR, task, batch(), local(9)).await?;
        assert_eq!((bound.name.as_str(), bound.unbound.as_deref()), ("queued", None));
        let queued: QueuedClient = QueuedClient::at(&stl, bound.found.into());
        assert_eq!(queued.waiting().await?, 0);

        for (parameters, why) in [
            (local(10), "from 0 to 9"),
            (vec![NamedValue::from(&Attribute::text("local_priority", "9"))], "whole number"),
            (vec![NamedValue::written("local_priority", "high")], "whole number"),
            (vec![NamedValue::written("nice", "9")], "nice"),
        ] {
            let refused = refused(registry.bind(OPERATOR, task, policy(), parameters).await);
            assert!(refused.0 == Status::Invalid && refused.1.contains(why), "{refused:?}");
        }
        // A refused bind has unbound nothing; an accepted one says what it has unbound first.
        let said = vec![NamedValue::written("local_priority", "0")];
        let bound = registry.bind(OPERATOR, task, policy(), said).await?;
        assert_eq!((bound.name.as_str(), bound.unbound.as_deref()), ("even", Some("queued")));
        assert!(registry.unbind(task, "dispatching").await?);
        assert!(!registry.unbind(task, "dispatching").await?);
        Ok(())
    });
}

#[test]
fn who_asks_for_what_is_not_there_is_told_what_there_is() {
    node::run(2, |stl| async move {
        publish(&stl, &[&even::REGISTRATION]).await?;
        let manager = PolicyManagerClient::find(&stl).await?;
        let scheduling = || Wanted::of(&fair::TYPE);
        let typed = |name: &str| Wanted { type_name: name.into(), ..scheduling() };
        let bind = |subject: &str, wanted, given: &[(&str, &str)]| {
            let parameters = given.iter().map(|(name, value)| NamedValue::written(name, value));
            manager.bind(OPERATOR, subject.into(), wanted, parameters.collect())
        };
        bind("registry", scheduling().keyword("batch"), &[]).await?;
        let keywords = "there is batch, budget, deadline, fair, interactive, latency, periodic, \
                        realtime, share, throughput";
        let beyond = scheduling().at_least("global_priority", 90);
        let policies = "there is real_time (global_priority=30), earliest_deadline \
                        (global_priority=25), fair (global_priority=20), fifo (global_priority=10)";
        let parameters = "there is no attribute `nice` to give; there is local_priority, weight, \
                          period_us, budget_us, deadline_us";
        for (wanted, given, status, says) in [
            (typed("paging"), &[][..], Status::NotFound, "is `paging`; there is scheduling"),
            (typed("log"), &[], Status::NotFound, "is `log`; there is scheduling"),
            (typed("dispatching"), &[], Status::NotFound, "there is scheduling"),
            (scheduling().keyword("frugal"), &[], Status::NotFound, "the keyword `frugal`"),
            (scheduling().keyword("frugal"), &[], Status::NotFound, keywords),
            (scheduling().keyword("batch").keyword("fare"), &[], Status::NotFound, "`fare`"),
            (beyond, &[], Status::NotFound, policies),
            (scheduling(), &[("nice", "5")], Status::Invalid, parameters),
            (scheduling().keyword("batch"), &[("weight", "5")], Status::Invalid, "no parameter"),
        ] {
            let (found, message) = refused(bind("registry", wanted, given).await);
            assert!(found == status && message.contains(says), "{found}: {message}");
        }
        let (status, message) = refused(bind("nobody", scheduling(), &[]).await);
        assert!(status == Status::NotFound && message.contains("it has kernel, "), "{message}");
        let subjects = manager.subjects().await?;
        let registry = subjects.iter().find(|it| it.name == "registry").unwrap();
        assert_eq!(registry.policy, "fifo", "what is refused changes nothing");
        Ok(())
    });
}
