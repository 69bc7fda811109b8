//! Finding an instance among 10,000 by type and two keywords, beside one lookup in a `BTreeMap` of
//! the same size with numbers as keys; and the memory that an instance takes, beside a plain list
//! of the same descriptions.
//!
//! How the instances lie: in `registry-find` there are 100 types of 100 instances, with 32 words a
//! type; in `registry-find-one-type` all are of one type, with 1,000 words. Every instance has
//! four words with weights from 1 to 10. How often a word is used, by instances and by queries,
//! falls with its rank as in natural language (Zipf): the first word of the one type is had by
//! about half of the 10,000, most words by less than one in a hundred. Queries and keys are
//! visited in random order.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;

use nile_abi::{CoreId, NodeId};
use nile_registry::{
    Attribute, Keyword, Layer, NewInstance, Place, Query, Registry, ServiceType, TypeQuery,
};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::rounds::contest;

/// Instances of a registry, and entries of the map.
const INSTANCES: usize = 10_000;

/// Words of an instance.
const WORDS: usize = 4;

/// Queries and lookups of a round, of 10,000 different ones each.
const QUERIES: u32 = 1000;

/// Registries whose memory is measured together, so that whole pages are exact enough.
const REGISTRIES: usize = 10;

const SUBSYSTEM: &str = "benchmarks";

/// How many types there are, and how many words a type has.
#[derive(Clone, Copy)]
struct Shape {
    types: usize,
    vocabulary: usize,
}

const MANY_TYPES: Shape = Shape { types: 100, vocabulary: 32 };
const ONE_TYPE: Shape = Shape { types: 1, vocabulary: 1000 };

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    // First, while nothing has been freed that could be used again.
    let memory = memory(mode)?;
    let find = find(mode, "registry-find", MANY_TYPES);
    Ok(vec![find, self::find(mode, "registry-find-one-type", ONE_TYPE), memory])
}

/// An instance, and its type's number.
type Description = (usize, NewInstance);

/// A query: its capability and its two words.
type Wanted = (String, [String; 2]);

fn find(mode: Mode, name: &str, shape: Shape) -> Figure {
    let mut random = Random(1);
    let zipf = Zipf::new(shape.vocabulary);
    let descriptions = descriptions(shape, &zipf, &mut random);
    let registry = registry(shape, &descriptions);
    let queries: Vec<Wanted> = (0..INSTANCES)
        .map(|_| {
            let ty = random.below(shape.types);
            (capability(ty), [(); 2].map(|()| word(zipf.draw(&mut random))))
        })
        .collect();
    let map: BTreeMap<u64, usize> = (0..INSTANCES).map(|at| (random.next(), at)).collect();
    let mut keys: Vec<u64> = map.keys().copied().collect();
    keys.sort_by_cached_key(|_| random.next());
    let mut keys = keys.iter().cycle();
    let mut queries = queries.iter().cycle();

    let rounds = if mode == Mode::Control { 2 } else { 200 };
    let mut ours: Box<dyn FnMut()> = match mode {
        Mode::Real => Box::new(|| {
            for (capability, [one, two]) in queries.by_ref().take(QUERIES as usize) {
                let words = [one.as_str(), two];
                let ty = TypeQuery::Capability(SUBSYSTEM, capability);
                let query = Query::of(ty).keywords(&words);
                black_box(registry.find(black_box(&query)).is_ok());
            }
        }),
        // The control has no index.
        Mode::Control => Box::new(|| {
            for wanted in queries.by_ref().take(QUERIES as usize) {
                black_box(search(&descriptions, black_box(wanted)));
            }
        }),
    };
    let mut peer = || {
        for key in keys.by_ref().take(QUERIES as usize) {
            black_box(map.get(black_box(key)));
        }
    };
    let times = contest(rounds, QUERIES, &mut [&mut *ours, &mut peer]);
    eprintln!("  {name}: find {:.0} ns, BTreeMap {:.0} ns", times.median(0), times.median(1));
    let peer = Peer { name: "BTreeMap lookup".into(), value: times.median(1) };
    Figure::with_ratio(name, "ns", times.median(0), peer, times.ratio(0, 1), Target::AtMost(20.0))
}

/// The best of all instances, looked at one by one.
fn search(descriptions: &[Description], (capability, words): &Wanted) -> Option<usize> {
    let score = |(ty, new): &Description| -> u32 {
        let is_wanted = |keyword: &&Keyword| words.iter().any(|word| keyword.word == *word);
        let matched = new.keywords.iter().filter(is_wanted);
        let score = matched.map(|keyword| u32::from(keyword.weight)).sum();
        if self::capability(*ty) == *capability { score } else { 0 }
    };
    (0..descriptions.len()).max_by_key(|at| score(&descriptions[*at]))
}

/// The bytes that an instance takes. The control gives every instance a registry of its own.
fn memory(mode: Mode) -> Result<Figure, Failure> {
    let shape = MANY_TYPES;
    let mut random = Random(2);
    let descriptions = descriptions(shape, &Zipf::new(shape.vocabulary), &mut random);
    let per_instance = |bytes: u64| bytes as f64 / (REGISTRIES * INSTANCES) as f64;
    let (lists, list) = growth(|| vec![descriptions.clone(); REGISTRIES])?;
    let (registries, ours) = growth(|| match mode {
        Mode::Real => (0..REGISTRIES).map(|_| registry(shape, &descriptions)).collect(),
        Mode::Control => {
            let each = descriptions.iter().map(|one| registry(shape, std::slice::from_ref(one)));
            // A tenth of them is enough to see.
            each.take(INSTANCES / 10).collect::<Vec<_>>()
        }
    })?;
    let published: usize = registries.iter().map(Registry::instance_count).sum();
    let ours = ours as f64 / published as f64;
    drop((lists, registries));
    eprintln!("  registry-memory: {ours:.0} bytes an instance, its description included");
    let peer = Peer { name: "list of descriptions".into(), value: per_instance(list) };
    Ok(Figure::new("registry-memory", "bytes", ours, peer, Target::AtMost(3.0)))
}

/// What `make` makes, and by how many bytes this process grew meanwhile.
fn growth<T>(make: impl FnOnce() -> T) -> Result<(T, u64), Failure> {
    let before = resident()?;
    let made = make();
    Ok((made, resident()?.saturating_sub(before)))
}

/// The bytes of this process that are in memory.
fn resident() -> Result<u64, Failure> {
    let sizes = fs::read_to_string("/proc/self/statm")?;
    let pages = sizes.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * rustix::param::page_size() as u64)
}

fn registry(shape: Shape, descriptions: &[Description]) -> Registry {
    let mut registry = Registry::new();
    let types: Vec<_> = (0..shape.types)
        .map(|ty| registry.register(service_type(ty)).expect("the types differ"))
        .collect();
    for (at, (ty, new)) in descriptions.iter().enumerate() {
        let place = Place { node: NodeId(1), core: CoreId((at % 64) as u16) };
        registry.publish(types[*ty], new.clone(), place).expect("the instances differ");
    }
    registry
}

fn service_type(ty: usize) -> ServiceType {
    ServiceType {
        name: capability(ty).into(),
        subsystem: SUBSYSTEM.into(),
        capability: capability(ty).into(),
        layer: Layer::High,
        extends: None,
        description: "".into(),
        profile: nile_bosml::schema::Service {
            name: capability(ty).into(),
            doc: "".into(),
            methods: Vec::new().into(),
        },
        state: Vec::new().into(),
        attributes: Vec::new().into(),
        parameters: Vec::new().into(),
        default_instance: None,
    }
}

fn descriptions(shape: Shape, zipf: &Zipf, random: &mut Random) -> Vec<Description> {
    let describe = |at: usize| {
        let mut words = Vec::new();
        while words.len() < WORDS {
            let word = zipf.draw(random);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let weight = |random: &mut Random| 1 + random.below(10) as u16;
        let keywords =
            words.into_iter().map(|at| Keyword { word: word(at).into(), weight: weight(random) });
        let new = NewInstance {
            name: format!("instance-{at}").into(),
            working: "serves what it is asked".into(),
            keywords: keywords.collect(),
            attributes: vec![Attribute::int("size", at as i64)].into(),
        };
        (at % shape.types, new)
    };
    (0..INSTANCES).map(describe).collect()
}

fn capability(ty: usize) -> String {
    format!("capability-{ty}")
}

fn word(at: usize) -> String {
    format!("keyword-{at}")
}

/// Ranks that are drawn as often as words are used: the one at rank r as 1/r.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(ranks: usize) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=ranks).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let all = self.0.last().copied().unwrap_or(0.0);
        let at = random.next() as f64 / u64::MAX as f64 * all;
        self.0.partition_point(|sum| *sum < at).min(self.0.len() - 1)
    }
}

/// SplitMix64: the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
