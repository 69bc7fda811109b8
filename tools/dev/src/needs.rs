//! What the commands of developers need before they can run. The launcher asks `nile` first, and
//! this program once it is built.

use nile_cli::args::{Beside, Command, Machine};
use nile_cli::failure::Failure;
use nile_cli::needs::{Need, of_users, only};

use crate::{bench, boot, sim, test};

/// What a command needs; refuses one that cannot be fulfilled.
pub fn of(command: &Command) -> Result<Vec<Need>, Failure> {
    Ok(match command {
        Command::Test(options) => {
            test::check(options)?;
            test::needs(options)
        }
        Command::Bench(options) => match &options.beside {
            Some(Beside::Peers(options)) => bench::peers::needs(options)?,
            Some(Beside::Paper(options)) => bench::paper::needs(options)?,
            Some(Beside::Linux(options)) => bench::linux::needs(options)?,
            Some(Beside::Stream(options)) => bench::stream::needs(options)?,
            Some(Beside::Net(options)) => bench::net::needs(options)?,
            Some(Beside::Hotplug(options)) => bench::hotplug::needs(options)?,
            None => {
                if let Some(all) = bench::several::each(options)? {
                    let mut needs = Vec::new();
                    for one in all {
                        let its = of(&Command::Bench(one))?.into_iter();
                        needs.extend(its.filter(|need| !needs.contains(need)).collect::<Vec<_>>());
                    }
                    return Ok(needs);
                }
                let mut needs = vec![Need::HostedScenarios, Need::Benches];
                let is_store = |name: &String| name == "store";
                if options.names.iter().any(is_store) {
                    needs.push(Need::Stores);
                }
                let is_domain = |name: &String| name.starts_with("domain");
                if options.names.iter().any(is_domain) {
                    needs.extend([Need::Hosted, Need::Packages]);
                }
                // These have no node in QEMU.
                let is_hosted = |name: &String| is_store(name) || is_domain(name);
                if !options.names.is_empty() && options.names.iter().all(is_hosted) {
                    return Ok(needs);
                }
                needs.extend([Need::Qemu, Need::Kernel, Need::Scenarios]);
                let is_size = |name: &String| "image-size".starts_with(name.as_str());
                if options.names.is_empty() || options.names.iter().any(is_size) {
                    needs.push(only(&["worker".into()], None)?);
                }
                needs
            }
        },
        Command::Boot(options) if options.machine == Machine::Sim => {
            boot::check(options)?;
            vec![]
        }
        Command::Sim(options) => {
            sim::check(options)?;
            vec![]
        }
        Command::Guest(_) => vec![Need::Qemu],
        command => of_users(command)?,
    })
}
