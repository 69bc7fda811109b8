//! Questions that the resolver of this machine has to answer: those of `/etc/resolv.conf`, one
//! after the other. Each question has a socket and a number of its own, which nobody can predict.

use std::collections::VecDeque;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use smoltcp::wire::IpEndpoint;

use super::dns;
use super::services::LONGEST;

/// Questions that may wait for an answer at once; others fail.
const MOST: usize = 64;

/// How long a resolver may take before the next one is asked, and how often all are.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;

/// Resolvers that are asked, as the C library does it (resolv.conf(5)).
const SERVERS: usize = 3;
const PORT: u16 = 53;

/// A question that waits.
struct Asked {
    socket: UdpSocket,
    number: u16,
    query: Vec<u8>,
    from: IpEndpoint,
    servers: VecDeque<SocketAddr>,
    until: Instant,
}

/// All of them.
pub struct Upstream {
    asked: Vec<Asked>,
    servers: Box<dyn Fn() -> Vec<SocketAddr> + Send>,
}

impl Upstream {
    /// Nobody has asked yet. `servers` gives the resolvers.
    pub fn new(servers: impl Fn() -> Vec<SocketAddr> + Send + 'static) -> Upstream {
        Upstream { asked: Vec::new(), servers: Box::new(servers) }
    }

    /// Asks a node's question. The answer if that is known at once: that it fails.
    pub fn ask(&mut self, query: &[u8], from: IpEndpoint) -> Option<Vec<u8>> {
        if self.asked.len() >= MOST {
            return Some(dns::failed(query));
        }
        let mut servers = VecDeque::from((self.servers)().repeat(ROUNDS));
        let number = RandomState::new().hash_one(query) as u16;
        let Some(socket) = send(&mut servers, query, number) else {
            return Some(dns::failed(query));
        };
        let (query, until) = (query.to_vec(), Instant::now() + PATIENCE);
        self.asked.push(Asked { socket, number, query, from, servers, until });
        None
    }

    /// The answers that have come, and whose they are.
    pub fn answers(&mut self) -> Vec<(IpEndpoint, Vec<u8>)> {
        let now = Instant::now();
        let mut answers = Vec::new();
        self.asked.retain_mut(|asked| {
            let answer = asked.answer(now);
            let is_over = answer.is_some();
            answers.extend(answer.map(|it| (asked.from, it)));
            !is_over
        });
        answers
    }

    /// The sockets that answers come to.
    pub fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.asked.iter().map(|it| &it.socket)
    }

    /// How long there is nothing to do unless an answer comes.
    pub fn patience(&self) -> Option<Duration> {
        let first = self.asked.iter().map(|it| it.until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }
}

impl Asked {
    /// Asks the next resolver; `false` if there is none.
    fn next(&mut self) -> bool {
        match send(&mut self.servers, &self.query, self.number) {
            Some(socket) => {
                (self.socket, self.until) = (socket, Instant::now() + PATIENCE);
                true
            }
            None => false,
        }
    }

    /// The answer, if there is one by now.
    fn answer(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut bytes = [0; 4096];
        loop {
            match self.socket.recv(&mut bytes) {
                Ok(count) => {
                    let answer = &mut bytes[..count];
                    if !dns::answers(answer, &self.query, self.number) {
                        continue;
                    }
                    if count > LONGEST {
                        return Some(dns::too_long(&self.query));
                    }
                    answer[..2].copy_from_slice(&self.query[..2]);
                    return Some(answer.to_vec());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && now < self.until => {
                    return None;
                }
                // It takes too long, or nobody is there.
                Err(_) if self.next() => return None,
                Err(_) => return Some(dns::failed(&self.query)),
            }
        }
    }
}

/// Sends a question to the first of the resolvers that it can be sent to, by a socket of its own.
fn send(servers: &mut VecDeque<SocketAddr>, query: &[u8], number: u16) -> Option<UdpSocket> {
    let mut query = query.to_vec();
    query[..2].copy_from_slice(&number.to_be_bytes());
    let send = |server: SocketAddr| -> io::Result<UdpSocket> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(server)?;
        socket.send(&query)?;
        Ok(socket)
    };
    std::iter::from_fn(|| servers.pop_front()).find_map(|server| send(server).ok())
}

/// The resolvers of this machine.
pub fn servers() -> Vec<SocketAddr> {
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let found = of_text(&text);
    let usual = || vec![(Ipv4Addr::LOCALHOST, PORT).into()];
    if found.is_empty() { usual() } else { found }
}

fn of_text(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let is_it = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| is_it)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    text.lines().filter_map(address).take(SERVERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::wire::IpAddress;

    const FROM: IpEndpoint = IpEndpoint { addr: IpAddress::v4(10, 42, 0, 1), port: 5000 };

    fn question() -> Vec<u8> {
        let name = simple_dns::Name::new("www.example.com").unwrap();
        let kind = simple_dns::QTYPE::TYPE(simple_dns::TYPE::A);
        let class = simple_dns::QCLASS::CLASS(simple_dns::CLASS::IN);
        let mut packet = simple_dns::Packet::new_query(0x1234);
        packet.questions.push(simple_dns::Question::new(name, kind, class, false));
        packet.build_bytes_vec().unwrap()
    }

    fn resolver() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let at = socket.local_addr().unwrap();
        (socket, at)
    }

    /// What comes of the questions, before it takes too long.
    fn outcome(upstream: &mut Upstream) -> Vec<(IpEndpoint, Vec<u8>)> {
        for _ in 0..2000 {
            let answers = upstream.answers();
            if !answers.is_empty() {
                return answers;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no answer in ten seconds");
    }

    #[test]
    fn a_question_has_the_answer_of_the_first_resolver_that_is_there() {
        let (gone, nobody) = resolver();
        drop(gone);
        let (socket, at) = resolver();
        let mut upstream = Upstream::new(move || vec![nobody, at]);
        let query = question();
        assert_eq!(upstream.ask(&query, FROM), None);
        // It is told that nobody is there, and asks the other one.
        assert!(upstream.patience().is_some());
        let answering = std::thread::spawn(move || {
            let mut bytes = [0; 512];
            let (count, from) = socket.recv_from(&mut bytes).unwrap();
            let answer = &mut bytes[..count];
            socket.send_to(b"noise", from).unwrap();
            answer[2] |= 0x80;
            socket.send_to(answer, from).unwrap();
            answer.to_vec()
        });
        let came = outcome(&mut upstream);
        let sent = answering.join().unwrap();
        assert_eq!(came.len(), 1);
        assert_eq!((came[0].0, &came[0].1[..2], &came[0].1[2..]), (FROM, &query[..2], &sent[2..]));
        assert_eq!((upstream.sockets().count(), upstream.patience()), (0, None));
    }

    #[test]
    fn a_question_fails_if_nobody_is_there_or_too_many_wait() {
        let (gone, nobody) = resolver();
        drop(gone);
        let mut upstream = Upstream::new(move || vec![nobody]);
        let query = question();
        let came = match upstream.ask(&query, FROM) {
            Some(answer) => answer,
            None => outcome(&mut upstream).remove(0).1,
        };
        assert_eq!(came, dns::failed(&query));
        let (silent, at) = resolver();
        let mut upstream = Upstream::new(move || vec![at]);
        for _ in 0..MOST {
            assert_eq!(upstream.ask(&query, FROM), None);
        }
        assert_eq!(upstream.ask(&query, FROM), Some(dns::failed(&query)));
        drop(silent);
        assert_eq!(Upstream::new(Vec::new).ask(&query, FROM), Some(dns::failed(&query)));
    }

    #[test]
    fn resolvers_are_read_as_the_c_library_reads_them() {
        let text = "# nameserver 1.1.1.1\nsearch a.b\nnameserver  10.0.0.1 \nnameserver ::1\n\
                    nameserver nonsense\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n";
        let found: Vec<String> = of_text(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:53", "[::1]:53", "10.0.0.2:53"]);
    }
}
