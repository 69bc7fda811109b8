//! What a step of `nile test` is.

use nile_cli::needs::Need;

/// One step: a command that checks something and says by its exit status whether it holds.
pub struct Step {
    /// What `nile test NAME` calls it.
    pub name: &'static str,
    /// What it checks, in a few words.
    pub what: &'static str,
    /// The command, its words between blanks, run in the root of the source tree.
    pub command: &'static str,
    /// What it finds in its environment besides.
    pub environment: &'static [(&'static str, &'static str)],
    /// What the launcher has to install or to build for it.
    pub needs: &'static [Need],
    /// Seconds after which it has failed; a build from nothing on two cores included.
    pub limit_seconds: u64,
    /// Whether it runs only with `--full`.
    pub long: bool,
    /// What it runs beside.
    pub lane: Lane,
    /// A tool that may be missing, in which case the step is not run.
    pub tool: Option<Tool>,
}

/// Steps of one lane run one after the other, and beside those of the other one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// It builds, or has all processors at work.
    Builds,
    /// It mostly waits, or has one processor at work.
    Waits,
}

/// A tool that a step needs and that the launcher does not install.
pub struct Tool {
    /// A command that succeeds where the tool is there.
    pub probe: &'static [&'static str],
    /// What to say where it is not.
    pub missing: &'static str,
}

/// A step with the commonest settings.
pub const STEP: Step = Step {
    name: "",
    what: "",
    command: "",
    environment: &[],
    needs: &[],
    limit_seconds: 900,
    long: false,
    lane: Lane::Builds,
    tool: None,
};

/// One that takes half an hour at most, and runs only with `--full`.
pub const LONG: Step = Step { limit_seconds: 1800, long: true, ..STEP };

/// The environment of what takes long: its commands run the programs that users run.
pub const RELEASE: &[(&str, &str)] = &[("NILE_PROFILE", "release")];

/// One that mostly waits.
pub const fn waits(name: &'static str, what: &'static str, command: &'static str) -> Step {
    Step { name, what, command, lane: Lane::Waits, ..STEP }
}

/// The tests of what is written in Python.
pub const fn python_tests(name: &'static str, what: &'static str, command: &'static str) -> Step {
    Step { needs: &[Need::Python], limit_seconds: 120, ..waits(name, what, command) }
}

/// TCP beside that of Linux.
pub const WIRE: Step = waits(
    "wire",
    "Linux does what scripts of segments say",
    "cargo test --test wire linux_does_what",
);

/// The packet filter beside that of Linux.
pub const NFT_QUICK: Step = waits(
    "nft",
    "nft decides of packets what our packet filter does",
    "cargo test --test wire linux_does_to",
);

/// What `bench net` has its traffic in.
pub const NAMESPACES: Tool = Tool {
    probe: &["unshare", "--net", "--", "ip", "tuntap", "add", "probe", "mode", "tap"],
    missing: "this user may make no network namespace with a TAP",
};

/// What the packet filter is compared with.
pub const NFT: Tool = Tool {
    probe: &["unshare", "--net", "--", "nft", "add", "table", "inet", "probe"],
    missing: "nft does nothing in a network namespace; sudo apt-get install nftables brings it",
};
