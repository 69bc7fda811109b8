//! The mechanism under good and bad policies, and the policies against what they promise.

mod ahead;
mod bench;
mod deadlines;
mod hostile;
mod sharing;
mod swap;
