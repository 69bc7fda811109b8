//! Clusters of nodes on this machine: started, looked at, called, broken on purpose, ended.
//!
//! * [`args`]: what can be said on the command line.
//! * [`folder`]: where a running cluster keeps what it needs; [`process`]: its processes.
//! * [`up`], [`down`]: its start and its end; [`node`]: one node of it; [`ready`]: waiting for it;
//!   `keepers`: who keeps the names of its datasets; [`network`]: its switch.
//! * [`session`]: a command that is a peer of a running cluster; [`turns`]: whom it asks for what
//!   several nodes have.
//! * [`services`], [`call`], [`status`], [`cores`], [`deploy`], [`logs`], [`net`], [`top`],
//!   [`fault`]: the commands.
//! * [`members`]: what nodes say of each other; [`document`], [`reply`]: what is said to
//!   services, and what they say.

pub mod anew;
pub mod args;
pub mod call;
pub mod cores;
pub mod deploy;
pub mod document;
pub mod down;
pub mod fault;
pub mod folder;
mod identity;
mod keepers;
pub mod logs;
mod members;
pub mod net;
pub mod network;
pub mod node;
pub mod packages;
pub mod pin;
pub mod process;
pub mod ready;
pub mod regions;
pub mod reply;
pub mod roles;
pub mod servers;
pub mod services;
pub mod session;
pub mod status;
pub mod supervising;
pub mod top;
pub mod turns;
pub mod up;
