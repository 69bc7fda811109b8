//! A service of a kernel that says to a package what another package would say.

use alloc::boxed::Box;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_channels::{CELLS, FEW, KERNEL, POLLED, SLEPT};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::node::{FromPackage, Message, Node, ToPackage};

use super::{EXCHANGE, LEAVE, STAY};

/// How long the kernel does something else before it looks again.
const BETWEEN: Duration = Duration::from_micros(1);

/// A tag that packages have between them.
const NO_KERNELS: u32 = 7;

/// `Err` is the number of the check that failed.
type Checked<T = ()> = Result<T, u64>;

struct Pair {
    out: Box<dyn ToPackage>,
    back: Box<dyn FromPackage>,
}

/// Plays one act with the package on `other`: zero, or the number of the check that failed.
pub async fn act<M: Machine>(core: &Core<M>, act: u64, other: CoreId) -> Result<u64, Status> {
    let stl = core.stl();
    let node = stl.node().map_err(|error| error.status)?;
    let played = match act {
        EXCHANGE => exchange(core, &*node, other).await,
        LEAVE => leave(&*node, other).await,
        STAY => stay(&*node, other).await,
        _ => Err(1),
    };
    Ok(played.err().unwrap_or(0))
}

fn holds(condition: bool, number: u64) -> Checked {
    if condition { Ok(()) } else { Err(number) }
}

fn say(number: u64) -> Checked<Message> {
    Message::new(1, &number.to_le_bytes()).map_err(|_| 2)
}

fn is(message: &Message, number: u64) -> bool {
    message.kind() == 1 && message.payload() == number.to_le_bytes()
}

async fn pair(node: &dyn Node, other: CoreId) -> Checked<Pair> {
    let out = node.open_package(other, KERNEL, CELLS).await.map_err(|_| 4u64)?;
    let back = node.accept_package(KERNEL).await.map_err(|_| 5u64)?;
    holds((out.to(), back.from()) == (other, other), 6)?;
    Ok(Pair { out, back })
}

async fn exchange<M: Machine>(core: &Core<M>, node: &dyn Node, other: CoreId) -> Checked {
    refused(core.id(), node, other).await?;
    let pair = pair(node, other).await?;
    let (mut sent, mut received) = (0, 0);
    while sent < POLLED || received < POLLED {
        if sent < POLLED {
            match pair.out.try_send(&say(sent)?) {
                Ok(()) => sent += 1,
                Err(Status::Busy) => core.sleep(BETWEEN).await,
                Err(_) => return Err(20),
            }
        }
        match pair.back.try_receive().map_err(|_| 21u64)? {
            Some(message) => {
                holds(is(&message, received), 22)?;
                received += 1;
            }
            None => core.sleep(BETWEEN).await,
        }
    }
    for number in 0..SLEPT {
        let message = pair.back.receive().await.map_err(|_| 31u64)?;
        holds(is(&message, number), 32)?;
        pair.out.send(&message).await.map_err(|_| 33u64)?;
    }
    Ok(())
}

/// What cannot be is refused.
async fn refused(own: CoreId, node: &dyn Node, other: CoreId) -> Checked {
    let opens = [
        (CoreId(999), KERNEL, CELLS, Status::NotFound),
        (own, KERNEL, CELLS, Status::Invalid),
        (other, NO_KERNELS, CELLS, Status::Invalid),
        (other, KERNEL, 0, Status::Invalid),
        (other, KERNEL, 3, Status::Invalid),
        (other, KERNEL, 1 << 15, Status::Invalid),
    ];
    for (to, tag, cells, why) in opens {
        holds(node.open_package(to, tag, cells).await.err() == Some(why), 11)?;
    }
    holds(node.accept_package(NO_KERNELS).await.err() == Some(Status::Invalid), 12)
}

/// A few messages there and back.
async fn talk(pair: &Pair) -> Checked {
    for number in 0..FEW {
        pair.out.send(&say(number)?).await.map_err(|_| 50u64)?;
    }
    for number in 0..FEW {
        holds(is(&pair.back.receive().await.map_err(|_| 51u64)?, number), 52)?;
    }
    Ok(())
}

async fn leave(node: &dyn Node, other: CoreId) -> Checked {
    talk(&pair(node, other).await?).await
}

/// The package's end ends; this one learns that on both channels.
async fn stay(node: &dyn Node, other: CoreId) -> Checked {
    let pair = pair(node, other).await?;
    talk(&pair).await?;
    holds(pair.back.receive().await == Err(Status::Dead), 60)?;
    holds(pair.back.try_receive() == Err(Status::Dead), 61)?;
    let message = say(0)?;
    let last = loop {
        if let Err(status) = pair.out.send(&message).await {
            break status;
        }
    };
    holds(last == Status::Dead, 62)
}
