//! A whole graph as bytes: records, one after the other, each behind its length. Edges stand by
//! the vertices that they lead to, where they come from sorted and told by the steps between; a
//! vertex is told by its place, and a source by its place among all sources.
//!
//! What is saved is a level of edges. It is built while events come: all that its sources had said
//! when it was begun is in, and of what came since, some. Sources are saved as they were at the
//! beginning, so that this is taken again; an edge that has an event's stamp stays as it is.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::bytes::{Damaged, Read, Reader, put, put_step};
use crate::edges::{Edges, Level, Vertex};
use crate::event::Stamp;
use crate::graph::{Graph, Settings};
use crate::part::Part;
use crate::segment::Reject;
use crate::sources::{Sources, save_silent};

/// The version of the bytes.
const VERSION: u64 = 1;

/// A record has about so many bytes, and never as many as twice.
const RECORD: usize = 16 << 10;

/// What is saved beside the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keeping {
    /// A number that no other graph ever had.
    pub graph: u64,
    /// On how many nodes each part is.
    pub copies: u8,
    /// The first record of the log that is not in.
    pub cut: u64,
}

const HEAD: u8 = 0;
const SOURCES: u8 = 1;
const REJECTS: u8 = 2;
const NAMES: u8 = 3;
const EDGES: u8 = 4;
const GONE: u8 = 5;
const END: u8 = 6;

/// A generation whose edges are being built: the rest as it was when that began.
pub struct Begun {
    keeping: Keeping,
    taken: u64,
    refused: u64,
    /// Records of sources and rejects.
    ready: VecDeque<Vec<u8>>,
    /// Sources, in the order in which they are saved.
    sources: Vec<u64>,
}

impl Begun {
    /// Of a graph in which all that was taken is in.
    pub(crate) fn new(graph: &Graph, keeping: Keeping) -> Begun {
        let mut ready = VecDeque::new();
        let mut run = Run::new(SOURCES);
        graph.sources.save(|put| run.item(&mut ready, put));
        run.end(&mut ready);
        let mut run = Run::new(REJECTS);
        for (source, reject) in graph.rejects() {
            run.item(&mut ready, |bytes| {
                put(bytes, source);
                reject.encode(bytes);
            });
        }
        run.end(&mut ready);
        let sources = graph.sources.numbers().collect();
        Begun { keeping, taken: graph.taken, refused: graph.refused, ready, sources }
    }
}

/// A generation on its way out.
pub struct Saving {
    ready: VecDeque<Vec<u8>>,
    /// The places of sources, by their numbers.
    sources: BTreeMap<u64, u64>,
    named: usize,
    edged: usize,
    vertices: usize,
    is_over: bool,
    keeping: Keeping,
}

impl Saving {
    /// What is beside the graph.
    pub fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// Of a graph whose level is whole.
    pub(crate) fn new(begun: Begun, graph: &Graph) -> Saving {
        let Begun { keeping, taken, refused, mut ready, mut sources } = begun;
        let (vertices, _) = graph.edges.level_size();
        let mut head = Vec::from([HEAD]);
        put(&mut head, VERSION);
        head.extend_from_slice(&keeping.graph.to_le_bytes());
        let Settings { error, patience, vertices: most, edges, part } = graph.settings;
        let numbers = [keeping.copies.into(), keeping.cut, error, patience, most as u64, edges];
        let counts = [taken, refused, vertices as u64];
        numbers.into_iter().chain(counts).for_each(|number| put(&mut head, number));
        if part.is_divided() {
            [part.number, part.of].iter().for_each(|it| put(&mut head, u64::from(*it)));
        }
        ready.push_front(framed(head));
        // Some edges are of sources that had said nothing when it was begun.
        let known = sources.len();
        let mut places: BTreeMap<u64, u64> = sources.iter().copied().zip(0..).collect();
        sources.extend(graph.sources.numbers().filter(|it| !places.contains_key(it)));
        let mut run = Run::new(SOURCES);
        for (number, place) in sources.iter().copied().zip(0..).skip(known) {
            places.insert(number, place);
            run.item(&mut ready, |bytes| save_silent(bytes, number));
        }
        run.end(&mut ready);
        let mut run = Run::new(GONE);
        for ((to, from), stamp) in graph.edges.gone() {
            run.item(&mut ready, |bytes| {
                put(bytes, u64::from(*to));
                put(bytes, u64::from(*from));
                put_stamp(bytes, &places, stamp, 0);
            });
        }
        run.end(&mut ready);
        let (named, edged, is_over) = (0, 0, false);
        Saving { ready, sources: places, named, edged, vertices, is_over, keeping }
    }

    /// The next bytes, some thousands of them; `None` behind the last.
    pub fn next(&mut self, graph: &Graph) -> Option<Vec<u8>> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        if self.named < self.vertices {
            let mut bytes = Vec::from([NAMES]);
            while self.named < self.vertices && bytes.len() < RECORD {
                put(&mut bytes, graph.edges.name(self.named as Vertex).unwrap_or(0));
                self.named += 1;
            }
            return Some(framed(bytes));
        }
        if self.edged < self.vertices {
            return Some(self.edges(graph));
        }
        if core::mem::replace(&mut self.is_over, true) {
            return None;
        }
        let mut bytes = Vec::from([END]);
        put(&mut bytes, graph.edges.level_size().1 as u64);
        Some(framed(bytes))
    }

    /// Vertices in a row. One with more edges than a record has room for goes on in the next.
    fn edges(&mut self, graph: &Graph) -> Vec<u8> {
        let mut bytes = Vec::from([EDGES]);
        put(&mut bytes, self.edged as u64);
        while self.edged < self.vertices && bytes.len() < RECORD {
            let (count, edges) = graph.edges.level(self.edged as Vertex);
            put(&mut bytes, count as u64);
            let (mut from_before, mut time) = (0, 0);
            for (from, stamp) in edges {
                put(&mut bytes, u64::from(from - from_before));
                put_stamp(&mut bytes, &self.sources, &stamp, time);
                (from_before, time) = (from, stamp.time);
            }
            self.edged += 1;
        }
        framed(bytes)
    }
}

/// Items of one kind, in as many records as they need.
struct Run {
    kind: u8,
    bytes: Vec<u8>,
}

impl Run {
    fn new(kind: u8) -> Run {
        Run { kind, bytes: Vec::from([kind]) }
    }

    fn item(&mut self, ready: &mut VecDeque<Vec<u8>>, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.bytes);
        if self.bytes.len() >= RECORD {
            let full = core::mem::replace(&mut self.bytes, Vec::from([self.kind]));
            ready.push_back(framed(full));
        }
    }

    fn end(self, ready: &mut VecDeque<Vec<u8>>) {
        if self.bytes.len() > 1 {
            ready.push_back(framed(self.bytes));
        }
    }
}

fn framed(record: Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(record.len() + 4);
    bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&record);
    bytes
}

fn put_stamp(bytes: &mut Vec<u8>, places: &BTreeMap<u64, u64>, stamp: &Stamp, time: u64) {
    put_step(bytes, time, stamp.time);
    // Every stamp is of a source that is known.
    put(bytes, places.get(&stamp.source).copied().unwrap_or(0));
    put(bytes, stamp.sequence);
}

/// A generation on its way in.
#[derive(Default)]
pub struct Loading {
    bytes: Vec<u8>,
    head: Option<(Settings, Keeping)>,
    counts: [u64; 3],
    sources: Option<Sources>,
    numbers: Vec<u64>,
    rejects: BTreeMap<(u64, u64), Reject>,
    names: Vec<u64>,
    level: Level,
    gone: BTreeMap<(Vertex, Vertex), Stamp>,
    is_over: bool,
}

impl Loading {
    /// The next bytes, however they are cut.
    pub fn add(&mut self, bytes: &[u8]) -> Read<()> {
        self.bytes.extend_from_slice(bytes);
        let all = core::mem::take(&mut self.bytes);
        let mut rest = &all[..];
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let Some((record, behind)) = behind.split_at_checked(length) else { break };
            self.record(record)?;
            rest = behind;
        }
        self.bytes = rest.to_vec();
        Ok(())
    }

    fn record(&mut self, record: &[u8]) -> Read<()> {
        let mut reader = Reader(record);
        let kind = reader.bytes(1)?[0];
        if (kind == HEAD) != self.head.is_none() || self.is_over {
            return Err(Damaged("its parts are not in their order"));
        }
        match kind {
            HEAD => self.begin(&mut reader)?,
            NAMES => {
                while !reader.is_over() {
                    self.names.push(reader.number()?);
                }
            }
            EDGES => self.edges(&mut reader)?,
            END => {
                let edges = reader.number()?;
                let is_whole = edges == self.level.edges() as u64
                    && self.names.len() as u64 == self.counts[2]
                    && self.level.vertices() == self.names.len();
                if !is_whole {
                    return Err(Damaged("edges or vertices are missing"));
                }
                self.is_over = true;
            }
            SOURCES => {
                let sources = self.sources.as_mut().ok_or(Damaged("it has no head"))?;
                while !reader.is_over() {
                    self.numbers.push(sources.restore(&mut reader)?);
                }
            }
            REJECTS => {
                while !reader.is_over() {
                    let source = reader.number()?;
                    let reject = Reject::decode(&mut reader)?;
                    self.rejects.insert((source, reject.sequence), reject);
                }
            }
            GONE => {
                while !reader.is_over() {
                    let (to, from) = (vertex(&mut reader)?, vertex(&mut reader)?);
                    let stamp = self.stamp(&mut reader, 0)?;
                    self.gone.insert((to, from), stamp);
                }
            }
            _ => return Err(Damaged("a part is of an unknown kind")),
        }
        Ok(())
    }

    fn begin(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        if reader.number()? != VERSION {
            return Err(Damaged("the generation is of another version"));
        }
        let graph = reader.bytes(8)?.try_into().map(u64::from_le_bytes);
        let graph = graph.map_err(|_| Damaged("it ends too early"))?;
        let copies = u8::try_from(reader.number()?).map_err(|_| Damaged("too many copies"))?;
        let cut = reader.number()?;
        let (error, patience) = (reader.number()?, reader.number()?);
        let vertices = usize::try_from(reader.number()?).map_err(|_| Damaged("it is too large"))?;
        let edges = reader.number()?;
        for count in &mut self.counts {
            *count = reader.number()?;
        }
        let part = if reader.is_over() { Part::ALL } else { part(reader)? };
        let settings = Settings { error, patience, vertices, edges, part };
        self.sources = Some(Sources::new(patience));
        self.head = Some((settings, Keeping { graph, copies, cut }));
        Ok(())
    }

    fn edges(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        if reader.number()? != self.level.vertices() as u64 {
            return Err(Damaged("a vertex is missing"));
        }
        while !reader.is_over() {
            let (mut from, mut time) = (0, 0);
            for _ in 0..reader.count()? {
                from += u64::from(vertex(reader)?);
                let stamp = self.stamp(reader, time)?;
                let place =
                    Vertex::try_from(from).map_err(|_| Damaged("there is no such vertex"))?;
                self.level.push(place, stamp);
                time = stamp.time;
            }
            self.level.end_vertex();
        }
        Ok(())
    }

    fn stamp(&self, reader: &mut Reader<'_>, time: u64) -> Read<Stamp> {
        let time = reader.step(time)?;
        let source = usize::try_from(reader.number()?).ok();
        let source = source.and_then(|at| self.numbers.get(at).copied());
        let source = source.ok_or(Damaged("a stamp is of no source"))?;
        Ok(Stamp { time, source, sequence: reader.number()? })
    }

    /// The graph, when all has come.
    pub fn finish(self) -> Read<(Graph, Keeping)> {
        let Loading { head, counts, sources, rejects, names, level, gone, is_over, .. } = self;
        let (Some((settings, keeping)), Some(sources), true) = (head, sources, is_over) else {
            return Err(Damaged("its end is missing"));
        };
        let edges = Edges::restore(names, level, gone)?;
        let [taken, refused, _] = counts;
        let graph = Graph::restore(settings, sources, edges, rejects, (taken, refused));
        Ok((graph, keeping))
    }
}

fn part(reader: &mut Reader<'_>) -> Read<Part> {
    let mut number =
        || u32::try_from(reader.number()?).map_err(|_| Damaged("there is no such part"));
    let part = Part { number: number()?, of: number()? };
    match part.number < part.of && part.is_divided() {
        true => Ok(part),
        false => Err(Damaged("there is no such part")),
    }
}

fn vertex(reader: &mut Reader<'_>) -> Read<Vertex> {
    Vertex::try_from(reader.number()?).map_err(|_| Damaged("there is no such vertex"))
}
