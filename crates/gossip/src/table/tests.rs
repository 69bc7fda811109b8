//! Tests of a table alone.
