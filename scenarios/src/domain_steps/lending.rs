//! Domains have cores of others for a time (RainForest 5.3: borrowing).

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::hand::{Hand, Resize, Seen, Wanted};
use super::{check, refused};

/// Longer than anything takes here, and no longer than what follows.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(1);

/// What lends, and what borrows.
const BATCH: Wanted<'_> = Wanted::new("batch", 4).within(2, 4);
const WEB: Wanted<'_> = Wanted::new("web", 1).within(1, 2);

/// The cores of lender and borrower.
type Cores = [Vec<u16>; 2];

fn cores_of(seen: &Seen) -> Result<Cores, String> {
    Ok([seen.domain("batch")?.cores.clone(), seen.domain("web")?.cores.clone()])
}

/// Has `batch` lend `web` a core, on which that computes.
async fn lend_for<H: Hand>(hand: &mut H, span: Duration) -> Result<(), String> {
    let [own, others] = cores_of(&hand.look().await?)?;
    hand.lend(("batch", "web"), 1, span).await?;
    if span == LONG {
        let [kept, all] = cores_of(&hand.look().await?)?;
        let lent: Vec<u16> = own.iter().copied().filter(|core| !kept.contains(core)).collect();
        let is_there = lent.len() == 1 && all.contains(&lent[0]) && all.len() == others.len() + 1;
        check(is_there, format_args!("of {own:?} {lent:?} are lent, and web has {all:?}"))?;
        hand.all_compute("web", all.len() as u16).await?;
        hand.all_compute("batch", kept.len() as u16).await?;
    }
    Ok(())
}

/// Each has what it had again, and computes on it.
async fn is_back<H: Hand>(hand: &mut H, before: &Cores) -> Result<(), String> {
    let now = cores_of(&hand.look().await?)?;
    check(now == *before, format_args!("they had {before:?}, and have {now:?}"))?;
    hand.all_compute("batch", before[0].len() as u16).await?;
    hand.all_compute("web", before[1].len() as u16).await
}

pub async fn lend<H: Hand>(hand: &mut H) -> Result<(), String> {
    let all = hand.look().await?;
    hand.create(&BATCH).await?;
    hand.create(&WEB).await?;
    let before = cores_of(&hand.look().await?)?;
    for (cores, why) in [(2, "must have 1 to 2"), (3, "must have 2 to")] {
        refused(hand, why, async |it| it.lend(("batch", "web"), cores, LONG).await).await?;
    }
    refused(hand, "itself", async |it| it.lend(("web", "web"), 1, LONG).await).await?;
    refused(hand, "no cores from others", async |it| it.recall("web").await).await?;

    // Recalled.
    lend_for(hand, LONG).await?;
    let more = Resize::cores(2);
    refused(hand, "must have 1 to 2", async |it| it.resize("web", more).await).await?;
    hand.recall("web").await?;
    is_back(hand, &before).await?;

    // Due. Where domains are hosted, the next command is who looks at the clock.
    lend_for(hand, SHORT).await?;
    let mut now = None;
    for _ in 0..400 {
        drop(hand.resize("web", Resize::cores(1)).await);
        now = Some(cores_of(&hand.look().await?)?);
        if now.as_ref() == Some(&before) {
            break;
        }
        hand.pause(Duration::from_millis(50)).await;
    }
    check(now.as_ref() == Some(&before), format_args!("it is due, and they have {now:?}"))?;
    is_back(hand, &before).await?;

    preempted(hand, &before).await?;

    // Whoever has it ends.
    lend_for(hand, LONG).await?;
    hand.destroy("web", true).await?;
    let own = before[0].clone();
    hand.until("it is back", |it| it.domain("batch").is_ok_and(|it| it.cores == own)).await?;
    hand.all_compute("batch", 4).await?;

    // Whose it is ends: it has no more than its own, and what was lent is nobody's.
    hand.create(&WEB).await?;
    lend_for(hand, LONG).await?;
    hand.destroy("batch", false).await?;
    let free = all.free_cores.len() - 1;
    hand.until("what was lent is free", |it| it.free_cores.len() == free).await?;
    hand.all_compute("web", 1).await?;
    hand.destroy("web", false).await
}

/// Who goes before takes cores of the lender, down to its least, and none that it has lent.
async fn preempted<H: Hand>(hand: &mut H, before: &Cores) -> Result<(), String> {
    lend_for(hand, LONG).await?;
    let [kept, lent] = cores_of(&hand.look().await?)?;
    let first = Wanted { priority: 1, ..Wanted::new("first", 2) };
    hand.create(&first).await?;
    hand.all_compute("first", 2).await?;
    let [left, still] = cores_of(&hand.look().await?)?;
    check(
        left.len() == 2 && kept.len() == 3 && still == lent,
        format_args!("of {kept:?} and {lent:?} stay {left:?} and {still:?}"),
    )?;
    let next = Wanted { priority: 1, ..Wanted::new("next", 1) };
    refused(hand, "cores are wanted", async |it| it.create(&next).await).await?;
    hand.recall("web").await?;
    hand.destroy("first", false).await?;
    hand.resize("batch", Resize::cores(4)).await?;
    let now = cores_of(&hand.look().await?)?;
    let counts = |all: &Cores| all.each_ref().map(Vec::len);
    check(counts(&now) == counts(before), format_args!("they had {before:?}, and have {now:?}"))?;
    hand.all_compute("batch", 4).await?;
    hand.all_compute("web", 1).await
}
