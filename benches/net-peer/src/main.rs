//! What speaks to a node's network in `./nile bench net`, and stands in the node's place on Linux.
//! A client prints one document of what it has measured, times in microseconds.
//!
//! * `nile-net-peer echo ADDRESS [spin]` ([`echo`]): gives back what comes, until it is killed.
//! * `nile-net-peer rtt ADDRESS SECONDS [spin]` ([`rtt`]): 64 bytes there and back, all the time.
//! * `nile-net-peer connects ADDRESS SECONDS` ([`connects`]): a connection for each 64 bytes.
//! * `nile-net-peer download ADDRESS PATH FILE TIMES COMMAND…` ([`download`]): has what lies at
//!   PATH without rest, which is to be what FILE has, while COMMAND runs so often.
//! * `nile-net-peer echoes ADDRESS CONNECTIONS TIMES COMMAND…` ([`echoes`]): 64 bytes there and
//!   back by all of so many connections, while COMMAND runs so often.
//!
//! With `spin` a socket is asked again and again, and never waited for. [`windows`] is what a
//! command does to what comes.
#![forbid(unsafe_code)]

mod connects;
mod download;
mod echo;
mod echoes;
mod rtt;
mod spread;
mod windows;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

/// What goes wrong is said, and ends the program.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes of a message.
const MESSAGE: usize = 64;

/// How long a peer may say nothing before the connection counts as broken.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match work(&words) {
        Ok(measured) => {
            println!("{measured}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nile-net-peer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(words: &[&str]) -> Outcome<Value> {
    match words {
        ["echo", at] => echo::serve(at, false),
        ["echo", at, "spin"] => echo::serve(at, true),
        ["rtt", to, seconds] => rtt::run(to, secs(seconds)?, false),
        ["rtt", to, seconds, "spin"] => rtt::run(to, secs(seconds)?, true),
        ["connects", to, seconds] => connects::run(to, secs(seconds)?),
        ["download", to, path, file, times, command @ ..] => {
            download::run(to, path, file, times.parse()?, command)
        }
        ["echoes", to, connections, times, command @ ..] => {
            echoes::run(to, connections.parse()?, times.parse()?, command)
        }
        _ => Err("echo, rtt, connects, download or echoes, as its documentation has it".into()),
    }
}

fn secs(text: &str) -> Outcome<Duration> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

/// A connection to a node or to what stands in its place.
fn connect(to: &str) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a message and has it back, which is checked.
fn there_and_back(stream: &mut TcpStream, byte: u8, spins: bool) -> Outcome<()> {
    let sent = [byte; MESSAGE];
    let mut back = [0; MESSAGE];
    stream.write_all(&sent)?;
    read(stream, &mut back, spins)?;
    match back == sent {
        true => Ok(()),
        false => Err("what has come back is not what was sent".into()),
    }
}

/// Fills `bytes`, and asks again and again if it `spins`.
fn read(stream: &mut TcpStream, bytes: &mut [u8], spins: bool) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match stream.read(&mut bytes[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => at += count,
            Err(error) if spins && error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
