//! A bulk stream: the same bytes over HTTP, again and again on one connection, each compared.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use serde_json::Value;

use crate::windows::{self, Arrivals};
use crate::{Outcome, connect};

/// Bytes that an answer's head has at most.
const HEAD: usize = 4096;

/// Has `path`, which is to be what `file` has, without rest while `command` runs so often. One
/// byte that is lost, or another one, is an error, and so is a connection that breaks.
pub fn run(to: &str, path: &str, file: &str, times: usize, command: &[&str]) -> Outcome<Value> {
    let expected = fs::read(file)?;
    let stream = connect(to)?;
    let (arrivals, is_over) = (Arrivals::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(error) = have(stream, path, &expected, &arrivals, &is_over) {
                arrivals.end(error.to_string());
            }
        });
        let measured = windows::run(&arrivals, times, command);
        is_over.store(true, Relaxed);
        measured
    })
}

fn have(
    mut stream: TcpStream,
    path: &str,
    expected: &[u8],
    arrivals: &Arrivals,
    is_over: &AtomicBool,
) -> Outcome<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n");
    let mut bytes = vec![0; 64 << 10];
    while !is_over.load(Relaxed) {
        stream.write_all(request.as_bytes())?;
        head(&mut stream, expected.len())?;
        let mut had = 0;
        while had < expected.len() && !is_over.load(Relaxed) {
            let most = bytes.len().min(expected.len() - had);
            let count = stream.read(&mut bytes[..most])?;
            if count == 0 {
                return Err("the connection has ended".into());
            }
            arrivals.came(count as u64);
            if bytes[..count] != expected[had..had + count] {
                return Err(format!("other bytes than expected from {had} on").into());
            }
            had += count;
        }
    }
    Ok(())
}

/// Reads the head of an answer, which is to have so many bytes behind it.
fn head(stream: &mut TcpStream, length: usize) -> Outcome<()> {
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        said.push(byte[0]);
        if said.len() > HEAD {
            return Err("the answer has no head".into());
        }
    }
    let said = String::from_utf8_lossy(&said).to_ascii_lowercase();
    let is_it = said.starts_with("http/1.1 200 ")
        && said.contains(&format!("content-length: {length}\r\n"));
    match is_it {
        true => Ok(()),
        false => Err(format!("an answer that was not expected: {}", said.trim_end()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers every request on one connection with `body`.
    fn server(body: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.read(&mut [0; 1000]).is_ok_and(|count| count > 0) {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
            }
        });
        at
    }

    #[test]
    fn what_comes_is_compared() {
        let file = std::env::temp_dir().join(format!("nile-download-{}", std::process::id()));
        fs::write(&file, b"right").unwrap();
        let file_name = file.display().to_string();
        let measured = run(&server(b"right"), "/data/a", &file_name, 2, &["true"]).unwrap();
        assert_eq!(measured["times"], 2);
        let wrong = run(&server(b"wrong"), "/data/a", &file_name, 2, &["true"]).unwrap_err();
        assert!(wrong.to_string().starts_with("other bytes"), "{wrong}");
        let short = run(&server(b"shor"), "/data/a", &file_name, 2, &["true"]).unwrap_err();
        assert!(short.to_string().starts_with("an answer"), "{short}");
        fs::remove_file(file).unwrap();
    }
}
