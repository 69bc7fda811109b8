//! The switch process: one thread that waits for all sockets at once. What has come from one of
//! them is read, forwarded and written before the switch looks at another, a bounded number of
//! frames at a time. What a receiver has no room for waits in the switch itself, where every
//! sender has its share of it; the kernel's own queues, which know no senders, are kept short.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant as Clock;

use nile_abi::Instant;
use nile_platform_hosted::Outside;
use nile_switch::PortId;
use nile_switch::frame::MAX_FRAME;
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use signal_hook::low_level::pipe;

use super::cables::Cables;
use super::capture::Capture;
use super::client::ControlClient;
use super::control::{Answer, Request};
use super::dials::Dials;
use super::framing::Framing;
use super::logs;
use super::outbox::Outbox;
use super::sockets::{self, Sockets};
use super::sources::{Hosted, Machine, Source, Sources, Token};
use crate::failure::Failure;
use crate::interrupt;

/// Frames that are taken from one socket before they are forwarded and the others have their turn.
const TURN: usize = 64;

/// Bytes that may wait for a stream that has taken a part of a frame: the rest of it.
const WAITING: usize = MAX_FRAME + 4;

/// The names of the cables to the network outside, and to this machine.
const OUTSIDE: &str = "outside";
const GATEWAY: &str = "gateway";

const LINKS: Token = 0;
const CONTROL: Token = 1;
const SIGNALS: Token = 2;
/// The others follow.
const FIRST: Token = 3;

/// The running switch.
pub struct Server {
    sockets: Sockets,
    signals: UnixStream,
    sources: Sources,
    cables: Cables,
    dials: Dials,
    capture: Option<Capture>,
    /// What the moments of the switch count from.
    start: Clock,
    folder: PathBuf,
    buffer: Box<[u8]>,
    stopping: bool,
    /// When it is looked at the logs again.
    logs: Clock,
}

/// Whether a socket stays.
#[derive(PartialEq, Eq)]
enum Next {
    Stay,
    Close,
}

impl Server {
    /// A switch that listens in `folder`; its faults are drawn from `seed`.
    pub fn open(folder: &Path, seed: u64) -> Result<Server, Failure> {
        let sockets = Sockets::listen(folder)?;
        let cannot =
            |error| Failure::failed(format!("the switch cannot wait for sockets: {error}"));
        let (signals, told) = UnixStream::pair().map_err(cannot)?;
        for signal in interrupt::SIGNALS {
            let told = told.try_clone().map_err(cannot)?;
            pipe::register(signal, told).map_err(cannot)?;
        }
        let sources = Sources::new(FIRST).map_err(cannot)?;
        let server = Server {
            sockets,
            signals,
            sources,
            cables: Cables::new(seed),
            dials: Dials::default(),
            capture: None,
            start: Clock::now(),
            folder: folder.into(),
            buffer: vec![0; MAX_FRAME + 1].into(),
            stopping: false,
            logs: Clock::now() + logs::LOOK,
        };
        for (socket, token) in [
            (server.sockets.links.as_fd(), LINKS),
            (server.sockets.control.as_fd(), CONTROL),
            (server.signals.as_fd(), SIGNALS),
        ] {
            server.sources.watch(socket, token).map_err(cannot)?;
        }
        Ok(server)
    }

    /// Runs until it is asked to stop.
    pub fn run(mut self) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(256);
        while !self.stopping {
            if let Some(capture) = &mut self.capture {
                capture.flush();
            }
            let waited = self.sources.wait(&mut events, self.timeout());
            waited.map_err(|error| Failure::failed(format!("the switch cannot wait: {error}")))?;
            for event in events.drain(..) {
                self.handle(event.data.u64());
            }
            self.on_time();
        }
        if let Some(capture) = &mut self.capture {
            capture.end();
        }
        Ok(())
    }

    /// Does what `request` asks for.
    pub fn execute(&mut self, request: Request) -> Answer {
        let done = match request {
            Request::Links => {
                let capture = self.capture.as_ref().map(Capture::status);
                return Answer::Links { links: self.cables.statuses(), capture };
            }
            Request::Fault { fault, link } => self.cables.set_fault(fault, link.as_deref()),
            Request::Partition { sides } => self.cables.partition(&sides),
            Request::Heal => {
                self.cables.heal();
                Ok(())
            }
            Request::Capture { file } => self.begin_capture(file),
            Request::EndCapture => {
                self.capture.iter_mut().for_each(Capture::end);
                Ok(())
            }
            Request::Dial { name } => self.dial(&name),
            Request::HangUp { name } => match self.dials.remove(&name) {
                true => {
                    self.cut(&name);
                    Ok(())
                }
                false => Err(format!("`{name}` is not dialled")),
            },
            Request::Stop => {
                self.stopping = true;
                Ok(())
            }
        };
        match done {
            Ok(()) => Answer::Done,
            Err(reason) => Answer::Refused { reason },
        }
    }

    fn begin_capture(&mut self, file: PathBuf) -> Result<(), String> {
        if !file.is_absolute() {
            return Err(format!(
                "the capture's file {} is not named from the root",
                file.display()
            ));
        }
        let capture = Capture::create(file.clone());
        let cannot =
            |error| format!("the capture cannot be written to {}: {error}", file.display());
        if let Some(mut before) = self.capture.replace(capture.map_err(cannot)?) {
            before.end();
        }
        Ok(())
    }

    /// Plugs `name` in as soon as it listens.
    fn dial(&mut self, name: &str) -> Result<(), String> {
        // Refuses what cannot be a name, and makes the cable known before anybody is there.
        if self.cables.port(name).is_none() {
            let port = self.cables.plug(name)?;
            self.cables.unplug(port);
        }
        self.dials.add(name, Clock::now());
        Ok(())
    }

    /// Plugs in a network outside, as `outside`: a device of this machine.
    pub fn plug_outside(&mut self, interface: &Outside) -> Result<(), Failure> {
        let cannot = |error: &dyn fmt::Display| {
            Failure::failed(format!("interface {interface}: it cannot be plugged in: {error}"))
        };
        let socket = interface.open_for_all().map_err(|error| cannot(&error))?;
        let port = self.cables.plug(OUTSIDE).map_err(|error| cannot(&error))?;
        let outside = Source::Hosted(Hosted { socket, port, outside: true, waits: false });
        let token = self.sources.add(outside).map_err(|error| cannot(&error))?;
        self.sources.set_behind(port, Some(token));
        Ok(())
    }

    /// Plugs in the gateway to this machine.
    pub fn plug_gateway(&mut self, socket: OwnedFd) -> Result<(), Failure> {
        let cannot = |error: &dyn fmt::Display| {
            Failure::failed(format!("the gateway cannot be plugged in: {error}"))
        };
        let port = self.cables.plug(GATEWAY).map_err(|error| cannot(&error))?;
        let gateway = Source::Hosted(Hosted { socket, port, outside: false, waits: false });
        let token = self.sources.add(gateway).map_err(|error| cannot(&error))?;
        self.sources.set_behind(port, Some(token));
        Ok(())
    }

    /// How long nothing is to be done.
    fn timeout(&self) -> Option<Timespec> {
        let frame = self.cables.switch.next_due().map(|due| due.since(self.now()));
        let dial = self.dials.next().map(|at| at.saturating_duration_since(Clock::now()));
        let logs = self.logs.saturating_duration_since(Clock::now());
        let wait = [frame, dial, Some(logs)].into_iter().flatten().min()?;
        let tv_sec = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec, tv_nsec: wait.subsec_nanos().into() })
    }

    /// Does what is due.
    fn on_time(&mut self) {
        if self.cables.switch.next_due().is_some() {
            self.forward();
        }
        let now = Clock::now();
        if self.logs <= now {
            logs::rotate(&self.folder);
            self.logs = now + logs::LOOK;
        }
        let Some(next) = self.dials.next() else { return };
        if next > now {
            return;
        }
        for name in self.dials.due(now) {
            match sockets::dial(&self.folder, &name).and_then(|socket| self.reach(socket, &name)) {
                Ok(()) => self.dials.reached(&name, now),
                Err(_) => self.dials.failed(&name, now),
            }
        }
    }

    /// Plugs in the machine `name` behind `socket`.
    fn reach(&mut self, socket: OwnedFd, name: &str) -> io::Result<()> {
        self.cut(name);
        let port = self.cables.plug(name).map_err(io::Error::other)?;
        let machine = Machine {
            socket,
            name: name.into(),
            port,
            framing: Framing::new(),
            outbox: Outbox::default(),
        };
        match self.sources.add(Source::Machine(Box::new(machine))) {
            Ok(token) => {
                self.sources.set_behind(port, Some(token));
                Ok(())
            }
            Err(error) => {
                self.cables.unplug(port);
                Err(error)
            }
        }
    }

    fn handle(&mut self, token: Token) {
        let next = match token {
            LINKS => self.welcome(),
            CONTROL => self.meet(),
            SIGNALS => {
                self.stopping = true;
                Next::Stay
            }
            _ => match self.sources.get(token) {
                Some(Source::Hosted(hosted)) => {
                    let port = hosted.port;
                    self.on_packets(token, port)
                }
                Some(Source::Machine(_)) => self.on_stream(token),
                Some(Source::Newcomer(_)) => self.on_hello(token),
                Some(Source::Client(_)) => self.on_request(token),
                // It was closed by an event before this one.
                None => Next::Stay,
            },
        };
        if next == Next::Close {
            self.close(token);
        }
    }

    /// Takes the frames of a hosted node or a peer, and gives it what waits.
    fn on_packets(&mut self, token: Token, port: PortId) -> Next {
        if let Some(Source::Hosted(hosted)) = self.sources.get_mut(token)
            && hosted.waits
        {
            hosted.waits = false;
            self.sources.refresh(token);
            self.cables.switch.resume(port);
        }
        let next = self.take_packets(token, port);
        self.forward();
        next
    }

    fn take_packets(&mut self, token: Token, port: PortId) -> Next {
        let now = self.now();
        let Some(Source::Hosted(hosted)) = self.sources.get(token) else { return Next::Stay };
        for _ in 0..TURN {
            match rustix::io::read(&hosted.socket, &mut *self.buffer) {
                Ok(0) => return Next::Close,
                Ok(bytes) => {
                    let frame = &self.buffer[..bytes];
                    self.capture.iter_mut().for_each(|capture| capture.note(frame));
                    self.cables.switch.receive(now, port, frame);
                }
                Err(Errno::AGAIN) => return Next::Stay,
                Err(Errno::INTR) => {}
                // Its device may come up again.
                Err(Errno::NETDOWN) if hosted.outside => return Next::Stay,
                Err(error) => {
                    if hosted.outside {
                        crate::say(format_args!("nile: the interface is gone: {error}"));
                    }
                    return Next::Close;
                }
            }
        }
        Next::Stay
    }

    /// Takes what a machine has written, and writes what waits for it.
    fn on_stream(&mut self, token: Token) -> Next {
        let now = self.now();
        let Some(Source::Machine(machine)) = self.sources.get_mut(token) else {
            return Next::Stay;
        };
        let waited = !machine.outbox.is_empty();
        if waited && machine.outbox.flush(&machine.socket).is_err() {
            return Next::Close;
        }
        let waits = !machine.outbox.is_empty();
        match machine.framing.read(&machine.socket) {
            Ok(0) => return Next::Close,
            Ok(_) => {}
            Err(error) if later(&error) => {}
            Err(_) => return Next::Close,
        }
        loop {
            match machine.framing.next() {
                Ok(Some(frame)) => {
                    self.capture.iter_mut().for_each(|capture| capture.note(frame));
                    self.cables.switch.receive(now, machine.port, frame);
                }
                Ok(None) => break,
                Err(_) => {
                    crate::say(format_args!(
                        "nile: {} sends what is no frame; its link is cut",
                        machine.name
                    ));
                    return Next::Close;
                }
            }
        }
        if waited && !waits {
            let port = machine.port;
            self.sources.refresh(token);
            self.cables.switch.resume(port);
        }
        self.forward();
        Next::Stay
    }

    /// Sends everything that is due, as far as there is room for it.
    fn forward(&mut self) {
        let now = self.now();
        while let Some((port, frame)) = self.cables.switch.poll(now) {
            let Some(token) = self.sources.behind(port) else { continue };
            let waits = match self.sources.get_mut(token) {
                Some(Source::Hosted(Hosted { socket, waits, .. })) => {
                    // It is not waited for, and signals of broken pipes are ignored.
                    match rustix::io::write(socket, &frame) {
                        Err(Errno::AGAIN) => {
                            *waits = true;
                            self.cables.switch.refuse(port, frame);
                            true
                        }
                        // One that is broken is closed when its reading side says so.
                        _ => false,
                    }
                }
                Some(Source::Machine(machine)) => {
                    let head = (frame.len() as u32).to_be_bytes();
                    let Machine { socket, outbox, .. } = &mut **machine;
                    // The same holds here. What is begun here waits with the machine.
                    let _ = outbox.send(&*socket, &head, &frame, WAITING);
                    let waits = !outbox.is_empty();
                    if waits {
                        self.cables.switch.stop(port);
                    }
                    waits
                }
                _ => false,
            };
            if waits {
                self.sources.refresh(token);
            }
        }
    }

    /// Takes in those who wait at the door.
    fn welcome(&mut self) -> Next {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = accept_with(&self.sockets.links, flags) {
            sockets::limit(&socket);
            // One that cannot be watched, or is one too many, is closed.
            let _ = self.sources.add(Source::Newcomer(socket));
        }
        Next::Stay
    }

    /// Hears the name of somebody new.
    fn on_hello(&mut self, token: Token) -> Next {
        let Some(Source::Newcomer(socket)) = self.sources.get(token) else { return Next::Stay };
        let bytes = match recv(socket, &mut *self.buffer, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Next::Stay,
            Err(_) => return Next::Close,
        };
        // What is not even text is refused as a name, too.
        let name = String::from_utf8_lossy(&self.buffer[..bytes]).into_owned();
        if name != super::cables::PEER {
            self.cut(&name);
        }
        match (self.cables.plug(&name), self.sources.take(token)) {
            (Ok(port), Some(Source::Newcomer(socket))) => {
                self.sources.put(
                    token,
                    Source::Hosted(Hosted { socket, port, outside: false, waits: false }),
                );
                self.sources.set_behind(port, Some(token));
                Next::Stay
            }
            (Err(reason), newcomer) => {
                crate::say(format_args!("nile: somebody is not plugged in: {reason}"));
                drop(newcomer);
                Next::Stay
            }
            _ => Next::Stay,
        }
    }

    /// Takes in those who have requests.
    fn meet(&mut self) -> Next {
        while let Ok((stream, _)) = self.sockets.control.accept() {
            let _ = self.sources.add(Source::Client(Box::new(ControlClient::new(stream))));
        }
        Next::Stay
    }

    /// Answers the requests of a client.
    fn on_request(&mut self, token: Token) -> Next {
        // The client is out of the table while its requests change what is in it.
        let Some(Source::Client(mut client)) = self.sources.take(token) else {
            return Next::Stay;
        };
        let stays = client.serve(|request| self.execute(request));
        self.sources.put(token, Source::Client(client));
        self.sources.refresh(token);
        match stays {
            true => Next::Stay,
            false => Next::Close,
        }
    }

    /// Closes the connection of who is plugged in as `name`, if anybody is.
    fn cut(&mut self, name: &str) {
        let port = self.cables.port(name);
        if let Some(token) = port.and_then(|port| self.sources.behind(port)) {
            self.close(token);
        }
    }

    fn close(&mut self, token: Token) {
        // Closing a socket takes it out of epoll, too: nobody else has it.
        match self.sources.take(token) {
            Some(Source::Hosted(hosted)) => {
                self.sources.set_behind(hosted.port, None);
                self.cables.unplug(hosted.port);
            }
            Some(Source::Machine(machine)) => {
                self.sources.set_behind(machine.port, None);
                self.cables.unplug(machine.port);
                self.dials.lost(&machine.name, Clock::now());
            }
            Some(Source::Newcomer(_) | Source::Client(_)) | None => {}
        }
    }

    fn now(&self) -> Instant {
        Instant::START + self.start.elapsed()
    }
}

/// Whether there is nothing to read now, but may be later.
fn later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
