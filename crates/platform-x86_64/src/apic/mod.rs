//! The interrupt controllers: [`local`], one in each core, [`io`], which takes the devices'
//! lines, and the two [`pic`]s of the first PCs, which are silenced.

pub mod io;
pub mod local;
pub mod pic;

pub use io::{IoApic, Line};
pub use local::{ApicId, LocalApic};
