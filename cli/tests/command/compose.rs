//! `nile compose`, on a cluster that is up for other tests, too, and as its page has it.

use crate::cluster::{Place, refused};

/// The page with the commands and what they print.
const PAGE: &str = include_str!("../../../docs/book/composition.md");

pub fn check(place: &Place) {
    let mut shown = 0;
    for (command, said) in examples() {
        let arguments: Vec<&str> = command.split(' ').collect();
        assert_eq!(place.run(&arguments).expect(0).out, said, "{command}");
        shown += 1;
    }
    assert_eq!(shown, 2);
    let plan = place.json(&["compose", "--from", "m,n", "--to", "value"]);
    let step = &plan["steps"][0];
    assert_eq!((&step["service"], &step["method"]), (&"ackermann".into(), &"compute".into()));
    assert_eq!((&step["takes"]["n"], &step["begins_ns"]), (&"n".into(), &0.into()));
    assert_eq!(plan["gives"]["value"], "ackermann.compute.value");
    assert_eq!((&plan["latency_ns"], &step["ends_ns"]), (&10_000.into(), &10_000.into()));
    assert!(plan["per_second"].is_null());
    let to_value = ["compose", "--from", "m,n", "--to", "value"];
    for (arguments, why) in [
        (&["compose", "--from", "m", "--to", "value"][..], "lead to `value`"),
        (&["compose", "--from", "m,n,m", "--to", "value"], "`m` is given twice"),
        (&["compose", "--from", "text", "--to", "value"], "`text`; there are: m, n, value"),
        (&["compose", "--from", "m:string,n", "--to", "value"], "`m`; there are: m, n, value"),
        (&["compose", "--from", "m:number", "--to", "value"], "no type is `number`"),
        (&["compose", "--from", "m,n"], "--to"),
        (&[&to_value[..], &["--at-most", "latency=2us"]].concat(), "10000 ns, more than 2000 ns"),
        (&[&to_value[..], &["--at-most", "latency=2"]].concat(), "500us, 2ms or 1s"),
        (&[&to_value[..], &["--at-most", "price=2"]].concat(), "latency=2ms"),
        (&[&to_value[..], &["--at-least", "throughput=x"]].concat(), "number of calls"),
    ] {
        refused(place.run(arguments), why);
    }
    check_published(place);
}

/// A plan that a node keeps is called as any service, until it is withdrawn.
fn check_published(place: &Place) {
    let add = ["compose", "--from", "m,n", "--to", "value", "--publish", "power"];
    let made = place.json(&add);
    assert_eq!((&made["name"], &made["location"]), (&"power".into(), &"n1.c0".into()), "{made}");
    let part = &made["parts"][0];
    assert_eq!((&part["service"], &part["method"]), (&"ackermann".into(), &"compute".into()));
    assert!(part["location"].as_str().unwrap().starts_with('n'), "{made}");
    let called = place.json(&["call", "power.power", "m=2", "n=3"]);
    assert_eq!((&called["reply"]["value"], &called["from"]), (&9.into(), &"n1.c0".into()));
    place.run(&["call", "power.power", "m=3", "n=1000"]).expect(1);
    let published = place.json(&["compose", "--published"]);
    let all = published["composites"].as_array().unwrap();
    let known = |name: &str| all[0][name].clone();
    assert_eq!((all.len(), known("name"), known("calls")), (1, "power".into(), 2.into()));
    let shown = place.run(&["compose", "--published"]).expect(0).out;
    assert!(shown.starts_with("name ") && shown.contains("ackermann.compute on n"), "{shown}");
    let withdraw = ["compose", "--withdraw", "power"];
    refused(place.run(&add), "power is a composite on n1.c0 already");
    for (goal, name, why) in [
        (&["--from", "m", "--to", "value"][..], "other", "lead to `value`"),
        (&["--from", "m,n", "--to", "value"], "log", "log is a service of the node"),
        (&["--from", "m,n", "--to", "value"], "", "part without a name"),
    ] {
        refused(place.run(&[&["compose"], goal, &["--publish", name]].concat()), why);
    }
    refused(place.run(&["compose", "--withdraw", "powr"]), "did you mean `power`?");
    refused(place.run(&[&withdraw[..], &["--to", "value"]].concat()), "--to");
    assert_eq!(place.run(&withdraw).expect(0).out, "power is ended on n1.c0\n");
    refused(place.run(&withdraw), "no composite is called `power`");
}

/// The commands of the page, and what each prints.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = PAGE.split("```text\n$ ./nile ").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.filter_map(|block| block.split_once('\n'))
}
