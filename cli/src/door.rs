//! `nile door`: graphs for programs that know another system's protocol, on the host's network.

pub mod args;
mod deliver;
mod kafka;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::failure::Failure;
use crate::graph::cores::Cores;
use crate::{print, say};
use args::{Door, Protocol};
use deliver::{Wish, fulfil};

/// The most connections at a time; another one is closed at once.
const MOST: usize = 64;

/// How long nobody is let in when that has failed.
const AGAIN: Duration = Duration::from_millis(100);

/// Opens the door, until Ctrl-C.
pub fn run(options: &Door) -> Result<(), Failure> {
    let Protocol::Kafka { listen, advertise, query } = &options.protocol;
    let advertise = *advertise;
    let cores = Cores::open(query)?;
    let deaf =
        |error: io::Error| Failure::request(format!("{listen} cannot be listened on: {error}"));
    let listener = TcpListener::bind(listen).map_err(deaf)?;
    let listen = listener.local_addr().map_err(deaf)?;
    print(&match query.json {
        true => format!("{}\n", json!({ "listen": listen.to_string() })),
        false => format!("producers of Kafka come to {listen}; Ctrl-C closes it\n"),
    })?;
    let (wishes, told) = mpsc::channel();
    thread::spawn(move || let_in(&listener, advertise, &wishes));
    match fulfil(cores, query, &told) {
        Err(Failure::Interrupted) => Ok(()),
        end => end,
    }
}

/// Gives each connection a thread. What is wrong with one ends that alone.
fn let_in(listener: &TcpListener, advertise: Option<SocketAddr>, wishes: &Sender<Wish>) {
    let inside = Arc::new(());
    loop {
        let entered = listener.accept();
        let Ok((stream, from)) = entered else {
            // There are no descriptors, perhaps.
            thread::sleep(AGAIN);
            continue;
        };
        if Arc::strong_count(&inside) > MOST {
            continue;
        }
        let (wishes, one) = (wishes.clone(), inside.clone());
        thread::spawn(move || {
            if let Err(error) = serve(stream, advertise, wishes) {
                say(format_args!("nile: the connection from {from} ends: {error}"));
            }
            drop(one);
        });
    }
}

fn serve(stream: TcpStream, advertise: Option<SocketAddr>, wishes: Sender<Wish>) -> io::Result<()> {
    match kafka::serve(stream, advertise, wishes) {
        // They went without a word, or had nothing to say.
        Err(error) if is_usual(&error) => Ok(()),
        end => end,
    }
}

fn is_usual(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, WouldBlock};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | WouldBlock)
}

/// A number that nobody guesses.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
