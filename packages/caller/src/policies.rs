//! Scheduling policies of a package: one that favours a subject, one that is late, and one that
//! names subjects which it does not have.

use nile_stl::Registration;
use nile_user::{Runtime, Services};

/// Publishes the policy of this name and serves it until the package is stopped.
pub fn serve(runtime: &Runtime<'_>, services: &Services, name: &str) -> u64 {
    let all: [&'static Registration; 3] =
        [&favour::REGISTRATION, &late::REGISTRATION, &strange::REGISTRATION];
    let found = all.into_iter().find(|it| it.name() == name);
    let Some((registration, make)) = found.and_then(|it| Some((it, it.user?))) else { return 60 };
    if let Err(error) = services.publish(registration, make) {
        return 70 + u64::from(error.status.code());
    }
    services.serve();
    loop {
        runtime.park();
    }
}

mod favour {
    use alloc::string::String;
    use alloc::vec::Vec;

    use nile_interfaces::scheduling::{MOST_TURNS, TYPE, Waiting};
    use nile_stl::{Start, Stl, service};

    pub struct Favour;

    impl Start for Favour {
        fn start(_: &Stl) -> Favour {
            Favour
        }
    }

    /// The last subject has three turns for each of another's.
    #[service(type = TYPE, keywords(favour = 9), attributes(global_priority = 11))]
    impl Favour {
        /// How it decides.
        #[stl_u(reply = "text", allow(package, operator, peer))]
        fn explain(&self) -> String {
            "the last one has three turns for each of another's".into()
        }

        /// Whose turns are next.
        #[stl_u(reply = "order", allow(package, operator, peer))]
        fn order(&self, subjects: Vec<Waiting>) -> Vec<u32> {
            let Some(last) = subjects.last().map(|it| it.subject) else { return Vec::new() };
            let others = subjects.iter().map(|it| it.subject).filter(|it| *it != last);
            let round = others.flat_map(|other| [last, last, last, other]);
            round.collect::<Vec<_>>().into_iter().cycle().take(MOST_TURNS).collect()
        }
    }
}

mod late {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::time::Duration;

    use nile_interfaces::scheduling::{TYPE, Waiting};
    use nile_stl::{Start, Stl, service};

    pub struct Late(Stl);

    impl Start for Late {
        fn start(stl: &Stl) -> Late {
            Late(stl.clone())
        }
    }

    /// It answers after a second.
    #[service(type = TYPE, keywords(late = 9), attributes(global_priority = 12))]
    impl Late {
        /// How it decides.
        #[stl_u(reply = "text", allow(package, operator, peer))]
        fn explain(&self) -> String {
            "after a second".into()
        }

        /// Whose turns are next.
        #[stl_u(reply = "order", allow(package, operator, peer))]
        async fn order(&self, subjects: Vec<Waiting>) -> Vec<u32> {
            let host = self.0.host();
            host.sleep_until(host.now() + Duration::from_secs(1)).await;
            subjects.into_iter().map(|it| it.subject).collect()
        }
    }
}

mod strange {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use nile_interfaces::scheduling::{TYPE, Waiting};
    use nile_stl::{Start, Stl, service};

    pub struct Strange;

    impl Start for Strange {
        fn start(_: &Stl) -> Strange {
            Strange
        }
    }

    /// It names who is not its own.
    #[service(type = TYPE, keywords(strange = 9), attributes(global_priority = 13))]
    impl Strange {
        /// How it decides.
        #[stl_u(reply = "text", allow(package, operator, peer))]
        fn explain(&self) -> String {
            "nobody knows".into()
        }

        /// Whose turns are next.
        #[stl_u(reply = "order", allow(package, operator, peer))]
        fn order(&self, subjects: Vec<Waiting>) -> Vec<u32> {
            vec![subjects.len() as u32 + 1_000]
        }
    }
}
