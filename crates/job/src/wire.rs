//! Messages in the binary form of the message language, as arguments of calls and on disks: each
//! behind the fingerprint of its type, so that one of another version is an error that says so.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use nile_bosml::records::{from_stamped, to_stamped};
use nile_bosml::schema::{Parameter, Type};
use nile_bosml::{Decode, Encode, Error, ErrorKind, Reader, Typed, Writer};
use nile_stl_macros::Record;

use crate::job::{Job, Split};
use crate::keeper::ToKeeper;
use crate::lane::{Batch, MOST_ITEMS};
use crate::message::{Peer, ToMaster, ToWorker};
use crate::record::{Acceptor, Record as Kept, Standing};

macro_rules! messages {
    ($($message:ty),*) => { $(
        impl $message {
            /// The binary form. Fails if it is longer than a message can be.
            pub fn encode(&self) -> Result<Vec<u8>, Error> {
                to_stamped(self)
            }

            /// Reads one. Fails where it is none.
            pub fn decode(bytes: &[u8]) -> Result<$message, Error> {
                from_stamped(bytes)
            }
        }
    )* };
}

messages! { ToWorker, ToMaster, Peer, ToKeeper, Standing }

/// The fields of a batch.
struct Fields<T>(core::marker::PhantomData<T>);

impl<T: Typed> Fields<T> {
    const ALL: &'static [Parameter<'static>] = &[
        Parameter::plain("first", Type::Uint64),
        Parameter::plain("taken", Type::Uint64),
        Parameter::plain("items", <Vec<T>>::TYPE).within(0, MOST_ITEMS as i128),
    ];
}

impl<T: Typed> Typed for Batch<T> {
    const TYPE: Type<'static> = Type::Record(nile_bosml::records::Cow::Borrowed(Fields::<T>::ALL));
    const LEAST: usize = 8 + 8 + 2;
}

impl<T: Encode> Encode for Batch<T> {
    fn encode(&self, out: &mut Writer) {
        self.first.encode(out);
        self.taken.encode(out);
        self.items.encode(out);
    }
}

/// An item may be one byte and take much more: no room is made for more than a batch can have.
impl<'a, T: Decode<'a>> Decode<'a> for Batch<T> {
    fn decode(input: &mut Reader<'a>) -> Result<Batch<T>, Error> {
        let (first, taken) = (u64::decode(input)?, u64::decode(input)?);
        if input.clone().length()? > MOST_ITEMS {
            return Err(input.error(ErrorKind::TooLarge));
        }
        Ok(Batch { first, taken, items: Vec::decode(input)? })
    }
}

/// The first message of a record on a disk; the second is what its keeper has promised.
#[derive(Record)]
#[record(crate = nile_bosml)]
struct Head {
    job: Job,
    /// Messages of splits, which are behind the second message.
    splits: u32,
}

/// Some splits of a record on a disk.
#[derive(Record)]
#[record(crate = nile_bosml)]
struct Splits {
    splits: Vec<Split>,
}

/// Splits of one message, of which none has more than a thousand bytes.
const SPLITS: usize = 64;

impl Kept {
    /// What is kept durably: messages, the first of which tells of the rest. Each fits a call.
    pub fn encode(&self) -> Result<Vec<Vec<u8>>, Error> {
        let groups = self.splits.chunks(SPLITS);
        let head = to_stamped(&Head { job: self.job.clone(), splits: groups.len() as u32 });
        let rest = groups.map(|group| to_stamped(&Splits { splits: group.to_vec() }));
        [head, to_stamped(&self.acceptor)].into_iter().chain(rest).collect()
    }

    /// Reads the messages of a record. Fails where they are none.
    pub fn decode(messages: &[impl AsRef<[u8]>]) -> Result<Kept, Error> {
        let message = |at: usize| messages.get(at).map_or(&[][..], |it| it.as_ref());
        let Head { job, splits } = from_stamped(message(0))?;
        if messages.len() as u64 != u64::from(splits) + 2 {
            return Err(Error::new(ErrorKind::Truncated, message(0).len()));
        }
        let acceptor: Acceptor = from_stamped(message(1))?;
        let mut record = Kept { job, splits: Vec::new(), acceptor };
        for group in &messages[2..] {
            let Splits { splits } = from_stamped(group.as_ref())?;
            record.splits.extend(splits);
        }
        Ok(record)
    }
}
