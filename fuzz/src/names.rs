//! What proposers and keepers of names say to each other, and what keepers have on disk: any bytes.

use nile_abi::{Instant, NodeId};
use nile_names::keeper::Action;
use nile_names::view::{Charter, View};
use nile_names::{Answer, Ask, Durable, Keeper, Reply, Request, Settings};

/// The first byte says what the rest is taken for: behind the fingerprint of that type, or nothing
/// else would be looked at. Accepted: it is that.
pub fn names(bytes: &[u8]) -> bool {
    let Some((kind, bytes)) = bytes.split_first() else { return false };
    let (tag, view) = (1, View::default());
    let sample = match kind % 3 {
        0 => Ask { tag, view, request: Request::Hello { seat: 1 } }.encode(),
        1 => Answer { tag, view, reply: Reply::Accepted }.encode(),
        _ => {
            let (identity, view, lives) = (1, None, Vec::new());
            Durable::Charter(Charter { identity, view, before: 0, life: 0, lives }).encode()
        }
    };
    let bytes = &[&sample.expect("it is short")[..4], bytes].concat();
    match kind % 3 {
        0 => Ask::decode(bytes).is_ok_and(|ask| {
            assert_eq!(Ask::decode(&ask.encode().expect("it was shorter")).as_ref(), Ok(&ask));
            answered(ask);
            true
        }),
        1 => Answer::decode(bytes).is_ok_and(|answer| {
            let again = answer.encode().expect("it was shorter");
            assert_eq!(Answer::decode(&again), Ok(answer));
            true
        }),
        _ => Durable::decode(bytes).is_ok_and(|durable| {
            let again = durable.encode().expect("it was shorter");
            assert!(again.len() <= 1024, "{} bytes", again.len());
            assert_eq!(Durable::decode(&again), Ok(durable));
            true
        }),
    }
}

/// A keeper that is alone answers whatever it is asked.
fn answered(mut ask: Ask) {
    let node = NodeId(1);
    let keeper = Keeper::fresh(Instant::START, node, &[node], 7, 9, Settings::default());
    let mut keeper = keeper.expect("it keeps alone");
    while let Some(action) = keeper.poll() {
        assert!(matches!(action, Action::Store(_)), "{action:?}");
    }
    // Whoever asks may or may not know which keepers there are.
    for _ in 0..2 {
        let (answer, durable) = keeper.handle(ask.clone());
        let bytes = answer.encode().expect("an answer fits a message");
        assert_eq!(Answer::decode(&bytes), Ok(answer));
        durable.into_iter().for_each(|it| assert!(it.encode().is_ok_and(|it| it.len() <= 1024)));
        ask.view = keeper.charter().view.clone().unwrap_or_default();
    }
}
