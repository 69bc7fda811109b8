//! A simulated node with every service on it, for tests of services.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use nile_kernel::{Config, Core};
use nile_platform::Outcome;
use nile_platform_sim::{Faults, Options, simulate};
use nile_stl::{CallResult, Stl};

/// How often the test looks whether all services are published.
const LOOK: Duration = Duration::from_micros(50);

/// Starts a node of so many cores with every service, and runs `test` on core 0, which manages it,
/// with that core's transport layer.
///
/// # Panics
///
/// If the test fails, or does not end within a simulated minute.
pub fn run<F>(cores: usize, test: impl FnOnce(Stl) -> F + 'static)
where
    F: Future<Output = CallResult<()>> + 'static,
{
    let config = Config::default();
    let options = Options {
        seed: 1,
        roles: config.roles(cores).expect("the default fits any number of cores"),
        memory_bytes: 64 << 20,
        pool_bytes: 0,
        wake_mode: None,
        packages: Vec::new(),
        disks: Vec::new(),
        files: Vec::new(),
        faults: Faults::default(),
        limit: Duration::from_secs(60),
    };
    let deployed = Rc::new(Cell::new(0));
    let test = RefCell::new(Some(test));
    let finished = simulate(&options, |machine| {
        Box::new(Core::start(machine, &config, |core| {
            let (own, count) = (core.clone(), deployed.clone());
            core.spawn(async move {
                nile_services::deploy(&own.stl(), own.roles()).await;
                count.set(count.get() + 1);
            });
            let Some(test) = test.take() else { return };
            let (conductor, count) = (core.clone(), deployed.clone());
            core.spawn(async move {
                while count.get() < cores {
                    conductor.sleep(LOOK).await;
                }
                let result = test(conductor.stl()).await;
                conductor.finish(if result.is_ok() { Outcome::Success } else { Outcome::Failure });
                result.expect("what the test calls succeeds");
            });
        }))
    });
    match finished {
        Ok(finished) => {
            let log = finished.log.join("\n");
            assert_eq!(finished.outcome, Outcome::Success, "{log}");
        }
        Err(stuck) => panic!("{stuck}\n{}", stuck.log.join("\n")),
    }
}
