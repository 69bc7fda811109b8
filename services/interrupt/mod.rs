//! The interrupt service: what has interrupted each core of the node (Dhara, IV.C), read from the
//! cores' records without disturbing them, and the lines by which devices do. The core that drives
//! a device changes its line; the others ask that one's instance.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::Future;

use nile_abi::{CoreId, CorePhase, Status};
use nile_interfaces::core_manager::Interrupts;
use nile_interfaces::interrupt::{
    CoreInterrupts, DeviceInterrupts, Gate, InterruptClient, InterruptKernel, MOST_LISTED,
};
use nile_stl::node::{CoreState, DeviceLine, Gate as NodesGate, Line};
use nile_stl::{CallError, CallResult, Start, Stl, service};

/// The cores' records are its state.
pub struct Interrupt {
    stl: Stl,
}

impl Start for Interrupt {
    fn start(stl: &Stl) -> Interrupt {
        Interrupt { stl: stl.clone() }
    }
}

#[service(on = every, keywords(interrupt = 5, core = 2, cause = 2, device = 2))]
impl InterruptKernel for Interrupt {
    fn counts(&self, core: u16) -> CallResult<CoreInterrupts> {
        Ok(entry(core, &self.state_of(core)?))
    }

    fn list(&self, from: u16) -> CallResult<Vec<CoreInterrupts>> {
        let node = self.stl.node()?;
        let states = (from..=u16::MAX).map_while(|core| Some((core, node.state_of(CoreId(core))?)));
        Ok(states.take(MOST_LISTED).map(|(core, state)| entry(core, &state)).collect())
    }

    fn devices(&self) -> CallResult<Vec<DeviceInterrupts>> {
        Ok(self.lines()?.into_iter().map(|(line, it)| device(line, &it)).collect())
    }

    async fn route(&self, device: String, core: u16) -> CallResult<()> {
        let to = self.state_of(core)?;
        if to.phase.is_out() || to.phase == CorePhase::Leaving {
            let why = format!("core {core} is {}: no device interrupts it", to.phase.name());
            return Err(CallError::new(Status::Dead, why));
        }
        let (line, driver) = self.find(&device)?;
        if let Some(its) = self.elsewhere(driver).await? {
            return its.route(device, core).await;
        }
        let routed = self.stl.node()?.route_line(line, CoreId(core));
        routed.map_err(|status| match status {
            Status::Denied => {
                let why = format!("{device} can interrupt {driver} alone, which drives it");
                CallError::new(status, why)
            }
            _ => status.into(),
        })
    }

    async fn mask(&self, device: String) -> CallResult<()> {
        self.set_mask(device, true, |its, device| async move { its.mask(device).await }).await
    }

    async fn unmask(&self, device: String) -> CallResult<()> {
        self.set_mask(device, false, |its, device| async move { its.unmask(device).await }).await
    }
}

impl Interrupt {
    fn state_of(&self, core: u16) -> CallResult<CoreState> {
        let missing = || CallError::new(Status::NotFound, format!("the node has no core {core}"));
        self.stl.node()?.state_of(CoreId(core)).ok_or_else(missing)
    }

    fn lines(&self) -> CallResult<Vec<(Line, DeviceLine)>> {
        let node = self.stl.node()?;
        Ok(Line::all().filter_map(|line| Some((line, node.line_of(line)?))).collect())
    }

    /// The line of the device of this name, and the core that drives it.
    fn find(&self, name: &str) -> CallResult<(Line, CoreId)> {
        let lines = self.lines()?;
        let found = lines.iter().find(|(line, _)| line.to_string() == name);
        found.map(|(line, it)| (*line, it.driver)).ok_or_else(|| {
            let names: Vec<String> = lines.iter().map(|(line, _)| line.to_string()).collect();
            let message = match names.is_empty() {
                true => format!("no device {name}: no device of the node interrupts"),
                false => format!("no device {name}; there are {}", names.join(", ")),
            };
            CallError::new(Status::NotFound, message)
        })
    }

    /// The instance of the core that drives a device, if that is another one.
    async fn elsewhere(&self, driver: CoreId) -> CallResult<Option<InterruptClient>> {
        if driver == self.stl.host().core() {
            return Ok(None);
        }
        InterruptClient::find_at(&self.stl, driver).await.map(Some)
    }

    async fn set_mask<F: Future<Output = CallResult<()>>>(
        &self,
        device: String,
        is_masked: bool,
        ask: impl FnOnce(InterruptClient, String) -> F,
    ) -> CallResult<()> {
        let (line, driver) = self.find(&device)?;
        match self.elsewhere(driver).await? {
            Some(its) => ask(its, device).await,
            None => Ok(self.stl.node()?.mask_line(line, is_masked)?),
        }
    }
}

fn entry(core: u16, state: &CoreState) -> CoreInterrupts {
    CoreInterrupts { core, causes: causes(state), wakes: state.wakes }
}

fn device(line: Line, it: &DeviceLine) -> DeviceInterrupts {
    DeviceInterrupts {
        device: line.to_string(),
        driver: it.driver.0,
        core: it.state.core.0,
        gate: match it.state.gate {
            NodesGate::Open => Gate::Open,
            NodesGate::Masked => Gate::Masked,
            NodesGate::Storm => Gate::Storm,
        },
        interrupts: it.interrupts,
        storms: it.state.storms,
    }
}

/// Interrupts of a core by cause, as calls carry them.
pub fn causes(state: &CoreState) -> Vec<Interrupts> {
    let each = state.interrupts.iter();
    each.map(|(cause, count)| Interrupts { cause: String::from(*cause), count: *count }).collect()
}
