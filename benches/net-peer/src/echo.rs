//! Linux in the place of a node: gives back what comes, a thread for each connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

use crate::Outcome;

/// Serves until it is killed.
pub fn serve(at: &str, spins: bool) -> Outcome<Value> {
    let listener = TcpListener::bind(at)?;
    for stream in listener.incoming() {
        let stream = stream?;
        // A client that goes away harms nobody else.
        thread::spawn(move || give_back(stream, spins).ok());
    }
    Ok(Value::Null)
}

fn give_back(mut stream: TcpStream, spins: bool) -> Outcome<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(spins)?;
    let mut bytes = [0; 8 << 10];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => stream.write_all(&bytes[..count])?,
            Err(error) if spins && error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}
