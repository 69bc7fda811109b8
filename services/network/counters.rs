//! What the protocols have counted, by name.

/// A name and a count.
type Count = (&'static str, u64);

/// What the endpoint of calls has counted.
pub fn of_calls(it: &nile_ipioe::Counters) -> [Count; 20] {
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

/// What the endpoint of bulk transfer has counted.
pub fn of_bulk(it: &nile_bulk::Counters) -> [Count; 17] {
    [
        ("bulk-received", it.received),
        ("bulk-sent", it.sent),
        ("bulk-delivered-bytes", it.delivered_bytes),
        ("bulk-sent-bytes", it.sent_bytes),
        ("bulk-repeated", it.repeated),
        ("bulk-duplicate", it.duplicate),
        ("bulk-malformed", it.malformed),
        ("bulk-elsewhere", it.elsewhere),
        ("bulk-corrupt", it.corrupt),
        ("bulk-unsealed", it.unsealed),
        ("bulk-no-key", it.no_key),
        ("bulk-forged", it.forged),
        ("bulk-replayed", it.replayed),
        ("bulk-stale", it.stale),
        ("bulk-nonsense", it.nonsense),
        ("bulk-beyond", it.beyond),
        ("bulk-busy", it.busy),
    ]
}
