//! The calls of the service `task`, and what they lead to: commands that come one after the other,
//! and the word that the present one is off.

use alloc::format;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{CoreId, Instant, Status};
use nile_bosml::{Buffer, Bytes};
use nile_interfaces::task::TaskClient;
use nile_interfaces::task::records::{Command, CommandKind};
use nile_stl::{CallError, CallResult};
use nile_user::{PoolBuffer, Runtime, with_services};

use crate::outcome::{Fault, Halt, Outcome};
use crate::stages::{Bounds, Stages};
use crate::task::Task;

/// How long a call may take: it ends sooner by itself, with its core at the latest.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// How long the pool may have no free buffer until an attempt gives up those that it has, which
/// others of the node may wait for. Each time that it was not enough it is three times as long, up
/// to the last: disks may be slow.
const SHORTAGE: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(30);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(1);

/// A package's side of the service.
pub(crate) struct Desk<'s> {
    pub runtime: Runtime<'s>,
    pub client: TaskClient,
    stages: &'s dyn Stages,
    /// What came while something else was done, which is off since.
    next: RefCell<Option<Command>>,
    /// How long the pool may have no free buffer.
    shortage: Cell<Duration>,
}

/// Obeys commands until the job is over; gives the package's exit code.
pub(crate) fn serve(system: &dyn System, stages: &dyn Stages) -> u64 {
    let runtime = Runtime::new(system);
    // The service is in the kernel beneath, whatever that core is called.
    let served = with_services(&runtime, CoreId::BOOT, |services| {
        let stl = services.stl().with_patience(PATIENCE);
        let client = runtime.block_on(TaskClient::find(&stl))?;
        let runtime = runtime.clone();
        let desk = Rc::new(Desk {
            runtime,
            client,
            stages,
            next: RefCell::default(),
            shortage: Cell::new(SHORTAGE),
        });
        loop {
            let command = match desk.next.take() {
                Some(command) => command,
                None => match desk.call(|client| client.next(true)) {
                    Err(error) if error.status == Status::Timeout => continue,
                    command => command?,
                },
            };
            match command.kind {
                CommandKind::End => return Ok(()),
                _ => desk.obey(command)?,
            }
        }
    });
    served.map_or_else(|error: CallError| u64::from(error.status.code()), |()| 0)
}

impl<'s> Desk<'s> {
    /// The end of a call.
    pub fn call<'c, T, F: Future<Output = CallResult<T>> + 'c>(
        &'c self,
        call: impl FnOnce(&'c TaskClient) -> F,
    ) -> CallResult<T> {
        self.runtime.block_on(call(&self.client))
    }

    /// Does what a command says. Only an error that no later command can mend is one.
    fn obey(self: &Rc<Self>, command: Command) -> CallResult<()> {
        let (ticket, kind) = (command.ticket, command.kind);
        let task = Task::new(self.clone(), command);
        let stages = self.stages;
        let done = match kind {
            CommandKind::Sample => stages.sample(&task).and_then(|sample| {
                self.told("the sample", |it| it.sampled(ticket, Bytes::from(&sample[..])))?;
                self.told("the end", |it| it.done(ticket, 0, 0))
            }),
            CommandKind::Cut => stages.cut(&task).and_then(|Bounds { bytes, slices }| {
                let slices = slices.get();
                self.told("the bounds", |it| it.cut(ticket, Bytes::from(&bytes[..]), slices))
            }),
            CommandKind::Map => stages.map(&task).and_then(|done| {
                self.told("the end", |it| it.done(ticket, done.records, done.checksum))
            }),
            CommandKind::Reduce => stages.reduce(&task).and_then(|done| {
                self.told("the end", |it| it.done(ticket, done.records, done.checksum))
            }),
            CommandKind::Nothing | CommandKind::Stop | CommandKind::End => Ok(()),
        };
        match done {
            Err(Halt::Failed { fault, text }) => {
                let told = self.call(|it| it.failed(ticket, fault, &text));
                match told {
                    Err(error) if error.status != Status::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            Ok(()) | Err(Halt::Stopped) => Ok(()),
        }
    }

    fn told<'c, T, F: Future<Output = CallResult<T>> + 'c>(
        &'c self,
        what: &str,
        call: impl FnOnce(&'c TaskClient) -> F,
    ) -> Outcome<T> {
        self.call(call).map_err(|error| Halt::of(error, Fault::Code, what))
    }

    /// Lets others of this core have their turn. `Stopped` if the work of this ticket is off.
    pub fn breathe(&self, ticket: u64) -> Outcome {
        loop {
            let command = self.told("the next command", |it| it.next(false))?;
            match command.kind {
                CommandKind::Nothing => return Ok(()),
                CommandKind::Stop if command.ticket != ticket => {}
                CommandKind::Stop => return Err(Halt::Stopped),
                // Who is told to begin something else has nothing else to do any more.
                _ => {
                    *self.next.borrow_mut() = Some(command);
                    return Err(Halt::Stopped);
                }
            }
        }
    }

    /// A free buffer of the pool; waits for one.
    pub fn buffer(self: &Rc<Self>, ticket: u64) -> Outcome<PoolBuffer<'s>> {
        let mut until = None;
        loop {
            let status = match self.runtime.take_buffer() {
                Err(status) => status,
                Ok(buffer) => return Ok(buffer),
            };
            let now = self.now();
            let until = *until.get_or_insert(now + self.shortage.get());
            if status != Status::Busy || now >= until {
                self.shortage.set((self.shortage.get() * 3).min(LONGEST));
                return Err(Halt::space(format!("no buffer of the node's pool: {status}")));
            }
            self.breathe(ticket)?;
            self.runtime.sleep_until(now + LOOK);
        }
    }

    /// Gives a buffer up, for a handle to its first bytes.
    pub fn pass(&self, buffer: PoolBuffer<'s>, bytes: usize) -> Outcome<Buffer> {
        buffer.pass(bytes).map_err(|status| Halt::code(format!("a buffer to be passed: {status}")))
    }

    /// Takes buffers that were given to this package.
    pub fn claim(&self, buffer: Buffer) -> Outcome<PoolBuffer<'s>> {
        // Nobody else can have it, unless the work is off and it was taken back.
        self.runtime.claim_buffer(buffer).map_err(|status| match status {
            Status::NotFound => Halt::Stopped,
            status => Halt::code(format!("a buffer to be claimed: {status}")),
        })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        let now = self.runtime.call(SystemCall::Now, 0, &[], &mut []).result();
        Instant::from_nanos(now.unwrap_or_default())
    }
}
