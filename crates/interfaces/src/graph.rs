//! Graphs that change while they are asked (FENCE). Edges come as events of sources; ranks are kept
//! up to date, with a bound of their error.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::Bytes;
use nile_stl::{CallResult, Record, service};

/// The most events of one call.
pub const MOST_EVENTS: usize = 1024;

/// An edge is there from now on, or goes.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeEvent {
    /// Which event of its source it is, from 0, without gaps. It counts once, however often it
    /// comes.
    pub sequence: u64,
    /// When it happened, in a unit that all sources share. What happened last about an edge holds,
    /// whenever it comes.
    pub time: u64,
    /// From which vertex, by any number.
    pub from: u64,
    /// To which vertex.
    pub to: u64,
    /// Whether the edge goes.
    pub removes: bool,
}

/// When a call that gives events is over.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledgement {
    /// They are in this core's memory, and lost with it.
    Taken,
    /// They are in for ever: in the log of the graph, on as many nodes as it has copies. Of a graph
    /// without copies nothing is.
    Kept,
    /// That, and a publication has them.
    Ranked,
}

/// A part of a source that is no event. It has a number among the source's events; an event that
/// comes with this number later counts.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RejectedEvent {
    /// The source.
    pub source: u64,
    /// Its number in that.
    pub sequence: u64,
    /// What came, or how it began.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// What became of events.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferedEvents {
    /// How many were new.
    pub new: u64,
    /// How many had been here.
    pub known: u64,
    /// How many have to come again, since too many before them are missing.
    pub ahead: u64,
    /// The first event of the source that is missing.
    pub next: u64,
    /// Which opening of the graph, of all its parts, has taken them: what another one took and did
    /// not keep is lost.
    pub life: u64,
}

/// How a graph is divided, which is the same for all its parts.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// How many parts there are, 2 to 64.
    pub parts: u32,
    /// A number that no other graph ever had.
    pub number: u64,
}

/// Numbers of a source, one after the other.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceRun {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// A vertex and its value in a part of a graph. Values of all parts at one publication compare.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct VertexValue {
    /// The vertex.
    pub vertex: u64,
    /// Its value.
    pub value: u64,
}

/// How a graph stands. All but its name and settings is that of its last publication.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct GraphState {
    /// Its name; of a part of a graph `web` as `web/0`.
    pub name: String,
    /// How many parts the graph has; 1 if it is not divided.
    pub parts: u32,
    /// The number of its opening. Of two cores that have a graph of this name the one with the
    /// higher number has it, and the other will find that out.
    pub life: u64,
    /// Which publication it is; 0 if there is none yet.
    pub publication: u64,
    /// How old it is, in microseconds.
    pub age_us: u64,
    /// All events before this time are in it, by sources that are not idle.
    pub watermark: u64,
    /// How many events are in it.
    pub events: u64,
    /// How many have come since.
    pub behind: u64,
    /// For how long the first of these has waited, in microseconds.
    pub staleness_us: u64,
    /// How many events were lost, as there are as many vertices or edges as there may be.
    pub refused: u64,
    /// How many parts of sources are no events, and not mended yet.
    pub rejected: u64,
    /// On how many nodes each part of it is kept; 0 if it is in memory only.
    pub copies: u8,
    /// Why the log takes nothing now; empty if it does.
    pub log_fails: String,
    /// How many vertices there are.
    pub vertices: u64,
    /// How many edges.
    pub edges: u64,
    /// The sum of the errors of all ranks is at most so many parts of 2³², of a sum of one.
    pub error: u64,
    /// How good ranks are to be, in the same unit.
    pub wanted_error: u64,
}

/// A vertex in the order of ranks.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankEntry {
    /// The vertex.
    pub vertex: u64,
    /// Its rank in parts of 2⁶⁴; all together are one.
    pub rank: u64,
    /// Whether it is certain that it comes before the next one, by the bound of the error.
    pub certain: bool,
}

/// A component, whichever way edges go.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComponentEntry {
    /// Its lowest vertex.
    pub lowest: u64,
    /// How many vertices it has.
    pub vertices: u64,
}

/// What the parts of a graph search for together.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphQuestion {
    /// The component of a vertex.
    Component {
        /// The vertex.
        of: u64,
    },
    /// The shortest way between two vertices.
    Distance {
        /// Where it begins.
        from: u64,
        /// Where it ends.
        to: u64,
    },
}

/// What a part has found so far, of its own vertices.
#[derive(Record, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct GraphFound {
    /// Whether the vertex at which the search began is known here.
    pub known: bool,
    /// How many vertices of the component are this part's.
    pub vertices: u64,
    /// The lowest of them.
    pub lowest: Option<u64>,
    /// How many edges the shortest way has, if this part has come to its beginning.
    pub distance: Option<u32>,
    /// Whether there is a next round: others were told of vertices, or there is more to look at.
    pub goes_on: bool,
    /// Whether this round is not over here: the same call goes on with it.
    pub more: bool,
}

/// How a source of events stands.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceEntry {
    /// The source.
    pub source: u64,
    /// All its events before this one have come.
    pub next: u64,
    /// How many behind that have.
    pub beyond: u64,
    /// Nothing will come of it that happened before this.
    pub until: u64,
    /// Whether it has been silent for so long that the watermark goes on without it.
    pub idle: bool,
}

/// The names below which graphs are kept: of `web`, `.graphs/web/generation` and others.
pub const KEPT: &str = ".graphs/";

/// Where a graph's generation is kept, as far as the graph's own name.
pub const GENERATION: &str = "/generation";

/// Graphs that worker cores have open, each with its ranks. `not_found`: the core has no graph of
/// this name open. A graph `web` that is divided is open where one of its parts is; a name as
/// `web/0` means that part alone.
#[service(subsystem = "graphs", capability = "graphs", layer = high)]
pub trait Graph {
    /// A graph without vertices, whose ranks are to be as good as `error` parts of 2³² in all; a
    /// source counts as idle that says nothing for `patience_ms`. It may have so many vertices, and
    /// 64 times as many edges. It is kept on so many nodes; without copies it is in the memory of
    /// this core, and gone with it. `exists`; `no_memory`: the core has as many as it may.
    #[stl_k(allow(operator, peer))]
    async fn create(
        &self,
        #[range(1..=64)] name: String,
        #[range(1..=4294967296)] error: u64,
        #[range(1..=3600000)] patience_ms: u32,
        #[range(1..=16777216)] vertices: u32,
        #[range(0..=8)] copies: u8,
    ) -> CallResult<()>;

    /// A part of a graph without vertices, by a name as `web/0`. The most vertices are those of
    /// each part. `invalid`: the name is none of such a part.
    #[stl_k(allow(operator, peer))]
    async fn create_part(
        &self,
        #[range(3..=68)] name: String,
        error: u64,
        #[range(1..=3600000)] patience_ms: u32,
        #[range(1..=16777216)] vertices: u32,
        #[range(0..=8)] copies: u8,
        division: Division,
    ) -> CallResult<()>;

    /// Opens a graph that is kept, or a part of one: reads its generation and its log. Whoever has
    /// it open finds out before it says of anything more that it is kept. If this core has a part
    /// of the graph, all others are opened that nobody has. `not_found`: none of this name is kept.
    #[stl_k(reply = "state", allow(operator, peer))]
    async fn open(&self, #[range(1..=68)] name: String) -> CallResult<GraphState>;

    /// The graph is no more.
    #[stl_k(allow(operator, peer))]
    async fn remove(&self, name: &str) -> CallResult<()>;

    /// The graphs of this core behind the name `after`, some at a time. None: there are no more.
    #[stl_k(reply = "graphs", allow(package, operator, peer))]
    fn list(&self, after: &str) -> Vec<GraphState>;

    /// Events of a source, at most 1,024, and its promise: whatever comes of it yet happened at
    /// `until` or later. Returns when they are as the acknowledgement says. `busy`: too much waits
    /// for the log, nothing was taken; `no_memory` and others: the log takes nothing now. What was
    /// given is to be given again then, and counts once.
    #[stl_k(reply = "offered", allow(operator, peer))]
    async fn offer(
        &self,
        name: &str,
        source: u64,
        until: u64,
        acknowledgement: Acknowledgement,
        events: Vec<EdgeEvent>,
    ) -> CallResult<OfferedEvents>;

    /// What a part of a graph is given of a call: of all numbers that the call covers, those that
    /// are not among the events are other parts' events.
    #[stl_k(reply = "offered", allow(peer))]
    async fn offer_part(
        &self,
        name: &str,
        source: u64,
        until: u64,
        acknowledgement: Acknowledgement,
        events: Vec<EdgeEvent>,
        covers: Vec<SequenceRun>,
    ) -> CallResult<OfferedEvents>;

    /// A letter of another part of the graph. Gives the last opening of the writer's part that is
    /// known here: a writer that was opened before has the part no more.
    #[stl_k(reply = "life", allow(peer))]
    fn letter(&self, name: &str, #[range(0..=49152)] letter: Bytes<'_>) -> CallResult<u64>;

    /// The vertices of a part with the highest values, at this publication. `busy`: it has another.
    #[stl_k(reply = "values", allow(peer))]
    async fn highest(
        &self,
        name: &str,
        publication: u64,
        #[range(1..=500)] most: u32,
    ) -> CallResult<Vec<VertexValue>>;

    /// Parts of sources that are no events, at most 64; over when they are kept. `no_memory`: there
    /// are 4,096 already, which have to be mended first.
    #[stl_k(reply = "offered", allow(operator, peer))]
    async fn reject(&self, name: &str, rejects: Vec<RejectedEvent>) -> CallResult<OfferedEvents>;

    /// What was rejected and is not mended: some at a time, of those behind the first `skip`.
    #[stl_k(reply = "rejects", allow(operator, peer))]
    async fn rejects(&self, name: &str, skip: u32) -> CallResult<Vec<RejectedEvent>>;

    /// How the graph stands.
    #[stl_k(reply = "state", allow(package, operator, peer))]
    async fn state(&self, name: &str) -> CallResult<GraphState>;

    /// The same when all events are in that had come before the call, and ranks are as good as they
    /// are to be, or as rounding lets them be. Of a graph that is kept this core looks first
    /// whether it still has it; `not_found` if another has opened it since.
    #[stl_k(reply = "state", allow(package, operator, peer))]
    async fn settled(&self, name: &str) -> CallResult<GraphState>;

    /// The vertices with the highest ranks.
    #[stl_k(reply = "ranks", allow(package, operator, peer))]
    async fn top(&self, name: &str, #[range(1..=500)] most: u32) -> CallResult<Vec<RankEntry>>;

    /// The rank of a vertex in parts of 2⁶⁴. `not_found` before a publication has it.
    #[stl_k(reply = "rank", allow(package, operator, peer))]
    async fn rank(&self, name: &str, vertex: u64) -> CallResult<u64>;

    /// The component of a vertex, with all edges that are in; of a divided graph as each was at
    /// some moment between the call and its answer. `not_found`: no event has named the vertex.
    #[stl_k(reply = "component", allow(operator, peer))]
    async fn component(&self, name: &str, vertex: u64) -> CallResult<ComponentEntry>;

    /// How many edges the shortest way between two vertices has, with the same edges; none if
    /// there is no way.
    #[stl_k(reply = "distance", allow(operator, peer))]
    async fn distance(&self, name: &str, from: u64, to: u64) -> CallResult<Option<u32>>;

    /// A round of a search, in a part. Round 0 begins it; in the others the part goes on from what
    /// it was told in the round before, and tells other parts. `not_found`: it was not begun here,
    /// or nobody went on with it for ten seconds; `busy`: the part has four.
    #[stl_k(reply = "found", allow(peer))]
    async fn search(
        &self,
        name: &str,
        number: u64,
        question: GraphQuestion,
        round: u32,
    ) -> CallResult<GraphFound>;

    /// Another part has come to these vertices in this round of a search; 1,024 at most.
    #[stl_k(allow(peer))]
    fn reach(&self, name: &str, number: u64, round: u32, vertices: Vec<u64>) -> CallResult<()>;

    /// A search is over.
    #[stl_k(allow(peer))]
    fn end_search(&self, name: &str, number: u64) -> CallResult<()>;

    /// The sources whose numbers are higher than `after`, some at a time.
    #[stl_k(reply = "sources", allow(package, operator, peer))]
    async fn sources(&self, name: &str, after: Option<u64>) -> CallResult<Vec<SourceEntry>>;
}
