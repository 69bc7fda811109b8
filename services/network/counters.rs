//! What the protocol has counted, by name.

/// A name and a count.
type Count = (&'static str, u64);

/// What the endpoint has counted.
pub fn of(it: &nile_ipioe::Counters) -> [Count; 20] {
    [
        ("received", it.received),
        ("sent", it.sent),
        ("elsewhere", it.elsewhere),
        ("malformed", it.malformed),
        ("oversized", it.oversized),
        ("corrupt", it.corrupt),
        ("unsealed", it.unsealed),
        ("sealed", it.sealed),
        ("forged", it.forged),
        ("replayed", it.replayed),
        ("stale", it.stale),
        ("unmet", it.unmet),
        ("own", it.own),
        ("routed", it.routed),
        ("duplicates", it.duplicates),
        ("retransmitted", it.retransmitted),
        ("busy", it.busy),
        ("late", it.late),
        ("unexpected", it.unexpected),
        ("dropped", it.dropped),
    ]
}
