//! Ctrl-C, and the other ways to ask a command to end, as a flag that waiting loops look at. The
//! command then ends what it has started and removes what it has written half.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The signals that ask a program to end: Ctrl-C, Ctrl-\, `kill`, and a terminal that is closed.
pub const SIGNALS: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a signal to end sets the flag in place of ending this process. A command that was
/// started to outlive its terminal (`nohup`) does.
pub fn watch() -> io::Result<()> {
    if REQUESTED.get().is_none() {
        let flag = REQUESTED.get_or_init(Arc::default);
        for signal in SIGNALS {
            if signal != SIGHUP || !is_ignored(SIGHUP) {
                signal_hook::flag::register(signal, Arc::clone(flag))?;
            }
        }
    }
    Ok(())
}

/// Whether such a signal has come since [`watch`].
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Whether who started this process has it ignore `signal`.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
