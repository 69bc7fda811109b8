//! Nodes with disks, whose worker cores run a job that counts: every map task has a record, reduce
//! tasks write as many bytes as their number.

pub mod worker;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Role};
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{JobPolicy, JobRequest, ProgressEntry};
use nile_kernel::{Config, Core};
use nile_platform::Outcome;
use nile_platform_sim::{ClusterOptions, Deed, DiskOptions, Faults, Options, simulate_cluster};
use nile_stl::{CallResult, Stl};
use nile_switch::Link;

/// How often a test looks.
const LOOK: Duration = Duration::from_millis(5);

fn config(node: usize, nodes: usize) -> Config {
    let pool = "[pool]\nbytes = \"2M\"\nbuffer = \"32K\"\n";
    let keepers = if nodes < 3 { "[1]" } else { "[1, 2, 3]" };
    let id = node + 1;
    let member = format!("[node]\nid = {id}\nkeepers = {keepers}\n[network]\nunsealed = true\n");
    let text = if nodes == 1 { pool.into() } else { format!("{pool}{member}") };
    Config::parse(&text).expect("the configuration is valid")
}

/// Starts nodes of three cores, the first `disks` of them with a disk, and runs `test` on the
/// first core of each, with the number of the node. Ends when `test` has ended on node `judge`.
///
/// # Panics
///
/// If that test fails, or does not end within ten simulated minutes.
pub fn run<F>(
    shape: (usize, usize, usize),
    deeds: Vec<(Duration, Deed)>,
    test: impl Fn(usize, Stl) -> F + Clone + 'static,
) where
    F: Future<Output = CallResult<()>> + 'static,
{
    run_on(3, shape, deeds, test);
}

/// The same, with nodes of so many cores.
pub fn run_on<F>(
    cores: usize,
    shape: (usize, usize, usize),
    deeds: Vec<(Duration, Deed)>,
    test: impl Fn(usize, Stl) -> F + Clone + 'static,
) where
    F: Future<Output = CallResult<()>> + 'static,
{
    run_with(cores, shape, deeds, |_, _| true, test);
}

/// The same, with nodes whose images have not all services.
pub fn run_with<F>(
    cores: usize,
    (nodes, disks, judge): (usize, usize, usize),
    deeds: Vec<(Duration, Deed)>,
    has: impl Fn(usize, &str) -> bool + Clone + 'static,
    test: impl Fn(usize, Stl) -> F + Clone + 'static,
) where
    F: Future<Output = CallResult<()>> + 'static,
{
    let node = |at: usize| {
        let disk = DiskOptions { bytes: 4 << 20, ..DiskOptions::default() };
        Options {
            seed: 7 + at as u64,
            roles: config(at, nodes).roles(cores).expect("the default fits"),
            memory_bytes: 64 << 20,
            pool_bytes: 2 << 20,
            wake_mode: None,
            packages: Vec::new(),
            disks: if at < disks { vec![disk] } else { Vec::new() },
            files: Vec::new(),
            faults: Faults::default(),
            limit: Duration::from_secs(600),
        }
    };
    let link = Link { delay: Duration::from_micros(20), ..Link::default() };
    let options =
        ClusterOptions { nodes: (0..nodes).map(node).collect(), link, shows_pools: false, deeds };
    let is_over = Rc::new(Cell::new(false));
    let ended = simulate_cluster(&options, |at, machine| {
        let config = config(at, nodes);
        let (has, test, is_over) = (has.clone(), test.clone(), is_over.clone());
        Box::new(Core::start(machine, &config, |core| {
            let own = core.clone();
            core.spawn(async move {
                // The package of these tests is in their own worker service.
                let offers = |name: &str| (name == "worker" || !has(at, name)).then_some(false);
                nile_services::deploy_offered(&own.stl(), own.roles(), offers).await;
                if own.roles().contains(Role::Worker) {
                    worker::publish(&own.stl()).await.expect("it can be published");
                }
                if own.stl().host().core() != CoreId::BOOT {
                    return;
                }
                if at == judge {
                    let result = test(at, own.stl()).await;
                    is_over.set(true);
                    let outcome = if result.is_ok() { Outcome::Success } else { Outcome::Failure };
                    own.finish(outcome);
                    return result.expect("what the test calls succeeds");
                }
                let other = own.clone();
                own.spawn(async move { test(at, other.stl()).await.expect("it succeeds") });
                while !is_over.get() {
                    own.sleep(LOOK).await;
                }
                own.finish(Outcome::Success);
            });
        }))
    });
    let ended = ended.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
    let judged = ended[judge].as_ref().expect("it lives");
    assert_eq!(judged.outcome, Outcome::Success, "{}", judged.log.join("\n"));
}

/// A job that makes `output` of `input`.
pub fn request(input: &[&str], output: &str, reducers: u32) -> JobRequest {
    JobRequest {
        name: "count".into(),
        package: "count".into(),
        arguments: Vec::new(),
        input: input.iter().map(|name| String::from(*name)).collect(),
        output: output.into(),
        reducers,
        samples: 0,
        conserves: false,
        ..JobRequest::default()
    }
}

/// The same, in its turn among those like it.
pub fn fifo(input: &[&str], output: &str, reducers: u32) -> JobRequest {
    JobRequest { policy: JobPolicy::Fifo, ..request(input, output, reducers) }
}

/// Waits for this.
pub async fn wait(stl: &Stl, time: Duration) {
    stl.host().sleep_until(stl.host().now() + time).await;
}

/// Waits until all nodes have `workers` worker cores together.
pub async fn meet(stl: &Stl, workers: usize) -> CallResult<JobClient> {
    let client = JobClient::find_at(stl, CoreId::BOOT).await?;
    while client.workers().await.map_or(0, |it| it.len()) < workers {
        wait(stl, LOOK).await;
    }
    // The disks are looked at at the same time.
    wait(stl, Duration::from_millis(300)).await;
    Ok(client)
}

/// Waits until a job is as it should be.
pub async fn until(
    stl: &Stl,
    client: &JobClient,
    job: u64,
    is_it: impl Fn(&ProgressEntry) -> bool,
) -> ProgressEntry {
    loop {
        if let Ok(entry) = client.progress(job).await
            && is_it(&entry)
        {
            return entry;
        }
        wait(stl, LOOK).await;
    }
}
