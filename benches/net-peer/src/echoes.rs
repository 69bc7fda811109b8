//! Many connections at once, each with one message on its way all the time.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::windows::{self, Arrivals};
use crate::{MESSAGE, Outcome, connect, there_and_back};

/// How long sockets are waited for before it is looked whether all is over.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A connection, and how much of its message has come back.
struct Talk {
    stream: TcpStream,
    back: usize,
}

/// Has messages come back on so many connections while `command` runs so often. A connection that
/// breaks is an error.
pub fn run(to: &str, connections: usize, times: usize, command: &[&str]) -> Outcome<Value> {
    let mut talks = Vec::new();
    for _ in 0..connections {
        let mut stream = connect(to)?;
        there_and_back(&mut stream, 0, false)?;
        stream.set_nonblocking(true)?;
        talks.push(Talk { stream, back: 0 });
    }
    let (arrivals, is_over) = (Arrivals::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(error) = talk(&mut talks, &arrivals, &is_over) {
                arrivals.end(error.to_string());
            }
        });
        let measured = windows::run(&arrivals, times, command);
        is_over.store(true, Relaxed);
        measured
    })
}

fn talk(talks: &mut [Talk], arrivals: &Arrivals, is_over: &AtomicBool) -> Outcome<()> {
    for it in &mut *talks {
        it.stream.write_all(&[1; MESSAGE])?;
    }
    while !is_over.load(Relaxed) {
        let mut fds: Vec<PollFd<'_>> =
            talks.iter().map(|it| PollFd::new(&it.stream, PollFlags::IN)).collect();
        poll(&mut fds, Some(&LOOK))?;
        let ready: Vec<bool> = fds.iter().map(|it| !it.revents().is_empty()).collect();
        for (it, _) in talks.iter_mut().zip(ready).filter(|it| it.1) {
            if it.step()? {
                arrivals.came(1);
            }
        }
    }
    Ok(())
}

impl Talk {
    /// Reads what has come; whether the message is back, and another one on its way.
    fn step(&mut self) -> Outcome<bool> {
        let mut bytes = [0; MESSAGE];
        match self.stream.read(&mut bytes[self.back..]) {
            Ok(0) => return Err("a connection has ended".into()),
            Ok(count) => self.back += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let is_back = self.back == MESSAGE;
        if is_back {
            self.back = 0;
            self.stream.write_all(&[1; MESSAGE])?;
        }
        Ok(is_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn messages_come_back_on_every_connection() {
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = probe.local_addr().unwrap().to_string();
        drop(probe);
        let here = at.clone();
        thread::spawn(move || crate::echo::serve(&here, false));
        while TcpStream::connect(&at).is_err() {
            thread::yield_now();
        }
        let measured = run(&at, 20, 2, &["true"]).unwrap();
        assert!(measured["per_second"].as_f64().unwrap() > 0.0, "{measured}");
        assert!(crate::rtt::run(&at, crate::secs("0.1").unwrap(), true).is_ok());
        let made = crate::connects::run(&at, crate::secs("0.1").unwrap()).unwrap();
        assert!(made["per_second"].as_f64().unwrap() > 0.0, "{made}");
    }
}
