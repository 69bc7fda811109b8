//! What all schemas of the image promise: no answer grows with the cluster, as a reply with a list
//! is a page, or bounded by what does not grow; and docs/callers.md says who may call what.

use std::fmt::Write;

use nile_bosml::schema::CallerKind;
use nile_bosml::schema::{Method, Type};
use nile_services::ALL;

/// The parameters that say where a page begins.
const PAGES: [&str; 4] = ["skip", "after", "from", "at"];

/// Replies with lists that are no pages, and why they fit.
const BOUNDED: [(&str, &str); 47] = [
    ("bulk.counters", "what is counted is fixed"),
    ("composer.publish", "a composition has 64 parts at most"),
    ("core_manager.answers", "96 spans at most"),
    ("core_manager.keeps", "a node has at most 32 keeps"),
    ("core_manager.regions", "a node has at most 32, each for the packages of its cores"),
    ("core_manager.list", "a node has at most 256 cores"),
    ("core_manager.roles", "a node has at most 256 cores"),
    ("core_manager.statistics", "causes and queues are fixed"),
    ("disk.list", "the disks of one core"),
    ("domains.create", "a node has at most 256 cores"),
    ("domains.list", "a machine has at most 62 domains, and 256 cores among them"),
    ("domains.plan", "a node has at most 256 cores"),
    ("domains.resize", "a node has at most 256 cores"),
    ("domains.share", "a machine has at most 62 domains"),
    ("gossip.namesakes", "the one that was heard last, if any"),
    ("graph.highest", "501 vertices at most"),
    ("graph.top", "500 vertices at most"),
    ("interrupt.counts", "causes are fixed"),
    ("interrupt.devices", "a node has at most eight interfaces and eight disks that are told"),
    ("job.news", "1024 parts, 256 workers and the phases at most"),
    ("job.progress", "1024 parts, 256 workers and the phases at most"),
    ("job.progress_here", "1024 parts, 256 workers and the phases at most"),
    ("job.workers", "the first that fit"),
    ("log.tail", "256 lines at most, as many as fit"),
    ("name.change", "a dataset is on 16 nodes at most, and there are three keepers"),
    ("name.look", "a dataset is on 16 nodes at most, and there are three keepers"),
    ("network.counters", "what is counted is fixed"),
    ("network.hear", "32 messages of 1500 bytes at most; the next call has the next"),
    ("network.standing", "256 nodes at most; `seen` says where it goes on"),
    ("packages.list", "a core has at most four packages"),
    ("physical_memory.regions", "1024 regions at most"),
    ("physical_memory.statistics", "a node has at most 256 cores"),
    ("policy_manager.policies", "a core has those of its image, and few that were published"),
    ("policy_manager.subjects", "a core has some 20 services and a package"),
    ("records.compare", "a value has 4096 bytes at most"),
    ("records.get", "a value has 4096 bytes at most"),
    ("records.many", "256 outcomes at most, and values that have room"),
    ("registry.changes", "a watcher's queue has 256 at most"),
    ("registry.keywords", "each word of a type once, the first that fit"),
    ("registry.order", "the highest that fit"),
    ("registry.publication", "it came in one message"),
    ("registry.share", "a type shares at most 32 values of 1024 bytes"),
    ("role_assignment.choose", "a node has at most 256 cores"),
    ("task.next", "arguments and names of a job are 32 KiB at most"),
    ("task.source", "a piece has the buffers of one split at most"),
    ("timer.list", "the next 64 at most"),
    ("timer.sources", "the timers of one machine"),
];

fn has_list(ty: &Type<'_>) -> bool {
    match ty {
        Type::List(_) => true,
        Type::Record(fields) | Type::OneOf(fields) => {
            fields.iter().any(|field| has_list(&field.ty))
        }
        _ => false,
    }
}

#[test]
fn no_reply_grows_with_the_cluster() {
    let mut lists = Vec::new();
    for service in ALL {
        let is_page = |method: &&Method<'_>| {
            method.parameters.iter().any(|it| PAGES.contains(&it.name.as_ref()))
        };
        let with_list = service
            .interface
            .schema
            .methods
            .iter()
            .filter(|method| method.reply.iter().any(|part| has_list(&part.ty)));
        let methods = with_list.filter(|method| !is_page(method));
        lists.extend(methods.map(|method| format!("{}.{}", service.name(), method.name)));
    }
    let known = BOUNDED.map(|(name, _)| name);
    let new: Vec<_> = lists.iter().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(
        new.is_empty(),
        "{new:?} reply with lists: have them take where a page begins, or say here why they fit"
    );
    let old: Vec<_> = known.iter().filter(|name| !lists.iter().any(|it| it == *name)).collect();
    assert!(old.is_empty(), "{old:?} have no such lists any more");
}

/// Where the table of callers is.
const CALLERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/callers.md");

/// What stands above it.
const ABOVE: &str = "\
# Who may call which method

Each method's declaration says who may call it besides the kernels of its own node
([security](security.md)). This table is made from the declarations: with `NILE_WRITE_DOCS` set,
`cargo test -p nile-services --test replies` writes it.

| method | package | operator | peer |
| ------ | ------- | -------- | ---- |
";

#[test]
fn the_table_of_callers_is_that_of_the_declarations() {
    let mut table = String::from(ABOVE);
    let mut services: Vec<_> = ALL.iter().map(|it| (it.name(), it.interface.schema)).collect();
    services.sort_by_key(|(name, _)| *name);
    for (name, schema) in services {
        for method in schema.methods.iter() {
            let said =
                CallerKind::ALL.map(|kind| if method.callers.has(kind) { "yes" } else { "" });
            let [package, operator, peer] = said;
            let name = format!("`{name}.{}`", method.name);
            writeln!(table, "| {name} | {package} | {operator} | {peer} |").unwrap();
        }
    }
    if std::env::var_os("NILE_WRITE_DOCS").is_some() {
        std::fs::write(CALLERS, &table).unwrap();
    }
    let written = std::fs::read_to_string(CALLERS).unwrap_or_default();
    assert!(
        written == table,
        "docs/callers.md is not what the declarations say: run this test with NILE_WRITE_DOCS=1"
    );
}
