//! Two-way talk over two channels: numbers there and numbers back.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use nile_abi::{CoreId, Status};
use nile_kernel::{Core, Inbound, Outbound};
use nile_platform::Machine;
use nile_ring::Message;

/// Cells of a channel in a scenario: few, so that it is full now and then.
const CELLS: u32 = 32;

/// The tag of the channel back is the tag there, with this bit.
const BACK: u32 = 1 << 31;

/// A message that says a number.
pub fn say(number: u64) -> Message {
    Message::new(1, &number.to_le_bytes()).expect("eight bytes fit a cell")
}

/// The number that a message says.
pub fn heard(message: &Message) -> Option<u64> {
    Some(u64::from_le_bytes(message.payload().try_into().ok()?))
}

/// Both ends of a talk on this core.
pub struct Talk<M: Machine> {
    /// To the other core.
    pub out: Outbound<M>,
    /// From the other core.
    pub back: Inbound<M>,
}

impl<M: Machine> Talk<M> {
    /// A talk with the core that [answers](Talk::answer) `tag` on `to`; `Dead` if that ends before
    /// it answers. The other core cannot tell two askers of one tag apart before it has accepted,
    /// so the tag back has the asker in it.
    pub async fn start(core: &Core<M>, to: CoreId, tag: u32) -> Result<Talk<M>, Status> {
        let out = core.open(to, tag, CELLS).await?;
        let mut answer = pin!(core.accept(back(tag, to)));
        let mut end = pin!(out.closed());
        let back = poll_fn(|context| match answer.as_mut().poll(context) {
            Poll::Pending => end.as_mut().poll(context).map(|()| Err(Status::Dead)),
            answered => answered,
        });
        let back = back.await?;
        Ok(Talk { out, back })
    }

    /// The other side of [`Talk::start`]: waits for an asker of `tag`.
    pub async fn answer(core: &Core<M>, tag: u32) -> Result<Talk<M>, Status> {
        let back_in = core.accept(tag).await?;
        let out = core.open(back_in.from(), back(tag, core.id()), CELLS).await?;
        Ok(Talk { out, back: back_in })
    }

    /// The same in a task of its own, which then does what the asker says. Why that ends is logged.
    pub fn serve(
        core: &Core<M>,
        tag: u32,
        obey: impl AsyncFnOnce(&Core<M>, &Talk<M>) -> Result<(), Status> + 'static,
    ) {
        let own = core.clone();
        core.spawn(async move {
            if let Ok(talk) = Talk::answer(&own, tag).await
                && let Err(status) = obey(&own, &talk).await
            {
                own.machine().log(format_args!("no more packages: {status}"));
            }
        });
    }

    /// Answers each number that any asker of `tag` says with what comes of it, while the core runs.
    pub fn answer_numbers(
        core: &Core<M>,
        tag: u32,
        obey: impl AsyncFn(&Core<M>, u64) -> u64 + Clone + 'static,
    ) {
        let core = core.clone();
        core.clone().spawn(async move {
            while let Ok(talk) = Talk::answer(&core, tag).await {
                let (own, obey) = (core.clone(), obey.clone());
                core.spawn(async move {
                    while let Ok(number) = talk.listen().await {
                        if talk.tell(obey(&own, number).await).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
    }

    /// Says a number and waits for the one that comes back.
    pub async fn ask(&self, number: u64) -> Result<u64, Status> {
        self.out.send(&say(number)).await?;
        heard(&self.back.receive().await?).ok_or(Status::Invalid)
    }

    /// Waits for a number.
    pub async fn listen(&self) -> Result<u64, Status> {
        heard(&self.back.receive().await?).ok_or(Status::Invalid)
    }

    /// Says a number.
    pub async fn tell(&self, number: u64) -> Result<(), Status> {
        self.out.send(&say(number)).await
    }
}

fn back(tag: u32, answerer: CoreId) -> u32 {
    BACK | tag << 16 | u32::from(answerer.0)
}
