//! Ctrl-C as a flag: what has started clusters ends them and removes their disks.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a signal to end sets the flag in place of ending this process.
pub fn watch() -> io::Result<()> {
    if REQUESTED.get().is_none() {
        let flag = REQUESTED.get_or_init(Arc::default);
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
    }
    Ok(())
}

/// Whether such a signal has come since [`watch`].
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}
