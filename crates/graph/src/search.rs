//! Searches through a graph that is divided: a component, whichever way edges go, or a distance
//! along them. Each part looks at its own edges, in *rounds* that somebody leads: in a round a part
//! goes on from what it was told in the one before, and tells the others which of their vertices it
//! has come to. When a round tells nothing, and nobody goes on, the search is over.
//!
//! **A distance** is searched from its end, as a part has the edges that lead to its vertices. In
//! round `n` it takes the edges to those vertices from which it is `n - 1` edges to the end; the
//! owners of the vertices that they come from are told.
//!
//! **A component.** A part first unites its vertices, and those of others from which its edges
//! come, as its own edges do. Of such a piece all is reached as soon as one vertex is. The owner of
//! a vertex is told that it is reached and counts it; then the owner tells all others, as edges
//! come from it that they have. So a component takes as many rounds as pieces lie one behind the
//! other.
//!
//! Edges may change meanwhile. A part looks at each edge once, as it is at that moment, and leaves
//! out vertices that it did not know when the search began. So what is found holds for a graph in
//! which each edge is as it was at some moment of the search: for the graph, if no edge changes
//! meanwhile.

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use crate::edges::{Edges, Vertex};
use crate::graph::Graph;
use crate::part::Part;
use crate::reach::root;

/// The next vertex of one whose piece was taken.
const TAKEN: Vertex = Vertex::MAX;

/// What is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// All vertices that are connected with this one.
    Component {
        /// The vertex.
        of: u64,
    },
    /// How many edges the shortest way between two vertices has.
    Distance {
        /// Where it begins.
        from: u64,
        /// Where it ends.
        to: u64,
    },
}

/// What a part has found, of its own vertices.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// Whether the vertex is known here at which the search began, whoever owns it.
    pub is_known: bool,
    /// How many vertices of the component this part owns.
    pub vertices: u64,
    /// The lowest of them.
    pub lowest: Option<u64>,
    /// How many edges the shortest way has, if this part owns its beginning and has come to it.
    pub distance: Option<u32>,
}

/// A search, of one part.
pub struct Search {
    part: Part,
    question: Question,
    /// The vertices that this part knew when the search began.
    vertices: usize,
    /// Vertices that were reached, each told to its owner or to go on from.
    reached: Vec<bool>,
    /// Those to go on from, and how many edges it is from there.
    waiting: VecDeque<(Vertex, u32)>,
    pieces: Pieces,
    /// Own vertices of a component that this part did not know.
    strange: BTreeSet<u64>,
    others: Vec<Other>,
    /// Own vertices of a component, of which all others are to be told.
    own: Vec<u64>,
    found: Found,
}

/// What another part is to be told.
#[derive(Clone, Default)]
struct Other {
    /// Vertices that it owns.
    names: Vec<u64>,
    /// How many of this part's own it has been told.
    told: usize,
}

/// Vertices that edges of this part unite.
#[derive(Default)]
struct Pieces {
    parents: Vec<Vertex>,
    /// The next vertex of the same piece, in a ring; [`TAKEN`] of pieces that were.
    next: Vec<Vertex>,
    /// Up to where edges are looked at.
    done: usize,
}

impl Search {
    /// Begins a search in a part.
    pub fn new(graph: &Graph, question: Question) -> Search {
        let (part, vertices) = (graph.settings.part, graph.edges.vertices());
        let mut search = Search {
            part,
            question,
            vertices,
            reached: vec![false; vertices],
            waiting: VecDeque::new(),
            pieces: Pieces::default(),
            strange: BTreeSet::new(),
            others: vec![Other::default(); part.of as usize],
            own: Vec::new(),
            found: Found::default(),
        };
        let first = match question {
            Question::Component { of } => {
                search.pieces = Pieces::new(vertices);
                of
            }
            Question::Distance { to, .. } => to,
        };
        search.found.is_known = graph.edges.find(first).is_some();
        search.reach(&graph.edges, first, 0);
        search
    }

    /// What has been found.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Another part has come to these vertices; it is so many edges from them to the end.
    pub fn tell(&mut self, graph: &Graph, names: &[u64], edges: u32) {
        names.iter().for_each(|it| self.reach(&graph.edges, *it, edges));
    }

    /// Goes on over about so many edges, from all to which it is fewer edges than `round` says.
    /// Whether there is more of that.
    pub fn step(&mut self, graph: &Graph, round: u32, most: usize) -> bool {
        let edges = &graph.edges;
        let mut done = 0;
        if !self.pieces.is_done() {
            self.pieces.unite(edges, most);
            return true;
        }
        while done < most {
            let Some((vertex, far)) = self.waiting.pop_front_if(|it| it.1 < round) else {
                return false;
            };
            done += 1;
            match self.question {
                Question::Component { .. } => done += self.flood(edges, vertex),
                Question::Distance { .. } => {
                    let mut froms = Vec::new();
                    edges.each_to(vertex, |from| froms.push(from));
                    done += froms.len();
                    for name in froms.into_iter().filter_map(|it| edges.name(it)) {
                        self.reach(edges, name, far + 1);
                    }
                }
            }
        }
        true
    }

    /// Whether this part goes on in the next round, also if it is told nothing.
    pub fn goes_on(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Vertices to which this part has come, at most so many, of which another is to be told.
    pub fn take(&mut self, to: u32, most: usize) -> Vec<u64> {
        let Other { names, told } = &mut self.others[to as usize];
        let mut taken = names.split_off(names.len() - names.len().min(most));
        let own = &self.own[*told..];
        let own = &own[..own.len().min(most - taken.len())];
        *told += own.len();
        taken.extend(own);
        taken
    }

    /// A vertex is reached, from which it is so many edges to the end.
    fn reach(&mut self, edges: &Edges, name: u64, far: u32) {
        let is_own = self.part.owns(name);
        if let Question::Distance { from, .. } = self.question
            && from == name
            && is_own
        {
            self.found.distance = self.found.distance.or(Some(far));
        }
        let place = edges.find(name).filter(|it| (*it as usize) < self.vertices);
        let Some(place) = place else {
            let is_counted = is_own && matches!(self.question, Question::Component { .. });
            if is_counted && self.strange.insert(name) {
                self.count(name);
            }
            return;
        };
        if mem::replace(&mut self.reached[place as usize], true) {
            return;
        }
        match self.question {
            Question::Component { .. } => self.waiting.push_back((place, 0)),
            Question::Distance { .. } if is_own => self.waiting.push_back((place, far)),
            Question::Distance { .. } => {
                self.others[self.part.owner(name) as usize].names.push(name)
            }
        }
    }

    /// All of the piece that a vertex is in is reached; how many vertices it has, if they were not.
    fn flood(&mut self, edges: &Edges, vertex: Vertex) -> usize {
        let mut count = 0;
        for member in self.pieces.take(vertex) {
            count += 1;
            let Some(name) = edges.name(member) else { continue };
            let was_told = mem::replace(&mut self.reached[member as usize], true);
            if self.part.owns(name) {
                self.count(name);
            } else if !was_told {
                self.others[self.part.owner(name) as usize].names.push(name);
            }
        }
        count
    }

    /// An own vertex is in the component.
    fn count(&mut self, name: u64) {
        let Found { vertices, lowest, .. } = self.found;
        self.found.vertices = vertices + 1;
        self.found.lowest = Some(lowest.map_or(name, |it| it.min(name)));
        self.own.push(name);
    }
}

impl Pieces {
    fn new(vertices: usize) -> Pieces {
        let each: Vec<Vertex> = (0..vertices as Vertex).collect();
        Pieces { parents: each.clone(), next: each, done: 0 }
    }

    fn is_done(&self) -> bool {
        self.done >= self.parents.len()
    }

    /// Looks at the edges to the next vertices, about so many.
    fn unite(&mut self, edges: &Edges, most: usize) {
        let mut seen = 0;
        while !self.is_done() && seen < most {
            let to = self.done as Vertex;
            let (parents, next) = (&mut self.parents, &mut self.next);
            seen += 1 + edges.each_to(to, |from| {
                if from as usize >= parents.len() {
                    return;
                }
                let (one, other) = (root(parents, from), root(parents, to));
                if one != other {
                    parents[one.max(other) as usize] = one.min(other);
                    // Two rings become one.
                    next.swap(one as usize, other as usize);
                }
            });
            self.done += 1;
        }
    }

    /// All of the piece that a vertex is in; none if they were taken before.
    fn take(&mut self, vertex: Vertex) -> Vec<Vertex> {
        let (mut members, mut at) = (Vec::new(), vertex);
        while let Some(next) = self.next.get_mut(at as usize).filter(|it| **it != TAKEN) {
            members.push(at);
            at = mem::replace(next, TAKEN);
        }
        members
    }
}
