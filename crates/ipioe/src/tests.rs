//! Tests of the whole endpoint: two or three of them on a network in memory.

mod calls;
mod faults;
mod hostile;
mod meeting;
mod memory;
mod network;
mod vectors;
mod wire;
