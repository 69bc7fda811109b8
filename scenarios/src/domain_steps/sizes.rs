//! Cores and memory come to domains that run, and leave them.

use alloc::string::String;
use alloc::vec::Vec;

use super::hand::{Hand, Resize, Wanted};
use super::{check, refused};

async fn cores_of<H: Hand>(hand: &mut H, name: &str) -> Result<Vec<u16>, String> {
    Ok(hand.look().await?.domain(name)?.cores.clone())
}

/// A domain comes to have this many cores, and each of them computes.
async fn has<H: Hand>(hand: &mut H, name: &str, count: u16) -> Result<(), String> {
    let cores = cores_of(hand, name).await?;
    check(cores.len() == usize::from(count), format_args!("{name} has {cores:?}, not {count}"))?;
    hand.all_compute(name, count).await
}

pub async fn cores<H: Hand>(hand: &mut H) -> Result<(), String> {
    let before = hand.look().await?;
    let all = before.free_cores.len() as u16;
    let web = Wanted::new("web", 2).within(2, all);
    // The first core is somebody else's, so that web gets it as one more later.
    hand.create(&Wanted::new("first", 1)).await?;
    hand.create(&web).await?;
    refused(hand, "must have 2 to", async |it| it.resize("web", Resize::cores(1)).await).await?;
    for count in [3, all - 1, 2, all - 1] {
        hand.resize("web", Resize::cores(count)).await?;
        has(hand, "web", count).await?;
    }
    let more = Resize::cores(all);
    refused(hand, "none is free", async |it| it.resize("web", more).await).await?;
    hand.destroy("first", false).await?;
    hand.until("its core is free", |it| it.free_cores.len() == 1).await?;
    hand.resize("web", more).await?;
    has(hand, "web", all).await?;
    let seen = cores_of(hand, "web").await?;
    check(seen == before.free_cores, format_args!("web has {seen:?}, and not all"))?;
    // What has the highest number leaves first, and none that the node needs has one of these.
    hand.resize("web", Resize::cores(3)).await?;
    has(hand, "web", 3).await?;
    hand.destroy("web", false).await
}

pub async fn memory<H: Hand>(hand: &mut H) -> Result<(), String> {
    let before = hand.look().await?;
    let all = before.free_units;
    let web = Wanted { most_units: all, ..Wanted::new("web", 2) };
    hand.create(&web).await?;
    let least = web.units;
    for units in [least + 1, all, least + 1, least] {
        hand.resize("web", Resize::units(units)).await?;
        hand.all_compute("web", 2).await?;
        let free = all - units;
        let holds = move |it: &super::Seen| {
            it.free_units == free && it.domain("web").is_ok_and(|web| web.units == units)
        };
        hand.until("memory has come or gone", holds).await?;
    }
    let more = Resize::units(all + 1);
    refused(hand, "must have", async |it| it.resize("web", more).await).await?;
    let one = Resize::units(1);
    refused(hand, "in use", async |it| it.resize("web", one).await).await?;
    hand.all_compute("web", 2).await?;
    hand.destroy("web", false).await
}

pub async fn preempt<H: Hand>(hand: &mut H) -> Result<(), String> {
    let all = hand.look().await?.free_cores.len() as u16;
    hand.create(&Wanted::new("batch", all).within(2, all)).await?;
    let web = Wanted::new("web", 2);
    refused(hand, "none is free", async |it| it.create(&web).await).await?;
    hand.create(&Wanted { priority: 1, ..web }).await?;
    has(hand, "web", 2).await?;
    has(hand, "batch", all - 2).await?;
    // It goes before the other, and leaves it its least.
    let rest = Wanted { priority: 2, ..Wanted::new("rest", all - 3) };
    refused(hand, "cores are wanted", async |it| it.create(&rest).await).await?;
    hand.destroy("web", false).await?;
    hand.resize("batch", Resize::cores(all)).await?;
    has(hand, "batch", all).await?;
    hand.destroy("batch", false).await
}
