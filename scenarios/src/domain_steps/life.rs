//! Domains come, fail and go.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::hand::{Hand, Resize, Seen, Wanted};
use super::{check, refused};

const WEB: Wanted<'_> = Wanted::new("web", 2);
const BATCH: Wanted<'_> = Wanted::new("batch", 1);

pub async fn create<H: Hand>(hand: &mut H) -> Result<(), String> {
    let before = hand.look().await?;
    let all = before.free_cores.len() as u16;
    let too_many = Wanted::new("web", all + 1);
    refused(hand, "cores are wanted", async |it| it.create(&too_many).await).await?;
    let units = before.free_units + 1;
    let too_large = Wanted { units, most_units: units, ..WEB };
    refused(hand, "MiB are wanted", async |it| it.create(&too_large).await).await?;
    hand.create(&WEB).await?;
    let seen = hand.look().await?;
    let web = seen.domain("web")?;
    let cores = web.cores.iter().chain(&seen.free_cores).copied();
    let (cores, units) = (sorted(cores), web.units + seen.free_units);
    check(web.cores.len() == 2 && web.units == WEB.units, format_args!("it has {web:?}"))?;
    let are_all = cores == sorted(before.free_cores) && units == before.free_units;
    check(are_all, format_args!("something is missing in {seen:?}"))?;
    hand.all_compute("web", 2).await?;
    refused(hand, "a domain web already", async |it| it.create(&WEB).await).await?;
    hand.destroy("web", false).await
}

fn sorted(cores: impl IntoIterator<Item = u16>) -> Vec<u16> {
    let mut cores: Vec<u16> = cores.into_iter().collect();
    cores.sort_unstable();
    cores
}

pub async fn many<H: Hand>(hand: &mut H) -> Result<(), String> {
    let before = hand.look().await?;
    let names: Vec<String> = before.free_cores.iter().map(|core| format!("d{core}x")).collect();
    for name in &names {
        hand.create(&Wanted::new(name, 1)).await?;
    }
    let seen = hand.look().await?;
    check(seen.free_cores.is_empty(), format_args!("cores are free in {seen:?}"))?;
    refused(hand, "none is free", async |it| it.create(&BATCH).await).await?;
    for name in &names {
        hand.all_compute(name, 1).await?;
    }
    // Those in the middle first.
    let (first, last) = names.split_at(names.len() / 2);
    for name in last.iter().chain(first) {
        hand.destroy(name, false).await?;
    }
    Ok(())
}

pub async fn destroy<H: Hand>(hand: &mut H) -> Result<(), String> {
    let before = hand.look().await?;
    let wanted = WEB.within(1, 3);
    let larger = Wanted { most_units: 24, ..wanted };
    for after in hand.moments() {
        // While it is built, and starts.
        hand.begin_to_create(&larger, *after).await;
        ended(hand, &before).await?;
        // While something comes to it.
        hand.create(&larger).await?;
        let more = Resize { cores: Some(3), units: Some(24), force: false };
        hand.begin_to_resize("web", more, *after).await;
        ended(hand, &before).await?;
    }
    // While it runs, with and without being asked; and when it has failed.
    for (force, fails) in [(false, false), (true, false), (true, true)] {
        hand.create(&larger).await?;
        if fails {
            hand.end_manager(Some("web")).await?;
        }
        hand.destroy("web", force).await?;
        hand.until("nothing of it is left", |it| *it == before).await?;
    }
    Ok(())
}

/// Ends a domain about which a command may be under way, or not yet.
async fn ended<H: Hand>(hand: &mut H, before: &Seen) -> Result<(), String> {
    const QUIET: u32 = 3;
    let (mut quiet, mut last) = (0, Ok(()));
    for _ in 0..200 {
        if hand.look().await? == *before {
            quiet += 1;
        } else {
            quiet = 0;
            last = hand.destroy("web", true).await;
        }
        if quiet > QUIET {
            return Ok(());
        }
        hand.pause(Duration::from_millis(50)).await;
    }
    Err(format!("something of it stays: {last:?}, {:?}", hand.look().await))
}

pub async fn restart<H: Hand>(hand: &mut H) -> Result<(), String> {
    hand.create(&WEB).await?;
    hand.create(&BATCH).await?;
    let (before, was) = (hand.look().await?, hand.generation("web").await?);
    hand.restart("web").await?;
    let (after, is) = (hand.look().await?, hand.generation("web").await?);
    check(before == after, format_args!("{before:?} became {after:?}"))?;
    check(is > was, format_args!("generation {was} became {is}"))?;
    hand.all_compute("web", 2).await?;
    hand.all_compute("batch", 1).await?;
    hand.destroy("web", false).await?;
    hand.destroy("batch", false).await
}

pub async fn supervisor_restart<H: Hand>(hand: &mut H) -> Result<(), String> {
    hand.create(&WEB).await?;
    let (before, begun) = (hand.look().await?, hand.running("web").await?);
    for _ in 0..2 {
        hand.end_manager(None).await?;
        hand.all_compute("web", 2).await?;
        hand.until("the ledger is there", |it| *it == before).await?;
    }
    let now = hand.running("web").await?;
    check(now == begun, format_args!("the domain's cores began anew: {begun:?}, now {now:?}"))?;
    hand.create(&BATCH).await?;
    hand.all_compute("batch", 1).await?;
    hand.destroy("web", false).await?;
    hand.destroy("batch", false).await
}

pub async fn meet<H: Hand>(hand: &mut H) -> Result<(), String> {
    hand.create(&WEB).await?;
    hand.create(&BATCH).await?;
    for (one, other) in [("web", "batch"), ("batch", "web")] {
        let mut knows = false;
        for _ in 0..200 {
            knows = hand.knows(one, other).await?;
            if knows {
                break;
            }
            hand.pause(Duration::from_millis(50)).await;
        }
        check(knows, format_args!("{one} does not find {other}"))?;
    }
    hand.destroy("batch", false).await?;
    hand.all_compute("web", 2).await?;
    hand.destroy("web", false).await
}

pub async fn isolation<H: Hand>(hand: &mut H) -> Result<(), String> {
    let (red, blue) = (Wanted::new("red", 2), Wanted::new("blue", 2));
    hand.create(&red).await?;
    let (before, begun) = (hand.look().await?, hand.running("red").await?);
    for round in 0..3 {
        hand.create(&blue).await?;
        hand.all_compute("blue", 2).await?;
        if round < 2 {
            hand.end_manager(Some("blue")).await?;
            hand.all_compute("red", 2).await?;
            hand.all_compute("blue", 2).await?;
        }
        // One that has failed is not asked: its cores are taken in whatever they do.
        hand.destroy("blue", round < 2).await?;
        hand.all_compute("red", 2).await?;
    }
    let after = hand.until("blue is gone", |it| it.domains.len() == 1).await?;
    check(
        before.domain("red")? == after.domain("red")?,
        format_args!("red was {before:?}, and is {after:?}"),
    )?;
    let now = hand.running("red").await?;
    check(now == begun, format_args!("red's cores began anew: {begun:?}, now {now:?}"))?;
    hand.destroy("red", false).await
}
