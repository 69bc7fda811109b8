//! A domain's end of domcon: its managing core tells the supervisor when the domain runs, and ends
//! the domain when it is told to. The domain never waits for its supervisor.

use alloc::boxed::Box;
use core::time::Duration;

use nile_abi::{CoreId, CorePhase};
use nile_domain::{Act, DomainId, Managing, Message};
use nile_stl::Stl;
use nile_stl::node::Seated;
use nile_stl::node::domains::SeatLink;

/// How often it looks for messages, and, before it runs, for its cores.
const LOOK: Duration = Duration::from_millis(10);
const STARTING: Duration = Duration::from_millis(1);

/// Answers the supervisor, if this is the managing core of a domain.
pub fn start(stl: &Stl) {
    let Some(seated) = stl.node().ok().and_then(|node| node.seated()) else { return };
    let own = stl.clone();
    stl.host().spawn(Box::pin(async move {
        let Ok(link) = seated.seat.domain_end(seated.generation) else { return };
        answer(&own, &seated, link).await;
    }));
}

async fn answer(stl: &Stl, seated: &Seated, mut link: SeatLink) {
    let id = DomainId { slot: seated.slot, generation: seated.generation };
    while !all_run(stl) {
        stl.host().pause(STARTING).await;
    }
    let mut managing = Managing::new([]);
    managing.up();
    loop {
        while let Some(act) = managing.take_act() {
            match act {
                Act::Send(message) => {
                    // A supervisor that takes nothing is told again by the next incarnation, and
                    // asks for what it misses.
                    link.send(&message.encode(id));
                }
                // Its cores and memory are what it was made with.
                Act::Start(core) => managing.not_started(core),
                Act::Leave(core) => managing.kept(core),
                Act::Use(_) => {}
                Act::Find(units) => managing.found(Err(units)),
                Act::Stop => stl.node().into_iter().for_each(|node| node.end()),
            }
        }
        while let Ok(Some(message)) = link.receive() {
            if let Ok((to, said)) = Message::decode(message.payload())
                && to == id
            {
                managing.heard(said);
            }
        }
        stl.host().pause(LOOK).await;
    }
}

/// Whether all loops of this node run.
fn all_run(stl: &Stl) -> bool {
    let Ok(node) = stl.node() else { return false };
    let mut cores = (0..stl.host().cores() as u16).map(CoreId);
    cores.all(|core| node.state_of(core).is_some_and(|it| it.phase == CorePhase::Running))
}
