//! The command as people and tools meet it: every test here runs the built program or the
//! launcher, and looks at output, exit status and what is left running.
#![forbid(unsafe_code)]

mod attack;
mod bad_input;
mod boot;
mod cluster;
mod compose;
mod cores;
mod critical;
mod datasets;
mod deploy;
mod determinism;
mod disks;
mod dissector;
mod domains;
mod elsewhere;
mod graphs;
mod image;
mod images;
mod interrupt;
mod jobs;
mod launcher;
mod machines;
mod network;
mod policies;
mod records;
mod scenario;
mod support;
mod switch;
