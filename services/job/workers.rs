//! Calls of worker cores. Which number a method has is asked once of each instance; a call to a
//! former one is `Dead`, so that nothing that was meant for it gets to its successor.

use alloc::format;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bosml::{Bytes, Decode, Encode, Reader, Writer, discovery};
use nile_interfaces::worker::records;
use nile_job::{Bounds, JobId, WorkerId};
use nile_stl::{CallError, CallResult, MethodNumber, Place, Stl};

/// The name of the service.
pub const SERVICE: &str = "worker";

/// A worker core in one incarnation.
#[derive(Clone, Copy)]
pub struct Line {
    /// Which.
    pub id: WorkerId,
    place: Place,
    orders: MethodNumber,
    cut: MethodNumber,
}

impl Line {
    /// The worker whose service is at a place.
    pub async fn open(stl: &Stl, place: Place) -> CallResult<Line> {
        let document = stl.call_at(place, MethodNumber::DISCOVER, &[]).await?;
        let schema = discovery::parse(<&str>::decode(&mut Reader::new(&document))?)?;
        let method = |name: &str| {
            let number = schema.methods.iter().position(|known| known.name == name);
            let missing = || CallError::new(Status::NotFound, format!("{SERVICE} has no {name}"));
            Ok::<_, CallError>(MethodNumber(number.ok_or_else(missing)? as u16))
        };
        let reply = stl.call_at(place, method("identity")?, &[]).await?;
        let reply = &mut Reader::new(&reply);
        let id = WorkerId {
            node: NodeId(u32::decode(reply)?),
            life: Generation(u32::decode(reply)?),
            core: CoreId(u16::decode(reply)?),
            generation: Generation(u32::decode(reply)?),
        };
        Ok(Line { id, place, orders: method("orders")?, cut: method("cut")? })
    }

    /// Tells it what its master says.
    pub async fn orders(&self, stl: &Stl, message: &[u8]) -> CallResult<()> {
        let mut arguments = Writer::new();
        Bytes::from(message).encode(&mut arguments);
        stl.call_at(self.place, self.orders, &arguments.into_bytes()?).await.map(drop)
    }

    /// Has its job cut bounds: tells it one sample of `of`. The bounds, with the last one.
    pub async fn cut(
        &self,
        stl: &Stl,
        job: JobId,
        (index, of): (u32, u32),
        sample: &[u8],
    ) -> CallResult<Option<Bounds>> {
        let mut arguments = Writer::new();
        job.0.encode(&mut arguments);
        index.encode(&mut arguments);
        of.encode(&mut arguments);
        Bytes::from(sample).encode(&mut arguments);
        let reply = stl.call_at(self.place, self.cut, &arguments.into_bytes()?).await?;
        let cut = <Option<records::Bounds>>::decode(&mut Reader::new(&reply))?;
        Ok(cut.map(|records::Bounds { bounds: bytes, slices }| Bounds { bytes, slices }))
    }
}
