//! How frames are sealed where the cluster has a key. This crate knows no keys: who has them (the
//! endpoint of calls, which agrees on them with its peers) seals and opens.

use core::fmt;

use nile_abi::{Generation, NodeId};

use crate::wire::TAG_BYTES;

/// Seals and opens frames with the key that two incarnations of nodes share. No method blocks.
pub trait Sealer {
    /// Encrypts `data` in place for `generation` of the node `to` ([`Generation`] zero: the one
    /// that is known) and gives the tag. The last eight bytes of `header` are where the frame's
    /// sequence number belongs; then all of `header` is authenticated as it is. `None` if there
    /// is no key for the peer yet: the frame is not sent, and tried again later.
    fn seal(
        &mut self,
        to: NodeId,
        generation: Generation,
        header: &mut [u8],
        data: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]>;

    /// Checks that `generation` of the node `from` has sealed this frame for this node and that
    /// it is not a replay, and decrypts `data` in place. What `data` is after an error is not
    /// looked at.
    fn open(
        &mut self,
        from: NodeId,
        generation: Generation,
        header: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), OpenError>;
}

/// For endpoints whose frames are not sealed: there is no key for anybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsealed;

impl Sealer for Unsealed {
    fn seal(
        &mut self,
        _to: NodeId,
        _generation: Generation,
        _header: &mut [u8],
        _data: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        None
    }

    fn open(
        &mut self,
        _from: NodeId,
        _generation: Generation,
        _header: &[u8],
        _data: &mut [u8],
        _tag: &[u8; TAG_BYTES],
    ) -> Result<(), OpenError> {
        Err(OpenError::NoKey)
    }
}

/// Why a sealed frame is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// There is no key for this incarnation of the sender.
    NoKey,
    /// Somebody without the key has made or changed it.
    Forged,
    /// It was accepted before, or is too old to tell.
    Replayed,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::NoKey => "no key is agreed on with the sender of this frame",
            OpenError::Forged => "the frame was not sealed with the sender's key",
            OpenError::Replayed => "the frame was accepted before",
        })
    }
}

impl core::error::Error for OpenError {}
