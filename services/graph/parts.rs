//! The other parts of a graph that is divided: where they are, and letters to them. One that nobody
//! has is opened anew, if it is kept.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::Status;
use nile_bosml::Bytes;
use nile_graph::Part;
use nile_interfaces::graph::{GraphClient, GraphState};
use nile_stl::{CallError, CallResult, Place, Stl, all};
use nile_sync::Lock;

use super::opened::Opened;
use crate::cluster;

/// How long one call may take, and how long opening a part.
const PATIENCE: Duration = Duration::from_secs(5);
const OPENING: Duration = Duration::from_secs(60);

/// How long until a letter is sent again that has not come.
const AGAIN: Duration = Duration::from_millis(250);

/// How long until the others are written to again of which nothing comes.
const REMIND: Duration = Duration::from_secs(2);

/// The other parts of a graph.
pub struct Parts {
    stl: Stl,
    /// The name of the whole graph.
    graph: String,
    part: Part,
    places: RefCell<Vec<Option<Place>>>,
    /// They are looked for one after the other.
    looking: Lock,
}

impl Parts {
    /// Those beside a part of this name.
    pub fn new(stl: &Stl, name: &str, part: Part) -> Parts {
        let graph = name.split('/').next().unwrap_or(name).into();
        let places = RefCell::new((0..part.of).map(|_| None).collect());
        Parts { stl: stl.with_patience(PATIENCE), graph, part, places, looking: Lock::default() }
    }

    /// Which part this one is.
    pub fn part(&self) -> Part {
        self.part
    }

    /// The numbers of the others.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let Part { number, of } = self.part;
        (0..of).filter(move |it| *it != number)
    }

    /// What the whole graph is called.
    pub fn graph(&self) -> &str {
        &self.graph
    }

    /// Asks another part.
    pub async fn ask<T>(
        &self,
        part: u32,
        ask: impl AsyncFnOnce(GraphClient, &str) -> CallResult<T>,
    ) -> CallResult<T> {
        let name = format!("{}/{part}", self.graph);
        let place = self.place(part, &name).await?;
        let told = ask(GraphClient::at(&self.stl, place), &name).await;
        if let Err(error) = &told
            && matches!(
                error.status,
                Status::NotFound | Status::Dead | Status::Gone | Status::Timeout
            )
        {
            self.places.borrow_mut()[part as usize] = None;
        }
        told
    }

    /// Asks all others at the same time.
    pub async fn ask_all<T>(
        &self,
        ask: impl AsyncFn(u32, GraphClient, &str) -> CallResult<T>,
    ) -> Vec<CallResult<T>> {
        let ask = &ask;
        all(self.others().map(|part| {
            self.ask(part, async move |client, name: &str| ask(part, client, name).await)
        }))
        .await
    }

    /// Where a part is. If nobody has it, it is opened.
    async fn place(&self, part: u32, name: &str) -> CallResult<Place> {
        let known = || self.places.borrow()[part as usize];
        if let Some(place) = known() {
            return Ok(place);
        }
        let _turn = self.looking.take().await;
        if let Some(place) = known() {
            return Ok(place);
        }
        let (found, places) = self.look(part).await?;
        let place = match found {
            Some(place) => place,
            None => self.open(name, places).await?,
        };
        self.places.borrow_mut()[part as usize] = Some(place);
        Ok(place)
    }

    /// Sees to it that all others are open somewhere.
    pub async fn find_all(&self) -> CallResult<()> {
        for part in self.others() {
            self.place(part, &format!("{}/{part}", self.graph)).await?;
        }
        Ok(())
    }

    /// Where a part is, if anybody has it; else the cores that may open it, the best one first,
    /// which is the same for whoever asks: those with the fewest parts of this graph.
    async fn look(&self, part: u32) -> CallResult<(Option<Place>, Vec<Place>)> {
        let places = cluster::places(&self.stl, "graph").await?;
        let before = format!("{}/", self.graph);
        let before = before.as_str();
        let ask = |place: Place| {
            let client = GraphClient::at(&self.stl, place);
            async move { (place, parts_of(&client, before).await) }
        };
        let mut newest: Option<(u64, Place)> = None;
        let mut free = Vec::new();
        // One that does not answer can open nothing.
        for (place, told) in all(places.iter().map(|it| ask(it.1))).await {
            let Ok(told) = told else { continue };
            if let Some(it) = told.iter().find(|it| it.name[before.len()..].parse() == Ok(part)) {
                newest = newest.max(Some((it.life, place)));
            }
            free.push((told.len(), place));
        }
        let turn = part as usize % free.len().max(1);
        free.rotate_left(turn);
        nile_order::sort_by_key(&mut free, |it| it.0);
        Ok((newest.map(|it| it.1), free.into_iter().map(|it| it.1).collect()))
    }

    /// Opens a part on the first core that can.
    async fn open(&self, name: &str, places: Vec<Place>) -> CallResult<Place> {
        let stl = self.stl.with_patience(OPENING);
        let mut failed = CallError::new(Status::NotFound, format!("nobody has {name}"));
        for place in places {
            match GraphClient::at(&stl, place).open(name.into()).await {
                Ok(_) => return Ok(place),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// The parts that a core has of a graph, whose names begin so.
async fn parts_of(core: &GraphClient, before: &str) -> CallResult<Vec<GraphState>> {
    let mut parts: Vec<GraphState> = Vec::new();
    loop {
        let after = parts.last().map_or(before, |it| it.name.as_str()).to_string();
        let more = core.list(&after).await?;
        let count = parts.len();
        parts.extend(more.into_iter().take_while(|it| it.name.starts_with(before)));
        if parts.len() == count {
            return Ok(parts);
        }
    }
}

impl Opened {
    /// Sees to it that a round goes on for which others have not written, as long as this core has
    /// this part.
    pub async fn remind(self: Rc<Self>) {
        while !self.is_gone() {
            self.changes.until(|| (!self.graph().rests() || self.is_gone()).then_some(())).await;
            self.wait(REMIND).await;
            self.live().graph.remind();
            self.changes.notify();
        }
    }

    /// Sends the letters to another part, as long as this core has this one.
    pub async fn send_letters(self: Rc<Self>, to: u32) {
        let Some(parts) = self.parts() else { return };
        while !self.is_gone() {
            let letter = self.graph().letter(to).map(|(number, bytes)| (number, bytes.to_vec()));
            let Some((number, bytes)) = letter else {
                let waits = || (self.graph().letter(to).is_some() || self.is_gone()).then_some(());
                self.changes.until(waits).await;
                continue;
            };
            let send = async |client: GraphClient, name: &str| {
                client.letter(name, Bytes::from(&bytes[..])).await
            };
            match parts.ask(to, send).await {
                Ok(life) if life > self.graph().life() => self.is_elsewhere(),
                Ok(_) => self.live().graph.sent(to, number),
                Err(_) => self.wait(AGAIN).await,
            }
        }
    }
}
