//! What the processor can do, by its own word: CPUID alone decides, nothing is tried out.
//! (An emulator ignores writes to registers that it does not have, so trying proves nothing.)

use core::fmt;

use raw_cpuid::{CpuId, Hypervisor};

use crate::apic::ApicId;

/// The features that this platform uses when they are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// The local APIC is reached through model-specific registers, with 32-bit ids.
    pub x2apic: bool,
    /// The local APIC's timer compares with the time-stamp counter.
    pub tsc_deadline: bool,
    /// The time-stamp counter runs at one rate in every power state.
    pub invariant_tsc: bool,
    /// Pages can forbid execution.
    pub no_execute: bool,
    /// One mapping can cover 1 GiB.
    pub huge_pages: bool,
    /// The kernel cannot execute user pages.
    pub smep: bool,
    /// The kernel cannot touch user pages by mistake.
    pub smap: bool,
    /// User code cannot read the descriptor tables' addresses.
    pub umip: bool,
    /// An instruction for CRC-32C that is faster than tables.
    pub crc32: bool,
    /// The processor makes random numbers.
    pub rdrand: bool,
    /// There is a hypervisor, or an emulator, underneath.
    pub hypervisor: bool,
    /// Bytes that MONITOR watches; zero without a usable MONITOR and MWAIT.
    pub monitor_bytes: u16,
}

impl Features {
    /// Asks the processor that runs this.
    pub fn detect() -> Features {
        let id = CpuId::new();
        let basic = id.get_feature_info();
        let structured = id.get_extended_feature_info();
        let extended = id.get_extended_processor_and_feature_identifiers();
        let power = id.get_advanced_power_mgmt_info();
        let monitor = id.get_monitor_mwait_info();
        let mwait = basic.as_ref().is_some_and(|basic| basic.has_monitor_mwait());
        Features {
            x2apic: basic.as_ref().is_some_and(|basic| basic.has_x2apic()),
            tsc_deadline: basic.as_ref().is_some_and(|basic| basic.has_tsc_deadline()),
            invariant_tsc: power.is_some_and(|power| power.has_invariant_tsc()),
            no_execute: extended.as_ref().is_some_and(|extended| extended.has_execute_disable()),
            huge_pages: extended.as_ref().is_some_and(|extended| extended.has_1gib_pages()),
            smep: structured.as_ref().is_some_and(|structured| structured.has_smep()),
            smap: structured.as_ref().is_some_and(|structured| structured.has_smap()),
            // QEMU's emulation carries it out bit by bit.
            crc32: basic.as_ref().is_some_and(|basic| basic.has_sse42()) && !is_emulated(),
            rdrand: basic.as_ref().is_some_and(|basic| basic.has_rdrand()),
            umip: structured.as_ref().is_some_and(|structured| structured.has_umip()),
            hypervisor: basic.as_ref().is_some_and(|basic| basic.has_hypervisor()),
            monitor_bytes: monitor
                .filter(|_| mwait)
                .map_or(0, |monitor| monitor.largest_monitor_line()),
        }
    }

    /// Whether an idle core should wait by MONITOR and MWAIT. Under a hypervisor it should not:
    /// there MWAIT is often emulated by spinning.
    pub fn waits_by_monitor(&self) -> bool {
        self.monitor_bytes != 0 && !self.hypervisor
    }
}

/// The names of the features in use, for the boot report.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            (self.x2apic, "x2apic"),
            (self.tsc_deadline, "tsc-deadline"),
            (self.invariant_tsc, "invariant-tsc"),
            (self.no_execute, "nx"),
            (self.huge_pages, "1gib-pages"),
            (self.smep, "smep"),
            (self.smap, "smap"),
            (self.umip, "umip"),
            (self.rdrand, "rdrand"),
            (self.waits_by_monitor(), "mwait"),
        ];
        f.write_str("cpu:")?;
        let used = named.into_iter().filter(|(used, _)| *used);
        used.map(|(_, name)| name).try_for_each(|name| write!(f, " {name}"))
    }
}

/// Whether QEMU translates every instruction that this machine runs.
fn is_emulated() -> bool {
    let hypervisor = CpuId::new().get_hypervisor_info().map(|info| info.identify());
    matches!(hypervisor, Some(Hypervisor::QEMU))
}

/// On what a node runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A guest of KVM.
    Kvm,
    /// QEMU alone.
    Qemu,
    /// A guest of another hypervisor.
    Virtual,
    /// A machine without a hypervisor.
    Bare,
}

impl Kind {
    /// This machine's.
    pub fn detect() -> Kind {
        let hypervisor = CpuId::new().get_hypervisor_info().map(|info| info.identify());
        match hypervisor {
            Some(Hypervisor::KVM) => Kind::Kvm,
            Some(Hypervisor::QEMU) => Kind::Qemu,
            Some(_) => Kind::Virtual,
            None => Kind::Bare,
        }
    }

    /// In the boot report's words.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Kvm => "kvm",
            Kind::Qemu => "qemu",
            Kind::Virtual => "virtual",
            Kind::Bare => "bare",
        }
    }
}

/// The APIC id of the core that runs this.
pub fn apic_id() -> ApicId {
    let id = CpuId::new();
    // The wide id, where the topology leaf has one, else the 8-bit one.
    let wide = id.get_extended_topology_info().and_then(|mut levels| levels.next());
    let narrow = || id.get_feature_info().map_or(0, |info| info.initial_local_apic_id().into());
    ApicId(wide.map(|level| level.x2apic_id()).unwrap_or_else(narrow))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_processor_that_runs_this_test_has_no_execute() {
        assert!(Features::detect().no_execute);
    }

    #[test]
    fn a_monitor_line_counts_only_without_a_hypervisor() {
        let bare = Features { monitor_bytes: 64, ..Features::default() };
        assert!(bare.waits_by_monitor());
        assert!(!Features { hypervisor: true, ..bare }.waits_by_monitor());
        assert!(!Features::default().waits_by_monitor());
    }

    #[test]
    fn the_report_names_what_is_used() {
        let features = Features { x2apic: true, smep: true, ..Features::default() };
        assert_eq!(features.to_string(), "cpu: x2apic smep");
    }
}
