//! What Linux has counted: interrupts of each CPU by cause, context switches, page faults, and the
//! bytes of reads and writes.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::Outcome;

/// Counts since the system has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// By cause, as `/proc/interrupts` names it: those of each CPU.
    interrupts: BTreeMap<String, Vec<u64>>,
    /// Of all CPUs.
    context_switches: u64,
    /// Of all processes; this is the only one that has memory.
    page_faults: u64,
    /// Bytes that this process has read and written by system calls.
    read_and_written: u64,
}

impl Counts {
    /// What is counted so far.
    pub fn now() -> Outcome<Counts> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{name}"));
        let io = read("self/io")?;
        Ok(Counts {
            interrupts: interrupts(&read("interrupts")?),
            context_switches: field(&read("stat")?, "ctxt")?,
            page_faults: field(&read("vmstat")?, "pgfault")?,
            read_and_written: field(&io, "rchar:")? + field(&io, "wchar:")?,
        })
    }

    /// What was counted between two moments.
    pub fn since(mut self, before: &Counts) -> Counts {
        for (cause, counts) in &mut self.interrupts {
            let Some(before) = before.interrupts.get(cause) else { continue };
            counts.iter_mut().zip(before).for_each(|(count, before)| *count -= before);
        }
        self.interrupts.retain(|_, counts| counts.iter().any(|count| *count > 0));
        self.context_switches -= before.context_switches;
        self.page_faults -= before.page_faults;
        self.read_and_written -= before.read_and_written;
        self
    }

    /// As it is sent.
    pub fn document(&self) -> Value {
        json!({
            "interrupts": self.interrupts,
            "context_switches": self.context_switches,
            "page_faults": self.page_faults,
            "read_and_written_bytes": self.read_and_written,
        })
    }
}

/// The table of `/proc/interrupts`: a head with a column for each CPU, and lines of a cause, its
/// counts, and words. Interrupts of devices go by those words, as their numbers mean nothing.
fn interrupts(text: &str) -> BTreeMap<String, Vec<u64>> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |head| head.split_whitespace().count());
    let mut interrupts = BTreeMap::<String, Vec<u64>>::new();
    for line in lines {
        let Some((cause, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts: Vec<u64> =
            words.iter().map_while(|word| word.parse().ok()).take(cpus).collect();
        if counts.len() < cpus {
            // A count of the whole system.
            continue;
        }
        let device = cause.trim().parse::<u32>().is_ok().then(|| words.last()).flatten();
        let name = device.map_or(cause.trim(), |name| name);
        let sums = interrupts.entry(name.into()).or_insert_with(|| vec![0; cpus]);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    interrupts
}

/// The number behind a name that begins a line.
fn field(text: &str, name: &str) -> Outcome<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let value =
        lines.find(|(word, _)| *word == name).and_then(|(_, value)| value.trim().parse().ok());
    value.ok_or_else(|| format!("this system's /proc says nothing of `{name}`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU1
  4:         12          0   IO-APIC   4-edge      ttyS0
 24:          3          9   PCI-MSI 32769-edge      virtio0-req.0
LOC:       1000       2000   Local timer interrupts
ERR:          0
";

    #[test]
    fn causes_have_a_count_for_each_cpu() {
        let counts = interrupts(TABLE);
        assert_eq!(counts["LOC"], [1000, 2000]);
        assert_eq!(counts["virtio0-req.0"], [3, 9]);
        assert_eq!(counts.len(), 3);
    }

    #[test]
    fn between_two_moments_only_what_happened_is_there() {
        let before = Counts {
            interrupts: interrupts(TABLE),
            context_switches: 5,
            page_faults: 6,
            read_and_written: 7,
        };
        let mut after = before.clone();
        after.interrupts.get_mut("LOC").unwrap()[1] += 4;
        after.page_faults += 1;
        let counts = after.since(&before);
        assert_eq!(counts.interrupts, [("LOC".to_string(), vec![0, 4])].into());
        assert_eq!((counts.context_switches, counts.page_faults), (0, 1));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field("ctxtx 1\nctxt 22\n", "ctxt").unwrap(), 22);
        assert!(field("ctxtx 1\n", "ctxt").is_err());
        assert!(Counts::now().unwrap().page_faults > 0);
    }
}
