//! Kafka's protocol, as far as producers need it: a connection asks for versions and topics, for a
//! number, and gives batches. A topic is a graph with one partition. See docs/streaming.md.

mod batch;
mod unpack;
mod wire;

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nile_interfaces::graph::{Acknowledgement, EdgeEvent, OfferedEvents, RejectedEvent};

use super::deliver::{Delivery, Undelivered, Wish, wish};
use super::random;
use crate::graph::lines;
use batch::{Batch, Record, Refused};
use wire::{Malformed, Read, Reader, Writer};

/// The most bytes of a request.
const MOST: usize = 16 << 20;

/// How long a connection may be silent, and how long an answer may take to be read.
const SILENCE: Duration = Duration::from_secs(600);
const SLOW: Duration = Duration::from_secs(30);

/// The most pairs of graph and source of which a connection remembers how far they are.
const MOST_MARKS: usize = 1024;

/// Sequences of producers begin again behind so many.
const ROUND: u64 = 1 << 31;

/// What may be asked for: number, and versions from and to. Later ones have another encoding, and
/// clients take the latest that both know.
const PRODUCE: (i16, i16, i16) = (0, 3, 8);
const METADATA: (i16, i16, i16) = (3, 0, 8);
const VERSIONS: (i16, i16, i16) = (18, 0, 2);
const INIT_PRODUCER: (i16, i16, i16) = (22, 0, 1);
/// Nobody may read and there are no groups, but librdkafka writes the format of today only
/// to brokers that know the one, and packs with LZ4 only for those that know the other.
const FETCH: (i16, i16, i16) = (1, 4, 4);
const COORDINATOR: (i16, i16, i16) = (10, 0, 0);
const ALL: [(i16, i16, i16); 6] = [PRODUCE, FETCH, METADATA, COORDINATOR, VERSIONS, INIT_PRODUCER];

/// Kafka's numbers of errors.
mod error {
    pub const NONE: i16 = 0;
    pub const CORRUPT_MESSAGE: i16 = 2;
    pub const UNKNOWN_TOPIC: i16 = 3;
    pub const NO_LEADER: i16 = 5;
    pub const NOT_LEADER: i16 = 6;
    pub const TOO_LARGE: i16 = 10;
    pub const INVALID_ACKS: i16 = 21;
    pub const NO_READING: i16 = 29;
    pub const NO_GROUPS: i16 = 30;
    pub const UNSUPPORTED_VERSION: i16 = 35;
    pub const UNSUPPORTED_FORMAT: i16 = 43;
    pub const OUT_OF_ORDER: i16 = 45;
    pub const NO_TRANSACTIONS: i16 = 53;
    pub const STORAGE: i16 = 56;
    pub const UNSUPPORTED_COMPRESSION: i16 = 76;
}

/// The only broker, and the only partition.
const BROKER: i32 = 0;
const PARTITION: i32 = 0;

/// Answers whoever is at the other end, until they go. They are told that the broker is at `told`,
/// or where they have come to.
pub fn serve(
    mut stream: TcpStream,
    told: Option<SocketAddr>,
    wishes: Sender<Wish>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SLOW))?;
    let here = told.map_or_else(|| stream.local_addr(), Ok)?;
    // Numbers of producers have a bit less.
    let own = random()? | 1 << 63;
    let mut connection = Connection { here, wishes, own, sent: 0, marks: HashMap::new() };
    while let Some(request) = request(&mut stream)? {
        let broken = || io::Error::new(ErrorKind::InvalidData, "this is no request of a producer");
        let answer = connection.answer(&request).map_err(|Malformed| broken())?;
        if let Some(answer) = answer {
            stream.write_all(&(answer.0.len() as u32).to_be_bytes())?;
            stream.write_all(&answer.0)?;
        }
    }
    Ok(())
}

/// The next request; none if the other end has closed.
fn request(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MOST {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut request = Vec::new();
    // Room is made as it comes.
    stream.take(length as u64).read_to_end(&mut request)?;
    Ok((request.len() == length).then_some(request))
}

struct Connection {
    here: SocketAddr,
    wishes: Sender<Wish>,
    /// The source of what has no producer's number, and how much that was.
    own: u64,
    sent: u64,
    /// By graph and source, the first event that the graph lacks.
    marks: HashMap<(String, u64), u64>,
}

/// What became of a batch: an error, the number of its first event in its source, and a reason.
type Told = Result<u64, (i16, String)>;

impl Connection {
    /// Answers a request; none if no answer is wanted.
    fn answer(&mut self, request: &[u8]) -> Read<Option<Writer>> {
        let mut reader = Reader(request);
        let (what, version, number) = (reader.i16()?, reader.i16()?, reader.i32()?);
        let mut answer = Writer::default();
        answer.i32(number);
        let known = ALL.into_iter().find(|(it, ..)| *it == what).ok_or(Malformed)?;
        if version < known.1 || version > known.2 {
            // Whoever asks for versions is told, in the first encoding; others have not asked.
            return match what == VERSIONS.0 {
                true => {
                    versions(&mut answer, error::UNSUPPORTED_VERSION, 0);
                    Ok(Some(answer))
                }
                false => Err(Malformed),
            };
        }
        let _client = reader.text()?;
        match known {
            VERSIONS => versions(&mut answer, error::NONE, version),
            METADATA => self.metadata(&mut reader, &mut answer, version)?,
            INIT_PRODUCER => init_producer(&mut reader, &mut answer)?,
            FETCH => fetch(&mut reader, &mut answer)?,
            COORDINATOR => {
                answer.i16(error::NO_GROUPS).i32(-1).text(Some("")).i32(-1);
            }
            _ => {
                let wants_answer = self.produce(&mut reader, &mut answer, version)?;
                return Ok(wants_answer.then_some(answer));
            }
        }
        Ok(Some(answer))
    }

    fn metadata(&self, reader: &mut Reader<'_>, answer: &mut Writer, version: i16) -> Read<()> {
        let asked = reader.array(|it| it.text()?.map(String::from).ok_or(Malformed))?;
        // None and, in the first version, no topic are all.
        let asked = asked.filter(|topics| version > 0 || !topics.is_empty());
        let graphs = wish(&self.wishes, Wish::Graphs);
        let topics: Vec<(i16, String)> = match (asked, graphs) {
            (None, graphs) => {
                let all = graphs.unwrap_or_default().names.into_iter();
                all.map(|it| (error::NONE, it)).collect()
            }
            (Some(asked), graphs) => {
                let error_of = |topic: &String| match &graphs {
                    Ok(graphs) if graphs.names.contains(topic) => error::NONE,
                    Ok(graphs) if !graphs.is_part => error::UNKNOWN_TOPIC,
                    _ => error::NO_LEADER,
                };
                asked.into_iter().map(|it| (error_of(&it), it)).collect()
            }
        };
        if version >= 3 {
            answer.i32(0);
        }
        answer.array([()].iter(), |answer, ()| {
            answer.i32(BROKER).text(Some(&self.here.ip().to_string()));
            answer.i32(self.here.port().into());
            if version >= 1 {
                answer.text(None);
            }
        });
        if version >= 2 {
            answer.text(Some("nileos"));
        }
        if version >= 1 {
            answer.i32(BROKER);
        }
        answer.array(topics.iter(), |answer, (error, topic)| {
            answer.i16(*error).text(Some(topic));
            if version >= 1 {
                answer.bool(false);
            }
            let partitions = if *error == error::NONE { 1 } else { 0 };
            answer.array([(); 1][..partitions].iter(), |answer, ()| {
                answer.i16(error::NONE).i32(PARTITION).i32(BROKER);
                if version >= 7 {
                    answer.i32(-1);
                }
                let brokers = [BROKER];
                answer.array(brokers.iter(), |answer, it| {
                    answer.i32(*it);
                });
                answer.array(brokers.iter(), |answer, it| {
                    answer.i32(*it);
                });
                if version >= 5 {
                    answer.i32(0);
                }
            });
            if version >= 8 {
                answer.i32(i32::MIN);
            }
        });
        if version >= 8 {
            answer.i32(i32::MIN);
        }
        Ok(())
    }

    /// Whether an answer is wanted.
    fn produce(
        &mut self,
        reader: &mut Reader<'_>,
        answer: &mut Writer,
        version: i16,
    ) -> Read<bool> {
        let transaction = reader.text()?;
        let acks = reader.i16()?;
        let _timeout_ms = reader.i32()?;
        let acknowledgement = match (acks, transaction) {
            (_, Some(_)) => Err((error::NO_TRANSACTIONS, "graphs have no transactions".into())),
            (0 | 1, _) => Ok(Acknowledgement::Taken),
            (-1, _) => Ok(Acknowledgement::Kept),
            _ => Err((error::INVALID_ACKS, format!("acks={acks}; 0, 1 or all"))),
        };
        let topics = reader.array(|reader| {
            let topic = reader.text()?.ok_or(Malformed)?;
            let partitions = reader.array(|reader| Ok((reader.i32()?, reader.blob()?)))?;
            Ok((topic, partitions.unwrap_or_default()))
        })?;
        let topics = topics.unwrap_or_default();
        answer.array(topics.iter(), |answer, (topic, partitions)| {
            answer.text(Some(topic));
            answer.array(partitions.iter(), |answer, (partition, bytes)| {
                let told = acknowledgement.clone().and_then(|acknowledgement| {
                    self.take(topic, *partition, bytes.unwrap_or_default(), acknowledgement)
                });
                let (error, first, why) = match told {
                    Ok(first) => (error::NONE, first as i64, None),
                    Err((error, why)) => (error, -1, Some(why)),
                };
                answer.i32(*partition).i16(error).i64(first).i64(-1);
                if version >= 5 {
                    answer.i64(0);
                }
                if version >= 8 {
                    answer.i32(0).text(why.as_deref());
                }
            });
        });
        answer.i32(0);
        Ok(acks != 0)
    }

    /// Gives a graph a batch.
    fn take(
        &mut self,
        graph: &str,
        partition: i32,
        bytes: &[u8],
        acknowledgement: Acknowledgement,
    ) -> Told {
        if partition != PARTITION {
            let why = format!("a graph has partition {PARTITION} alone");
            return Err((error::UNKNOWN_TOPIC, why));
        }
        let batch = batch::read(bytes).map_err(told_refused)?;
        let (source, first) = match batch.producer {
            None => (self.own, self.sent),
            Some((producer, epoch)) => {
                let source = (producer as u64) << 16 & !(1 << 63) | u64::from(epoch as u16);
                let mark = self.mark(graph, source).map_err(told_undelivered)?;
                (source, sequence(mark, batch.sequence))
            }
        };
        if batch.producer.is_none() {
            // Whatever becomes of it, it does not come again with these numbers.
            self.sent += batch.records.len() as u64;
        }
        let count = batch.records.len() as u64;
        let (events, rejects) = lines_of(batch, source, first);
        let graph_name = String::from(graph);
        let delivery = Delivery { graph: graph.into(), source, acknowledgement, events, rejects };
        let offered = wish(&self.wishes, |answer| Wish::Deliver(delivery, answer));
        let offered: OfferedEvents = offered.map_err(told_undelivered)?;
        if self.marks.len() >= MOST_MARKS {
            self.marks.clear();
        }
        self.marks.insert((graph_name, source), offered.next);
        if offered.ahead > 0 {
            let why = format!("the graph lacks what comes before: its next is {}", offered.next);
            return Err((error::OUT_OF_ORDER, why));
        }
        debug_assert!(offered.new + offered.known <= count);
        Ok(first)
    }

    /// The first event of a source that a graph lacks, or lacked when it was last heard of.
    fn mark(&self, graph: &str, source: u64) -> Result<u64, Undelivered> {
        match self.marks.get(&(graph.into(), source)) {
            Some(mark) => Ok(*mark),
            None => wish(&self.wishes, |answer| Wish::Next { graph: graph.into(), source, answer }),
        }
    }
}

fn versions(answer: &mut Writer, error: i16, version: i16) {
    answer.i16(error);
    answer.array(ALL.iter(), |answer, (what, from, to)| {
        answer.i16(*what).i16(*from).i16(*to);
    });
    if version >= 1 {
        answer.i32(0);
    }
}

/// Says of each partition that it is not to be read.
fn fetch(reader: &mut Reader<'_>, answer: &mut Writer) -> Read<()> {
    let _replica_and_limits = reader.bytes(17)?;
    let topics = reader.array(|reader| {
        let topic = reader.text()?.ok_or(Malformed)?;
        let partitions = reader.array(|reader| {
            let partition = reader.i32()?;
            reader.bytes(12)?;
            Ok(partition)
        })?;
        Ok((topic, partitions.unwrap_or_default()))
    })?;
    answer.i32(0);
    answer.array(topics.unwrap_or_default().iter(), |answer, (topic, partitions)| {
        answer.text(Some(topic));
        answer.array(partitions.iter(), |answer, partition| {
            answer.i32(*partition).i16(error::NO_READING).i64(-1).i64(-1);
            // No transaction was aborted, and there are no records.
            answer.i32(-1).i32(0);
        });
    });
    Ok(())
}

fn init_producer(reader: &mut Reader<'_>, answer: &mut Writer) -> Read<()> {
    let transaction = reader.text()?;
    answer.i32(0);
    // It becomes a source together with its epoch, of 16 bits.
    match (transaction, random()) {
        (None, Ok(number)) => answer.i16(error::NONE).i64((number >> 17) as i64).i16(0),
        (None, Err(_)) => answer.i16(error::NOT_LEADER).i64(-1).i16(-1),
        (Some(_), _) => answer.i16(error::NO_TRANSACTIONS).i64(-1).i16(-1),
    };
    Ok(())
}

/// The whole number of an event of which 31 bits are known, near this one.
fn sequence(near: u64, low: u32) -> u64 {
    let same = near / ROUND * ROUND + u64::from(low);
    let before = same.checked_sub(ROUND);
    let all = [Some(same), before, Some(same + ROUND)];
    all.into_iter().flatten().min_by_key(|it| it.abs_diff(near)).unwrap_or(same)
}

/// What records say, from this number on.
fn lines_of(batch: Batch, source: u64, first: u64) -> (Vec<EdgeEvent>, Vec<RejectedEvent>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_micros() as u64);
    let (mut events, mut rejects) = (Vec::new(), Vec::new());
    for (sequence, Record { time_ms, value }) in (first..).zip(batch.records) {
        let time = time_ms.map_or(now, |it| it.saturating_mul(1000));
        let text = value.ok_or("a message without a value").map(String::from_utf8);
        let (text, why) = match text {
            Ok(Ok(text)) => match lines::edge(&text, sequence, time) {
                Ok(Some(edge)) => {
                    events.push(edge);
                    continue;
                }
                Ok(None) => (text, "it is empty, or a comment".into()),
                Err(why) => (text, why),
            },
            Ok(Err(other)) => {
                (String::from_utf8_lossy(other.as_bytes()).into_owned(), "it is no UTF-8".into())
            }
            Err(why) => (String::new(), why.into()),
        };
        rejects.push(RejectedEvent { source, sequence, text, why });
    }
    (events, rejects)
}

fn told_refused(refused: Refused) -> (i16, String) {
    let (error, why) = match refused {
        Refused::Corrupt => (error::CORRUPT_MESSAGE, "this is no batch of records"),
        Refused::Format => (error::UNSUPPORTED_FORMAT, "records older than Kafka 0.11"),
        Refused::Packing => (error::UNSUPPORTED_COMPRESSION, "gzip, snappy, lz4 or zstd"),
        Refused::TooLarge => (error::TOO_LARGE, "more than 16 MiB of records"),
        Refused::Transaction => (error::NO_TRANSACTIONS, "graphs have no transactions"),
    };
    (error, why.into())
}

fn told_undelivered(undelivered: Undelivered) -> (i16, String) {
    match undelivered {
        Undelivered::NoGraph(why) => (error::UNKNOWN_TOPIC, why),
        // Clients look anew where the topic is, and say it again.
        Undelivered::Later(why) => (error::NOT_LEADER, why),
        Undelivered::Refused(why) => (error::STORAGE, why),
    }
}
