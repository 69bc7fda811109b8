//! The steps of `nile test`, in the order in which they run.

use nile_cli::needs::Need;

use super::step::{
    LONG, Lane, NAMESPACES, NFT, NFT_QUICK, RELEASE, STEP, Step, Tool, WIRE, python_tests, waits,
};

/// Every step. The quick ones come first, so that a plain mistake is told early.
///
/// Where they name no package, all are chosen, and Cargo builds what they depend on once: for one
/// package alone it would build it anew, with the features that this package asks for.
pub const STEPS: &[Step] = &[
    Step {
        name: "format",
        what: "the source is formatted",
        command: "cargo fmt --all --check",
        needs: &[Need::Lints],
        limit_seconds: 60,
        ..STEP
    },
    Step {
        name: "lint",
        what: "clippy has no complaint",
        needs: &[Need::Lints],
        command: "cargo clippy --all-targets -- --deny warnings",
        ..STEP
    },
    Step {
        name: "lint-kernel",
        what: "nor has it about the kernel as it is built",
        command: "cargo clippy --package nile-bare --package nile-bare-scenarios --profile bare \
                  --target x86_64-unknown-linux-gnu --config images/bare/build.toml -- --deny \
                  warnings",
        needs: &[Need::Lints],
        ..STEP
    },
    Step {
        name: "unit",
        what: "each crate's unit tests and property tests",
        // The other programs have no tests and are many. Nor has the kernel in the simulator, which
        // takes longer to compile than all others.
        command: "cargo test --no-fail-fast --workspace --exclude nile-bare* --exclude nile-sim \
                  --lib --bin nile-dev --bin nile-benches --bin nile-net-peer --bin nile-linux*",
        ..STEP
    },
    Step {
        name: "integration",
        what: "each crate from outside, and the scenarios",
        command: "cargo test --no-fail-fast --test boot --test control --test counts --test \
                  deployed --test domains --test guide --test heap --test hostile --test jobs \
                  --test node --test graph --test policies --test records --test replies \
                  --test sim --test terasort --test stress --test tidy --test user --test wire \
                  -- --skip the_sort --skip linux_does",
        needs: &[Need::Qemu, Need::Kernel, Need::Scenarios],
        ..STEP
    },
    Step {
        name: "mutation",
        what: "every reader of outside bytes, fed for a second each at least",
        command: "cargo test --test bytes",
        environment: &[("NILE_FUZZ_SECONDS", "1")],
        ..STEP
    },
    Step {
        name: "examples",
        what: "the examples in the documentation",
        command: "cargo test --doc",
        ..STEP
    },
    Step {
        name: "models",
        what: "rings, idle protocol and what cores share, under every interleaving",
        command: "cargo test --package nile-ring --package nile-sync --release --test loom",
        environment: &[("RUSTFLAGS", "--cfg loom")],
        ..STEP
    },
    waits(
        "bad-input",
        "wrong requests end with status 2 and start nothing",
        "cargo test --test command -- bad_input:: launcher::",
    ),
    Step {
        name: "interrupt",
        what: "however a command ends, its node ends with it",
        command: "cargo test --test command interrupt::",
        needs: &[Need::Qemu],
        lane: Lane::Waits,
        ..STEP
    },
    waits("switch", "the virtual switch as a process", "cargo test --test command switch::"),
    Step {
        name: "dissector",
        what: "tshark shows every field of every frame",
        command: "cargo test --test command dissector::",
        needs: &[Need::Tshark],
        lane: Lane::Waits,
        ..STEP
    },
    python_tests(
        "peers",
        "what runs NileOS's peers, and the judge of its targets",
        "python3 -m unittest discover --start benches/peers/tests",
    ),
    Step {
        name: "peers-quick",
        what: "a little is sorted beside those peers that need no Java",
        command: "./nile bench peers --quick",
        needs: &[Need::Python],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "paper",
        what: "the paper's experiment: its statistics, by published results, and its report",
        command: "python3 benches/paper/tests",
        needs: &[Need::Python],
        limit_seconds: 600,
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "paper-quick",
        what: "the paper's experiment, small and without Hadoop",
        command: "./nile bench paper --quick",
        needs: &[Need::Python],
        lane: Lane::Waits,
        ..STEP
    },
    python_tests(
        "linux",
        "what runs guests beside each other, and what judges sorts and domains there",
        "python3 -m unittest benches/linux/tests/test_guests.py \
         benches/hotplug/tests/test_hotplug.py",
    ),
    Step {
        name: "linux-quick",
        what: "a little is sorted by a NileOS guest and by a Linux guest",
        command: "./nile bench linux --quick",
        needs: &[Need::Python, Need::Qemu],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "linux-network",
        what: "the same by two nodes, and by two Linux guests",
        command: "./nile bench linux --quick --nodes 2",
        needs: &[Need::Python, Need::Qemu],
        long: true,
        ..STEP
    },
    python_tests(
        "stream",
        "what measures streaming graphs beside each other, and the judge of its targets",
        "python3 -m unittest discover --start benches/stream/tests",
    ),
    Step {
        name: "stream-quick",
        what: "a small graph is fed to NileOS and to a loop in scipy; ranks of both are right",
        command: "./nile bench stream --quick --only nileos,nileos-kept,scipy",
        needs: &[Need::Python],
        lane: Lane::Waits,
        ..STEP
    },
    python_tests(
        "net",
        "what measures a node's network beside Linux's, and the judge of its targets",
        "python3 -m unittest discover --start benches/net/tests",
    ),
    Step {
        name: "net-quick",
        what: "downloads, echoes and streams of a node's network: no byte of them is wrong",
        command: "./nile bench net --quick",
        needs: &[Need::Python],
        lane: Lane::Waits,
        tool: Some(NAMESPACES),
        ..STEP
    },
    Step { tool: Some(NAMESPACES), ..WIRE },
    Step { tool: Some(NFT), ..NFT_QUICK },
    waits("sim-calls", "calls at most once, on a failing network", "./nile sim calls --runs 50"),
    waits("sim-bulk", "goodput of one and of twenty senders", "./nile sim bulk --senders 20"),
    waits(
        "sim-gossip",
        "membership and directories of 1,000 nodes",
        "./nile sim gossip --nodes 1000",
    ),
    waits(
        "sim-jobs",
        "a job whose nodes, cores and masters are killed, 5,000 seeds",
        "./nile sim jobs --runs 5000",
    ),
    waits(
        "sim-names",
        "one history for each name, whatever keepers and disks are lost, 4,000 seeds",
        "./nile sim names --runs 4000",
    ),
    waits(
        "sim-disks",
        "three nodes, one of which has a bad disk of any kind, 1,000 seeds",
        "./nile sim disks --runs 1000",
    ),
    waits(
        "sim-policies",
        "scheduling policies, hostile ones too, bound to others at any moment, 1,000 seeds",
        "./nile sim policies --runs 1000",
    ),
    waits(
        "sim-domains",
        "domains that change hands while they and their supervisor die, 10,000 seeds",
        "./nile sim domains --runs 10000",
    ),
    waits(
        "sim-machines",
        "kernels in domains whose supervisor dies at any step, and who panic and hang, 40 seeds",
        "./nile sim machines --runs 40",
    ),
    waits(
        "sim-roles",
        "roles that follow a day's work, beside static ones and a clairvoyant",
        "./nile sim roles",
    ),
    waits(
        "sim-shifting",
        "cores that leave, come and change roles and images at any moment, 100 seeds",
        "./nile sim shifting --runs 100",
    ),
    waits(
        "sim-terasort",
        "whole jobs on nodes that are killed or cut off in every phase, 48 seeds",
        "./nile sim terasort --runs 48",
    ),
    waits(
        "sim-terasort-64",
        "TeraSort on 64 nodes of 4 cores, two of which are killed",
        "./nile sim terasort --nodes 64 --seed 6",
    ),
    Step {
        name: "cluster",
        what: "clusters hosted, in QEMU and mixed, used and under attack",
        command: "cargo test --test command -- cluster:: datasets:: machines:: attack::",
        needs: &[Need::Qemu, Need::Kernel, Need::Scenarios],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "parts",
        what: "domains, network, records, bad disks and nodes elsewhere, as their guides have them",
        command: "cargo test --test command -- domains:: network:: records:: disks:: \
                  elsewhere:: --skip long::",
        needs: &[Need::Qemu, Need::Kernel, Need::Scenarios],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "jobs",
        what: "jobs from the command line, right, refused, interrupted, while kernels are replaced",
        command: "cargo test --test command -- jobs:: images:: --skip jobs::faults:: \
                  --skip long:: --test-threads 1",
        needs: &[Need::Qemu, Need::Hosted],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "differential",
        what: "jobs beside models of them in another language, 20 seconds of draws",
        command: "python3 tools/differential --seconds 20 --first 32",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "differential-small-outputs",
        what: "a draw whose map tasks leave many small outputs for a pool of 128 buffers",
        command: "python3 tools/differential --draw 2899 --most 16384K",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "differential-large-outputs",
        what: "a draw whose map tasks make four times what they read, for another node's pool",
        command: "python3 tools/differential --draw 12920 --most 16M",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "differential-control",
        what: "a job that does wrong differs from its model",
        command: "python3 tools/differential --control",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "graphs",
        what: "streaming graphs beside igraph and networkx, and a control",
        command: "python3 tools/graphs --seconds 15",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "producers",
        what: "Kafka's producers at the door of graphs, which cuts connections, and a control",
        command: "python3 tools/graphs --producers",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "soak",
        what: "a cluster that is used while its nodes and network break, beside a model of it",
        command: "python3 tools/soak --seconds 15",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "soak-control",
        what: "the soak's model notices a wrong byte and a name that comes back",
        command: "python3 tools/soak --control",
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "boot",
        what: "one node boots on every machine, with 1 to 64 cores",
        command: "cargo test --test command boot::",
        needs: &[Need::Qemu, Need::Kernel, Need::Scenarios],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "scenarios",
        what: "the same steps in the simulator, on Linux and in QEMU",
        command: "cargo test --test command scenario::",
        needs: &[Need::Qemu, Need::Kernel, Need::Scenarios],
        ..STEP
    },
    Step {
        name: "determinism",
        what: "a seed is one run, in debug and release builds",
        command: "cargo test --test command determinism::",
        long: true,
        ..STEP
    },
    Step {
        name: "image",
        what: "the ISO image boots under BIOS and under UEFI",
        command: "cargo test --test command image:: -- --skip of_a_worker",
        needs: &[Need::Qemu, Need::IsoTools, Need::Ovmf],
        lane: Lane::Waits,
        ..STEP
    },
    Step {
        name: "image-worker",
        what: "so does one with a worker's services alone",
        command: "cargo test --test command image::the_image_of_a_worker",
        needs: &[Need::Qemu, Need::IsoTools],
        long: true,
        ..STEP
    },
    Step {
        name: "attack-long",
        what: "a node under attack for a minute",
        command: "cargo test --test command attack::",
        environment: &[("NILE_ATTACK_SECONDS", "60")],
        long: true,
        ..STEP
    },
    Step {
        name: "stream-control",
        what: "ranks that are late on purpose are found to be",
        command: "./nile bench stream --quick --control --only nileos,scipy",
        needs: &[Need::Python],
        ..LONG
    },
    Step {
        name: "net-control",
        what: "a node's network that is hindered on purpose is found to be",
        command: "./nile bench net --quick --control",
        needs: &[Need::Python],
        tool: Some(NAMESPACES),
        ..LONG
    },
    Step {
        name: "nft-long",
        what: "5,000 sets of rules of the packet filter, beside nft",
        command: "cargo test --test wire linux_does_to_packets",
        environment: &[("NILE_NFT_DRAWS", "5000")],
        tool: Some(NFT),
        ..LONG
    },
    Step {
        name: "disks-long",
        what: "three nodes, one of whose disks is damaged anyhow, 300 times",
        command: "cargo test --test command disks::any_damage",
        environment: &[("NILE_DISK_CASES", "300")],
        limit_seconds: 3600,
        long: true,
        ..STEP
    },
    Step {
        name: "jobs-long",
        what: "jobs on nodes that die, in each phase; curl of 100 MB",
        command: "cargo test --test command -- jobs::faults:: long:: --skip network::faults:: \
                  --test-threads 1",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "faults-long",
        what: "1,000 faults of a network's servers break no connection but where they may",
        command: "cargo test --test command network::faults::long:: -- --nocapture",
        environment: &[("NILE_PROFILE", "release"), ("NILE_FAULTS", "1000")],
        limit_seconds: 5400,
        long: true,
        ..STEP
    },
    Step {
        name: "differential-long",
        what: "jobs beside models of them in another language, an hour of larger draws",
        command: "python3 tools/differential --seconds 3600 --most 16M",
        environment: RELEASE,
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        limit_seconds: 4500,
        long: true,
        ..STEP
    },
    Step {
        name: "soak-long",
        what: "the same for an hour, with larger files; what nodes take does not grow",
        command: "python3 tools/soak --seconds 3600 --most 9000",
        environment: RELEASE,
        needs: &[Need::Python, Need::Hosted, Need::Packages],
        limit_seconds: 4500,
        long: true,
        ..STEP
    },
    Step {
        name: "sort-control",
        what: "the benchmarks of the sort can miss their targets",
        command: "cargo test --test control the_controls_of_the_sort",
        environment: RELEASE,
        long: true,
        ..STEP
    },
    Step {
        name: "peers-control",
        what: "NileOS, hindered, misses its targets beside its peers",
        command: "./nile bench peers --quick --size 128M --control",
        environment: RELEASE,
        needs: &[Need::Python],
        long: true,
        ..STEP
    },
    Step {
        name: "paper-control",
        what: "the paper's experiment tells a hindered NileOS from one that is not",
        command: "./nile bench paper --quick --control",
        environment: RELEASE,
        needs: &[Need::Python],
        long: true,
        ..STEP
    },
    Step {
        name: "linux-control",
        what: "NileOS, hindered, misses its targets beside Linux",
        command: "./nile bench linux --quick --control",
        environment: RELEASE,
        needs: &[Need::Python, Need::Qemu],
        long: true,
        ..STEP
    },
    Step {
        name: "sim-calls-long",
        what: "calls between 100 nodes, a thousand seeds",
        command: "./nile sim calls --nodes 100 --runs 1000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-gossip-long",
        what: "membership and directories of 10,000 nodes",
        command: "./nile sim gossip --nodes 10000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-jobs-long",
        what: "jobs on 12 nodes, 200,000 seeds",
        command: "./nile sim jobs --nodes 12 --runs 200000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-names-long",
        what: "one history for each name, 100,000 seeds",
        command: "./nile sim names --runs 100000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-disks-long",
        what: "three nodes, one of which has a bad disk of any kind, 10,000 seeds",
        command: "./nile sim disks --runs 10000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-roles-long",
        what: "roles that follow a day's work, ten days",
        command: "./nile sim roles --runs 10",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-shifting-long",
        what: "cores that leave, come and change roles and images at any moment, 10,000 seeds",
        command: "./nile sim shifting --runs 10000",
        ..LONG
    },
    Step {
        name: "sim-policies-long",
        what: "scheduling policies, hostile ones too, 100,000 seeds",
        command: "./nile sim policies --runs 100000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-domains-long",
        what: "domains that change hands while they and their supervisor die, 50,000 seeds",
        command: "./nile sim domains --runs 50000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-terasort-256",
        what: "TeraSort on 256 nodes of 4 cores, two of which are killed; takes 7 GB of memory",
        command: "./nile sim terasort --nodes 256 --seed 6",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-terasort-64-long",
        what: "whole jobs on 64 nodes of 4 cores, 20 seeds",
        command: "./nile sim terasort --nodes 64 --runs 20",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "sim-terasort-long",
        what: "whole jobs on nodes that are killed or cut off in every phase, 1,000 seeds",
        command: "./nile sim terasort --runs 1000",
        environment: RELEASE,
        ..LONG
    },
    Step {
        name: "properties",
        what: "the property tests with many more cases",
        command: "cargo test --release --lib",
        environment: &[("PROPTEST_CASES", "5000")],
        ..LONG
    },
    Step {
        name: "mutation-long",
        what: "every reader of outside bytes, fed for a minute each",
        command: "cargo test --release --package nile-fuzz --test bytes",
        environment: &[("NILE_FUZZ_SECONDS", "60")],
        limit_seconds: 2400,
        long: true,
        ..STEP
    },
    Step {
        name: "fuzz",
        what: "every reader of outside bytes, searched for a minute each",
        command: "sh -e fuzz/run",
        tool: Some(Tool {
            probe: &["cargo", "+nightly", "fuzz", "--version"],
            missing: "cargo-fuzz or a nightly toolchain is not installed",
        }),
        ..LONG
    },
    Step {
        name: "miri",
        what: "the rings' unsafe code under Miri",
        command: "cargo +nightly miri test --package nile-ring --lib --test hostile",
        tool: Some(Tool {
            probe: &["cargo", "+nightly", "miri", "--version"],
            missing: "Miri is not installed",
        }),
        ..LONG
    },
];

#[cfg(test)]
mod tests;
