//! The tests, one after the other.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::convert::Infallible;
use core::time::Duration;

use nile_stl::Stl;
use nile_user::JoinHandle;
use nile_user::net::{NetError, NetResult, Network, TcpListener, TcpStream};

use crate::protocol::{COOKIE_BYTES, Counted, MOST_BYTES, Parameters, State, results};

/// How long a client may take to say what comes next, beside the data.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that are sent or received at once.
const PIECE: usize = 8 << 10;

/// Serves on this port. Fails if the port or the network cannot be had any more.
pub fn serve(network: &Network<'_>, stl: &Stl, port: u16) -> NetResult<Infallible> {
    let listener = TcpListener::bind(network, port)?;
    loop {
        let control = listener.accept()?;
        match (Test { network, listener: &listener, control, stl }).run() {
            // A network that has failed fails for the listener, too.
            Ok(()) => {}
            Err(error) => stl.host().log(format_args!("a test has ended: {error}")),
        }
    }
}

struct Test<'a, 's> {
    network: &'a Network<'s>,
    listener: &'a TcpListener<'s>,
    control: TcpStream<'s>,
    stl: &'a Stl,
}

/// What is known of a connection with data.
#[derive(Default)]
struct Data {
    bytes: Cell<u64>,
    is_over: Cell<bool>,
}

impl<'s> Test<'_, 's> {
    fn say(&self, state: State) -> NetResult<()> {
        self.control.write_all(&[state as i8 as u8])
    }

    /// A document of the client's.
    fn document(&self) -> NetResult<Vec<u8>> {
        let mut length = [0; 4];
        self.control.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        // What is longer is no document, and what follows no state.
        let mut document = vec![0; length.min(MOST_BYTES)];
        self.control.read_exact(&mut document)?;
        Ok(document)
    }

    fn run(&self) -> NetResult<()> {
        self.control.set_timeout(Some(PATIENCE));
        let mut cookie = [0; COOKIE_BYTES];
        self.control.read_exact(&mut cookie)?;
        self.say(State::ParamExchange)?;
        let Ok(wanted) = Parameters::parse(&self.document()?) else {
            self.say(State::ServerError)?;
            // Its own number for parameters that do not go, and none of the system's.
            const NO_SUCH_TEST: u32 = 13;
            self.control.write_all(&NO_SUCH_TEST.to_be_bytes())?;
            return self.control.write_all(&[0; 4]);
        };
        self.say(State::CreateStreams)?;
        let streams = self.streams(&wanted, &cookie)?;
        self.say(State::TestStart)?;
        let begun = self.stl.host().now() + Duration::from_secs(wanted.omit);
        let data: Vec<Rc<Data>> = streams.iter().map(|_| Rc::default()).collect();
        let threads: Vec<JoinHandle<()>> = streams
            .into_iter()
            .enumerate()
            .map(|(place, stream)| {
                // Of both directions the client's comes first.
                let sends =
                    wanted.server_sends && !(wanted.client_sends && place < wanted.parallel);
                let data = data[place].clone();
                self.network.runtime().spawn(move |_| match sends {
                    true => send(&stream, &data),
                    false => receive(&stream, &data),
                })
            })
            .collect();
        if wanted.omit > 0 {
            let counted = data.clone();
            self.network.runtime().spawn(move |runtime| {
                runtime.sleep_until(begun);
                counted.iter().for_each(|it| it.bytes.set(0));
            });
        }
        let ended = self.say(State::TestRunning).and_then(|()| self.wait_for(State::TestEnd));
        data.iter().for_each(|it| it.is_over.set(true));
        ended?;
        let seconds = self.stl.host().now().since(begun).as_secs_f64();
        self.say(State::ExchangeResults)?;
        self.document()?;
        let counted: Vec<Counted> =
            data.iter().map(|it| Counted { bytes: it.bytes.get(), seconds }).collect();
        self.control.write_all(&results(&counted, wanted.server_sends))?;
        self.say(State::DisplayResults)?;
        self.wait_for(State::Done)?;
        threads.into_iter().for_each(|thread| thread.join(self.network.runtime()));
        Ok(())
    }

    /// The connections with data; whoever has another cookie is told that there is a test.
    fn streams(
        &self,
        wanted: &Parameters,
        cookie: &[u8; COOKIE_BYTES],
    ) -> NetResult<Vec<TcpStream<'s>>> {
        let directions = usize::from(wanted.client_sends) + usize::from(wanted.server_sends);
        let mut streams = Vec::new();
        while streams.len() < wanted.parallel * directions {
            let stream = self.listener.accept()?;
            stream.set_timeout(Some(PATIENCE));
            let mut said = [0; COOKIE_BYTES];
            match stream.read_exact(&mut said) {
                Ok(()) if said == *cookie => streams.push(stream),
                _ => drop(stream.write_all(&[State::AccessDenied as i8 as u8])),
            }
        }
        Ok(streams)
    }

    /// Waits until the client says that it has come to this state.
    fn wait_for(&self, wanted: State) -> NetResult<()> {
        let mut state = [0];
        // How long data is sent is the client's affair; that it is there TCP looks after.
        self.control.set_timeout(None);
        loop {
            self.control.read_exact(&mut state)?;
            match state[0] as i8 {
                it if it == wanted as i8 => break,
                it if it == State::ClientTerminate as i8 => return Err(NetError::Reset),
                _ => {}
            }
        }
        self.control.set_timeout(Some(PATIENCE));
        Ok(())
    }
}

/// Takes what comes, until the client ends the connection or says that the test is over.
fn receive(stream: &TcpStream<'_>, data: &Data) {
    let mut bytes = [0; PIECE];
    while let Ok(count) = stream.read(&mut bytes) {
        if count == 0 {
            break;
        }
        if !data.is_over.get() {
            data.bytes.set(data.bytes.get() + count as u64);
        }
    }
}

/// Sends until the client says that the test is over.
fn send(stream: &TcpStream<'_>, data: &Data) {
    let bytes = [0; PIECE];
    while !data.is_over.get() {
        match stream.write(&bytes) {
            Ok(count) => data.bytes.set(data.bytes.get() + count as u64),
            Err(_) => break,
        }
    }
}
