//! Tests of a directory alone.
