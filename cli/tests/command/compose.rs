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
}

/// The commands of the page, and what each prints.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = PAGE.split("```text\n$ ./nile ").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.filter_map(|block| block.split_once('\n'))
}
