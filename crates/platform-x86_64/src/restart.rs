//! The end of an incarnation and the beginning of the next, on the core itself.
//!
//! Nothing is repaired: private data, heap and stack are left as they are, and the core enters
//! its space again as it did when it first started ([`crate::space`]). What survives is what
//! others know of it: its record, its place among the channels, the frames it was given, and its
//! [`crate::ledger`].
//!
//! A core whose image is on trial does not begin again with that ([`crate::images`]).

use nile_abi::CoreId;
use nile_platform::{CorePhase, Fault};

use crate::images::choice::Choice;
use crate::ledger::Ledger;
use crate::local::{self, Local};
use crate::node::Node;
use crate::power::{self, Ending};
use crate::private::Private;
use crate::vector::Vector;
use crate::{images, privileged, serial, space, start};

static OWN: Private<Option<(CoreId, &'static Node)>> = Private::new(None);

/// Tells this core which it is and what to begin again with.
pub(crate) fn install(core: CoreId, node: &'static Node) {
    OWN.set(Some((core, node)));
}

/// Ends this core's incarnation because of `fault`, which its record tells already, and begins
/// the next one. A core that keeps ending soon after its beginning is left stopped; if it manages
/// the node, the node ends. On the boot path, and before the core knows its record,
/// the node ends.
pub fn core(fault: Fault) -> ! {
    privileged::disable_interrupts();
    let Some((core, node)) = OWN.get() else { power::off(Ending::Failure) };
    let Some(local) = local::get() else {
        // It has hardly begun. One that is on trial is expected where cores are parked.
        if !images::is_on_trial(node, core, node.clock.now()) {
            power::off(Ending::Failure);
        }
        // SAFETY: nothing of this incarnation runs any more.
        unsafe { space::leave() }
    };
    if images::is_on_trial(node, local.core, local.clock.now()) {
        if local.core == CoreId::BOOT {
            images::own::go_back(node, fault.kind_name());
            begin_again(&local, node)
        }
        // The managing core has this one begin with the image that it ran before.
        local.record.set_phase(CorePhase::Away);
        local.apic.send_fixed(node.core(CoreId::BOOT).apic, Vector::SIGNAL);
        // SAFETY: nothing of this incarnation runs any more; its buffers are the next one's.
        unsafe { space::leave() }
    }
    // SAFETY: `local` says which core this is, and it is only installed in its own space.
    let ledger = unsafe { Ledger::of(local.core) };
    if !ledger.end(local.clock.now()) {
        local.record.set_phase(CorePhase::Stopped);
        serial::log(format_args!(
            "{} in {}: too many in a row, the core is stopped",
            fault.kind_name(),
            local.generation
        ));
        power::off(Ending::Failure);
    }
    begin_again(&local, node)
}

/// Ends this core's incarnation, which has left as planned, and begins the next one.
pub fn after_leaving() -> ! {
    privileged::disable_interrupts();
    let (Some(local), Some((_, node))) = (local::get(), OWN.get()) else {
        power::off(Ending::Failure);
    };
    begin_again(&local, node)
}

fn begin_again(local: &Local, node: &'static Node) -> ! {
    local.record.set_phase(CorePhase::Restarting);
    let image = Choice::of(node, local.core).now();
    // SAFETY: this is the core's own space with the image that it has; interrupts are masked;
    // nothing of this incarnation is needed any more.
    unsafe { space::enter(&start::beginning(node, local.core, image.as_ref())) }
}
