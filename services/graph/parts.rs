//! The other parts of a graph that is divided: where they are, and letters to them. One that nobody
//! has is opened anew, if it is kept.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::Status;
use nile_bosml::Bytes;
use nile_graph::Part;
use nile_interfaces::graph::GraphClient;
use nile_stl::{CallError, CallResult, Place, Stl, all};
use nile_sync::Lock;

use super::opened::Opened;
use crate::cluster;

/// How long one call may take, and how long opening a part.
const PATIENCE: Duration = Duration::from_secs(5);
const OPENING: Duration = Duration::from_secs(60);

/// How long until a letter is sent again that has not come.
const AGAIN: Duration = Duration::from_millis(250);

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
        let places: Vec<Place> =
            cluster::places(&self.stl, "graph").await?.into_iter().map(|it| it.1).collect();
        let has = |place: &Place| {
            let client = GraphClient::at(&self.stl, *place);
            async move { client.state(name).await.is_ok() }
        };
        let found = all(places.iter().map(has)).await;
        let place = match places.iter().zip(found).find(|(_, has)| *has) {
            Some((place, _)) => *place,
            None => self.open(part, name, places).await?,
        };
        self.places.borrow_mut()[part as usize] = Some(place);
        Ok(place)
    }

    /// Opens a part on a core that has none of the others, if there is one.
    async fn open(&self, part: u32, name: &str, mut places: Vec<Place>) -> CallResult<Place> {
        let taken = self.places.borrow().clone();
        let own = self.stl.host().core();
        let is_taken = |it: &Place| taken.contains(&Some(*it)) || it.is_here() && it.core == own;
        let turn = part as usize % places.len().max(1);
        places.rotate_left(turn);
        nile_order::sort_by_key(&mut places, is_taken);
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

impl Opened {
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
                Ok(()) => self.live().graph.sent(to, number),
                Err(_) => self.wait(AGAIN).await,
            }
        }
    }
}
