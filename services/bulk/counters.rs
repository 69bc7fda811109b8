//! What the protocol has counted, by name.

/// A name and a count.
type Count = (&'static str, u64);

/// What the endpoint has counted.
pub fn of(it: &nile_bulk::Counters) -> [Count; 18] {
    [
        ("received", it.received),
        ("sent", it.sent),
        ("delivered-bytes", it.delivered_bytes),
        ("fetched-bytes", it.fetched_bytes),
        ("sent-bytes", it.sent_bytes),
        ("repeated", it.repeated),
        ("duplicate", it.duplicate),
        ("malformed", it.malformed),
        ("elsewhere", it.elsewhere),
        ("corrupt", it.corrupt),
        ("unsealed", it.unsealed),
        ("no-key", it.no_key),
        ("forged", it.forged),
        ("replayed", it.replayed),
        ("stale", it.stale),
        ("nonsense", it.nonsense),
        ("beyond", it.beyond),
        ("busy", it.busy),
    ]
}
