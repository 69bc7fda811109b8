//! A machine that a supervisor shares out, and what its domains run: scenarios, too.

use nile_kernel::{Config, ConfigError};
use nile_platform::Loop;
use nile_platform_sim::{Image, Plan, SimMachine, Text};

use crate::{STORE, scenario};

/// The supervisor's node runs a scenario; each domain runs what it is told.
pub struct Nodes<'a> {
    /// The supervisor's configuration.
    pub config: &'a Config,
    /// Its scenario.
    pub command: &'a str,
}

impl Image for Nodes<'_> {
    fn plan(&self, text: &Text, cores: usize, memory: u64) -> Result<Plan, String> {
        let at = |ConfigError { line, message }: ConfigError| match line {
            Some(line) => format!("nile.toml:{line}: {message}"),
            None => format!("nile.toml: {message}"),
        };
        nile_scenarios::check(&text.program)?;
        let config = nile_node::configuration(&text.config).map_err(at)?;
        let roles = nile_node::roles(&config, cores).map_err(at)?;
        let pool = config.pool_bytes(memory).map_err(at)?;
        Ok(Plan { roles, pool })
    }

    fn begin(&self, machine: SimMachine, text: Option<&Text>) -> Box<dyn Loop> {
        let Some(Text { program, config }) = text else {
            return scenario(machine, self.config, self.command);
        };
        let mut config = Config::parse(config).expect("the domain was planned with it");
        config.packages = STORE;
        scenario(machine, &config, program)
    }
}
