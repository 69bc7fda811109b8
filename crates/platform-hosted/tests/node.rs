//! Real nodes, started and judged. This program is three things: the tests, which start it again
//! as a node (`--node SCENARIO ROLES`), which starts it again as workers. On every core of such a
//! node runs a scenario instead of the kernel: the management core plays the script and powers
//! off with success or says what went wrong.

mod node {
    pub mod pool;
    pub mod programs;
    pub mod run;
    pub mod scenarios;
    pub mod script;
    pub mod tests;
    pub mod user;
}

use std::env;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use nile_platform_hosted::be_worker;

fn main() -> ExitCode {
    if let Some(status) = be_worker(node::scenarios::core_main) {
        return status;
    }
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, scenario, roles] = arguments.as_slice()
        && flag == "--node"
    {
        return node::run::node(scenario, roles);
    }
    libtest_mimic::run(&Arguments::from_args(), node::tests::all()).exit_code()
}
