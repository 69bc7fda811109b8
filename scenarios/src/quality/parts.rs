//! Services whose instances take as long as they are told, and fail when they are told.

/// What makes flour: an instance of each core takes its own time.
pub mod mill {
    use alloc::format;
    use alloc::string::String;
    use core::cell::Cell;
    use core::time::Duration;

    use nile_abi::{Instant, Status};
    use nile_stl::{CallError, CallResult, Start, Stl, service};

    pub struct Mill {
        stl: Stl,
        takes_us: Cell<u64>,
        fails: Cell<bool>,
        calls: Cell<u64>,
        /// Until when it grinds, if calls wait for each other.
        busy: Cell<Option<Instant>>,
    }

    impl Start for Mill {
        fn start(stl: &Stl) -> Mill {
            let (takes_us, fails, calls, busy) = Default::default();
            Mill { stl: stl.clone(), takes_us, fails, calls, busy }
        }
    }

    /// A mill.
    #[service(subsystem = "tests", capability = "milling", layer = high, on = every,
        keywords(mill = 1))]
    impl Mill {
        /// The flour of grain.
        #[stl_k(reply = "flour", allow(package, operator, peer))]
        #[pure]
        async fn grind(&self, grain: &str) -> CallResult<String> {
            self.calls.set(self.calls.get() + 1);
            let host = self.stl.host();
            let flour = format!("{grain} flour");
            let begins = self.busy.get().map_or(host.now(), |busy| busy.max(host.now()));
            let ends = begins + Duration::from_micros(self.takes_us.get());
            self.busy.set(self.busy.get().map(|_| ends));
            host.sleep_until(ends).await;
            match self.fails.get() {
                false => Ok(flour),
                true => Err(CallError::new(Status::Failed, "the stone is broken")),
            }
        }

        /// From now on a call takes so long, and perhaps fails; how many calls there were.
        #[stl_k(reply = "calls")]
        fn set(&self, takes_us: u64, fails: bool) -> u64 {
            self.takes_us.set(takes_us);
            self.fails.set(fails);
            self.busy.set(None);
            self.calls.get()
        }

        /// From now on a call takes so long, and begins when the one before is over.
        #[stl_k]
        fn line_up(&self, takes_us: u64) {
            self.takes_us.set(takes_us);
            self.fails.set(false);
            self.busy.set(Some(self.stl.host().now()));
        }

        /// Ends this instance.
        #[stl_k]
        async fn leave(&self) -> CallResult<()> {
            self.stl.unpublish(REGISTRATION.name()).await
        }
    }
}

/// What makes bread of flour.
pub mod oven {
    use alloc::format;
    use alloc::string::String;

    use nile_stl::{Start, Stl, service};

    pub struct Oven;

    impl Start for Oven {
        fn start(_: &Stl) -> Oven {
            Oven
        }
    }

    /// An oven.
    #[service(subsystem = "tests", capability = "baking", layer = high, on = every,
        keywords(oven = 1))]
    impl Oven {
        /// The bread of flour.
        #[stl_k(reply = "bread", allow(package, operator, peer))]
        #[pure]
        fn bake(&self, flour: &str) -> String {
            format!("{flour} bread")
        }
    }
}
