//! Stores of Linux, each a server on one CPU, at the end of a Unix socket from a client on the
//! other. The client writes a batch at once and reads all that it must answer at once, which is as
//! little as a client can do; each answer is looked at.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Load, Took};
use crate::figure::Failure;
use crate::node::{LOOK, cpu_times};
use crate::place::{Cpu, Stay};

/// How long a server may take to begin, or to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a value.
const VALUE: usize = 64;

/// Records of a batch that fills a server.
const FIRST: u64 = 100;

/// What a server speaks.
#[derive(Clone, Copy)]
enum Protocol {
    Redis,
    Memcached,
}

/// A server, and the client's end. It ends with this value.
pub struct Server {
    name: &'static str,
    protocol: Protocol,
    process: Child,
    here: Cpu,
    socket: UnixStream,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, or does now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An operation: the number of its key, and of the write if it is one.
type Operation = (u64, Option<u64>);

impl Server {
    /// redis, which keeps nothing on disks.
    pub fn redis(cpus: [Cpu; 2]) -> Result<Server, Failure> {
        let words = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"];
        Server::start("redis-server", &words, Protocol::Redis, cpus)
    }

    /// memcached with one thread.
    pub fn memcached(cpus: [Cpu; 2]) -> Result<Server, Failure> {
        let mut words = vec!["-t", "1", "-m", "64"];
        if rustix::process::getuid().is_root() {
            words.extend(["-u", "root"]);
        }
        words.push("-s");
        Server::start("memcached", &words, Protocol::Memcached, cpus)
    }

    /// Starts a server whose last word is where its socket is to be.
    fn start(
        name: &'static str,
        words: &[&str],
        protocol: Protocol,
        [here, there]: [Cpu; 2],
    ) -> Result<Server, Failure> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let mut process = {
            // It inherits where this thread may run.
            let _stay = Stay::on(there)?;
            let mut command = Command::new(name);
            command.args(words).arg(&path).current_dir(folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().map_err(|error| {
                Failure::Node(format!("{name} cannot be started: {error}; install it"))
            })?
        };
        let socket = connect(&path, &mut process).map_err(|error| {
            let _ = process.kill();
            Failure::Node(format!("{name} does not answer: {error}"))
        })?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Server { name, protocol, process, here, socket, _folder: folder })
    }

    /// Stores all records for the first time.
    pub fn fill(&mut self, keys: u64) -> Result<(), Failure> {
        for first in (0..keys).step_by(FIRST as usize) {
            let some = first..keys.min(first + FIRST);
            self.exchange(&some.map(|key| (key, Some(0))).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// So many batches of a load; what each operation took.
    pub fn turn(&mut self, load: Load, batches: u64, keys: u64) -> Result<Took, Failure> {
        let _stay = Stay::on(self.here)?;
        let server = self.process.id().to_string();
        let mut dice = Dice(keys + load.batch);
        let used =
            || -> io::Result<Duration> { Ok(cpu_times("self")?.own + cpu_times(&server)?.own) };
        let (before, begin) = (used()?, Instant::now());
        let mut operations = Vec::new();
        for number in 0..batches {
            operations.clear();
            operations.extend((0..load.batch).map(|_| {
                let writes = dice.below(100) >= load.reads;
                (dice.below(keys), writes.then_some(number))
            }));
            self.exchange(&operations)?;
        }
        let (took, cpu) = (begin.elapsed(), used()? - before);
        let count = (batches * load.batch) as f64;
        let ns = took.as_nanos() as f64 / count;
        Ok(Took { ns, cpu_us: cpu.as_secs_f64() * 1e6 / count })
    }

    /// Writes a batch, and reads what it must answer.
    fn exchange(&mut self, operations: &[Operation]) -> Result<(), Failure> {
        let batch = match self.protocol {
            Protocol::Redis => redis(operations),
            Protocol::Memcached => memcached(operations),
        };
        self.socket.write_all(&batch.asked)?;
        let mut told = vec![0; batch.told];
        self.socket.read_exact(&mut told)?;
        if batch.is_right(&told) {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&told[..told.len().min(200)]);
        Err(Failure::Node(format!("{} answers otherwise: {told}", self.name)))
    }
}

/// What is written of a batch, and what has to come back.
struct Batch {
    asked: Vec<u8>,
    /// How many bytes.
    told: usize,
    /// What some of them are.
    parts: Vec<(usize, Vec<u8>)>,
}

impl Batch {
    fn new(operations: usize) -> Batch {
        let parts = Vec::with_capacity(2 * operations);
        Batch { asked: Vec::with_capacity(160 * operations), told: 0, parts }
    }

    /// These bytes come next, and behind them so many others.
    fn expect(&mut self, bytes: Vec<u8>, others: usize) {
        let length = bytes.len();
        self.parts.push((self.told, bytes));
        self.told += length + others;
    }

    fn is_right(&self, told: &[u8]) -> bool {
        self.parts.iter().all(|(at, bytes)| told[*at..].starts_with(bytes))
    }
}

fn redis(operations: &[Operation]) -> Batch {
    let mut batch = Batch::new(operations.len());
    for (key, writes) in operations {
        let key = name(*key);
        match writes {
            None => {
                batch.asked.extend(b"*2\r\n$3\r\nGET\r\n$16\r\n");
                batch.asked.extend(key.as_bytes());
                batch.asked.extend(b"\r\n");
                batch.expect(format!("$64\r\n{key}").into_bytes(), VALUE - key.len() + 2);
            }
            Some(number) => {
                batch.asked.extend(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                batch.asked.extend(key.as_bytes());
                batch.asked.extend(b"\r\n$64\r\n");
                batch.asked.extend(value(&key, *number));
                batch.asked.extend(b"\r\n");
                batch.expect(b"+OK\r\n".into(), 0);
            }
        }
    }
    batch
}

fn memcached(operations: &[Operation]) -> Batch {
    let mut batch = Batch::new(operations.len());
    let mut reads = operations.iter().filter(|it| it.1.is_none()).peekable();
    if reads.peek().is_some() {
        batch.asked.extend(b"get");
        for (key, _) in reads {
            let key = name(*key);
            batch.asked.push(b' ');
            batch.asked.extend(key.as_bytes());
            let head = format!("VALUE {key} 0 64\r\n{key}").into_bytes();
            batch.expect(head, VALUE - key.len() + 2);
        }
        batch.asked.extend(b"\r\n");
        batch.expect(b"END\r\n".into(), 0);
    }
    for (key, writes) in operations {
        let Some(number) = writes else { continue };
        let key = name(*key);
        batch.asked.extend(format!("set {key} 0 0 64\r\n").as_bytes());
        batch.asked.extend(value(&key, *number));
        batch.asked.extend(b"\r\n");
        batch.expect(b"STORED\r\n".into(), 0);
    }
    batch
}

fn name(key: u64) -> String {
    format!("key:{key:012}")
}

/// A value begins with its key, and goes on with the number of its write.
fn value(key: &str, number: u64) -> [u8; VALUE] {
    let mut value = [0x5a; VALUE];
    value[..key.len()].copy_from_slice(key.as_bytes());
    value[key.len()..key.len() + 8].copy_from_slice(&number.to_le_bytes());
    value
}

fn connect(path: &Path, process: &mut Child) -> Result<UnixStream, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(socket) => return Ok(socket),
            Err(error) if Instant::now() > deadline => return Err(error.to_string()),
            Err(_) => thread::sleep(LOOK),
        }
        if let Ok(Some(status)) = process.try_wait() {
            return Err(format!("it ended ({status})"));
        }
    }
}

/// Numbers without a pattern.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_looked_at() {
        let value = String::from_utf8_lossy(&value("key:000000000007", 0x41)).into_owned();
        let batch = redis(&[(7, None), (8, Some(1))]);
        let told = format!("$64\r\n{value}\r\n+OK\r\n");
        assert_eq!((batch.told, batch.is_right(told.as_bytes())), (told.len(), true));
        assert!(!batch.is_right(told.replace(":00", ":10").as_bytes()));
        let batch = memcached(&[(8, Some(1)), (7, None)]);
        let told = format!("VALUE key:000000000007 0 64\r\n{value}\r\nEND\r\nSTORED\r\n");
        assert_eq!((batch.told, batch.is_right(told.as_bytes())), (told.len(), true));
        assert!(!batch.is_right(told.replace("STORED", "ERRORS").as_bytes()));
    }
}
