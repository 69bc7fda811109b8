//! `nile policies` and `nile policy`, on a cluster of three hosted nodes with three cores each that
//! is up for other tests, too.

use serde_json::Value;

use crate::cluster::{Place, document, refused, until};

/// The policies of a type.
fn of_type(place: &Place, kind: &str) -> Vec<Value> {
    let all = place.json(&["policies", kind]);
    let types = all["types"].as_array().unwrap();
    assert_eq!((types.len(), &types[0]["type"]), (1, &kind.into()));
    types[0]["instances"].as_array().unwrap().clone()
}

/// The instance of a scheduling policy on a node.
fn policy(place: &Place, node: &str, name: &str) -> Value {
    let is_it =
        |it: &&Value| it["name"] == name && it["location"].as_str().unwrap().starts_with(node);
    of_type(place, "scheduling").iter().find(is_it).unwrap().clone()
}

/// Every type that the cluster has is shown, with who uses its policies.
fn check_types(place: &Place) {
    let all = place.json(&["policies"]);
    let types = all["types"].as_array().unwrap();
    let names: Vec<&str> = types.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["job_order", "records", "role_assignment", "scheduling", "timer_source"]);
    let names = |kind: &str, many: usize| -> Vec<String> {
        let all = of_type(place, kind);
        all[..many].iter().map(|it| it["name"].as_str().unwrap().into()).collect()
    };
    assert_eq!(names("job_order", 3), ["earliest_deadline", "fair", "fifo"]);
    let scheduling = ["real_time", "earliest_deadline", "fair", "default", "fifo"];
    assert_eq!(names("scheduling", 5), scheduling);
    // Each core of the three nodes has a timer that wakes it.
    let timers = of_type(place, "timer_source");
    let cores: Vec<&Value> = timers.iter().flat_map(|it| it["bound"].as_array().unwrap()).collect();
    assert_eq!(cores.len(), 9, "{timers:?}");
    assert!(timers.iter().all(|it| it["decisions"].is_null()), "nobody counts them: {timers:?}");
    let exact = place.json(&["policies", "exact"]);
    assert_eq!(exact["types"][0]["type"], "role_assignment");
    assert_eq!(exact["types"][0]["instances"].as_array().unwrap().len(), 3);
    let shown = place.run(&["policies", "timer_source"]).expect(0).out;
    assert!(shown.contains(" serves n1.c0, n1.c1, n1.c2\n"), "{shown}");
    assert!(!shown.contains("real_time"), "{shown}");
}

pub fn check(place: &Place) {
    check_types(place);
    let bind = |subject, more: &[&str]| {
        place.run(&[&["policy", "bind", subject, "scheduling"], more].concat())
    };
    let said = bind("n1.c2/package", &["--keyword", "batch"]).expect(0).out;
    assert_eq!(said, "n1.c2/package is bound to fifo\n");
    let said = bind("n1.c2/package", &["weight=300", "--json"]).expect(0);
    let said = document(&said);
    assert_eq!((&said["policy"], &said["before"]), (&"fair".into(), &"fifo".into()));
    let fair = policy(place, "n1.", "fair");
    assert_eq!((&fair["bound"][0], &fair["subjects"]), (&"n1.c2/package".into(), &1.into()));
    let shown = place.run(&["policies"]).expect(0).out;
    assert!(shown.contains("\nn1.c2/package is bound to fair\n"), "{shown}");

    // A core whose services are bound serves as before, and its policy is asked.
    bind("n1.c2/ackermann", &["--keyword", "realtime", "local_priority=50"]).expect(0);
    let compute = ["call", "ackermann.compute", "m=2", "n=3", "--core", "n1.c2"];
    assert_eq!(place.run(&compute).expect(0).out, "<reply><value>9</value></reply>\n");
    until("the default has decided beside it", || {
        policy(place, "n1", "default")["subjects"] == 0 && shown_ran(place)
    });
    for (subject, more, part) in [
        ("n1.c2/nobody", &[][..], "core c2 has no subject nobody; it has kernel, "),
        ("n1.c2/package", &["weight=0"], "`weight` must be from 1 to 10000"),
        ("n1.c2/package", &["nice=5"], "there is local_priority, weight, "),
        ("n1.c2/package", &["--keyword", "frugal"], "`frugal`; there is batch, budget, deadline"),
        ("n1.c2/package", &["--keyword", "batch", "weight=5"], "takes no parameter"),
        ("n1.c2/package", &["--keyword", "deadline", "period_us=1000"], "deadline_us"),
        ("n1.c7/package", &[], "no core n1.c7"),
        ("n1/package", &[], "write n1.c2/package"),
        ("n1.c2/package", &["weight"], "write weight=300"),
        ("n1.c2/package", &["--with", "global_priority>=90"], "there is real_time (global"),
    ] {
        refused(bind(subject, more), part);
    }
    refused(place.run(&["policies", "paging"]), "no policy, and no type of policies, is `paging`");
    refused(place.run(&["policy", "bind", "n1.c2/package", "paging"]), "there is scheduling");
    assert_eq!(policy(place, "n1.", "fair")["subjects"], 1, "what is refused changes nothing");
    for (subject, said) in [
        ("n1.c2/package", "n1.c2/package is bound to nothing now: the default schedules it\n"),
        ("n1.c2/package", "n1.c2/package was bound to nothing\n"),
        ("n1.c2/ackermann", "n1.c2/ackermann is bound to nothing now: the default schedules it\n"),
    ] {
        assert_eq!(place.run(&["policy", "unbind", subject, "scheduling"]).expect(0).out, said);
    }
}

/// Whether anything of those that are bound to nothing has run beside one that is.
fn shown_ran(place: &Place) -> bool {
    let policies = place.json(&["call", "policy_manager.policies", "--core", "n1.c2"]);
    let all = policies["reply"]["policies"].as_array().unwrap().clone();
    all.iter().any(|it| it["name"] == "default" && it["ran_ns"].as_u64() > Some(0))
}

/// The managing core of a node restarts; its registry is told again who is bound.
pub fn check_told_again(place: &Place, restart: impl FnOnce()) {
    let bind = ["policy", "bind", "n2.c2/package", "scheduling", "--keyword", "batch"];
    place.run(&bind).expect(0);
    restart();
    // The package is the subject behind the kernel on core 2.
    let number = format!("subject={}", (2u64 << 32) + 1);
    let unbind = ["call", "registry.unbind", &number, "type_name=scheduling", "--core", "n2.c0"];
    until("the new registry knows who is bound", || {
        let said = place.run(&[&unbind[..], &["--json"]].concat());
        said.status == Some(0) && document(&said)["reply"]["was_bound"] == true
    });
    assert_eq!(policy(place, "n2.", "fifo")["bound"][0], "n2.c2/package");
}
