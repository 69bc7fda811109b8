//! A package without a machine: the user half of a service, over a kernel that a test makes up.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, Status};
use nile_stl::frame::{CallId, Header};
use nile_stl::{CallResult, Host, LocalFuture, Registration, Stl, Upstream};

/// The transport layer of a package with the user half of `service`. What is for the kernel goes
/// to `kernel`: the service's name, the method's, the arguments.
///
/// # Panics
///
/// If the service has no user half.
pub fn with(
    service: &'static Registration,
    kernel: impl Fn(&str, &str, &[u8]) -> CallResult<Vec<u8>> + 'static,
) -> Stl {
    let stl = Stl::user(Rc::new(Package), Rc::new(Kernel(kernel)));
    let make = service.user.expect("the service has a user half");
    stl.install(service, make).expect("nothing else is installed");
    stl
}

/// The result of a call in user mode, where nothing has to be waited for.
///
/// # Panics
///
/// If it waits.
pub fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the call waits"),
    }
}

struct Kernel<F>(F);

impl<F: Fn(&str, &str, &[u8]) -> CallResult<Vec<u8>>> Upstream for Kernel<F> {
    fn relay(
        &self,
        service: &str,
        method: &str,
        arguments: &[u8],
        _: Duration,
    ) -> CallResult<Vec<u8>> {
        (self.0)(service, method, arguments)
    }
}

struct Package;

impl Host for Package {
    fn core(&self) -> CoreId {
        CoreId(1)
    }

    fn generation(&self) -> Generation {
        Generation::FIRST
    }

    fn cores(&self) -> usize {
        2
    }

    fn generation_of(&self, _: CoreId) -> Generation {
        Generation::FIRST
    }

    fn now(&self) -> Instant {
        Instant::START
    }

    fn spawn(&self, _: LocalFuture<'static, ()>) {}

    fn sleep_until(&self, _: Instant) -> LocalFuture<'static, ()> {
        Box::pin(async {})
    }

    fn send(&self, _: CoreId, _: &Header, _: &[u8]) -> Result<(), Status> {
        Err(Status::NotFound)
    }

    fn log(&self, _: fmt::Arguments<'_>) {}

    fn working_for(&self, _: Option<(CoreId, CallId)>) {}
}
