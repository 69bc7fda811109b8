//! Endpoints in one thread, on a small network that loses, doubles, delays and damages frames.

mod ends;
mod faults;
mod frames;
mod hostile;
mod network;
mod sealed;
mod shown;
mod transfers;
mod units;
