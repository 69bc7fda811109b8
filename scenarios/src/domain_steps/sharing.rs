//! Memory that domains share, and what goes over it.

use alloc::string::String;

use nile_abi::Status;
use nile_primes::{NOTHING, REFUSED};

use super::hand::{Hand, Wanted};
use super::{check, refused};

/// A core of each domain that has packages.
const WEB: (&str, u16) = ("web", 1);
const BATCH: (&str, u16) = ("batch", 1);

/// What packages count primes below together, and how many there are.
const COUNT: &str = "count 2000000";
const HOLD: &str = "hold 2000000";
const JOIN: &str = "join 148933";

async fn two<H: Hand>(hand: &mut H, shared: &str) -> Result<(), String> {
    for name in ["web", "batch"] {
        hand.create(&Wanted::new(name, 2).for_packages()).await?;
        hand.all_compute(name, 2).await?;
    }
    hand.share(shared, 1, &["web", "batch"]).await
}

async fn none<H: Hand>(hand: &mut H) -> Result<(), String> {
    hand.destroy("web", true).await?;
    hand.destroy("batch", true).await
}

pub async fn map<H: Hand>(hand: &mut H) -> Result<(), String> {
    let free = hand.look().await?.free_units;
    two(hand, "primes").await?;
    let seen = hand.look().await?;
    let had = [(String::from("primes"), ["web", "batch"].map(String::from).to_vec())];
    check(seen.shared == had, format_args!("shared is {:?}", seen.shared))?;
    check(seen.free_units == free - 64 - 1, format_args!("free is {}", seen.free_units))?;
    refused(hand, "there already", async |it| it.share("primes", 2, &["web"]).await).await?;
    refused(hand, "nothing is shared", async |it| it.unshare("other", &[]).await).await?;
    // There is nothing to join, as it is zero.
    hand.fails(WEB, ["primes", JOIN], NOTHING).await?;

    // It is not withdrawn while it is used, nor by who began anew.
    hand.start(BATCH, "primes", HOLD).await?;
    let withdraw = async |it: &mut H| it.unshare("primes", &["batch"]).await;
    refused(hand, "packages have it", withdraw).await?;
    // What one had that is gone, the others do.
    hand.stop(BATCH, "primes").await?;
    hand.start(WEB, "primes", COUNT).await?;
    hand.start(BATCH, "primes", JOIN).await?;
    hand.all_done(WEB).await?;
    hand.all_done(BATCH).await?;

    // Who has none of it any more finds none, and it stays the other's.
    hand.unshare("primes", &["batch"]).await?;
    refused(hand, "batch does not share primes", withdraw).await?;
    let missing = REFUSED + u64::from(Status::NotFound.code());
    hand.fails(BATCH, ["primes", JOIN], missing).await?;
    hand.destroy("web", true).await?;
    hand.until("nobody shares it", |it| it.shared.is_empty()).await?;
    // The next ones find nothing there.
    hand.share("primes", 1, &["batch"]).await?;
    hand.fails(BATCH, ["primes", JOIN], NOTHING).await?;
    hand.destroy("batch", true).await
}

pub async fn packets<H: Hand>(hand: &mut H) -> Result<(), String> {
    two(hand, "rf").await?;
    for (echo, ping) in [("echo 0", "ping 0 100 64"), ("take 1", "send 1 1")] {
        hand.start(BATCH, "rf", echo).await?;
        hand.start(WEB, "rf", ping).await?;
        hand.all_done(WEB).await?;
        hand.all_done(BATCH).await?;
    }
    // An end that is gone has closed: whoever comes next in its place does not find its packets.
    hand.start(BATCH, "rf", "echo 2").await?;
    hand.stop(BATCH, "rf").await?;
    hand.start(BATCH, "rf", "echo 2").await?;
    hand.start(WEB, "rf", "ping 2 10 1000").await?;
    hand.all_done(WEB).await?;
    hand.all_done(BATCH).await?;
    none(hand).await
}

pub async fn messages<H: Hand>(hand: &mut H) -> Result<(), String> {
    two(hand, "rf").await?;
    let third = ("third", 1);
    hand.create(&Wanted::new("third", 2).for_packages()).await?;
    hand.all_compute("third", 2).await?;
    hand.share("rf", 1, &["third"]).await?;
    // To all.
    for place in [BATCH, third] {
        hand.start(place, "rf", "hear 1 hello").await?;
    }
    hand.start(WEB, "rf", "say hello").await?;
    for place in [WEB, BATCH, third] {
        hand.all_done(place).await?;
    }
    // More than there is room for, to some, of whom one takes nothing.
    hand.start(third, "rf", "deaf").await?;
    hand.start(BATCH, "rf", "drain 1000").await?;
    hand.start(WEB, "rf", "flood 1000 2").await?;
    hand.all_done(WEB).await?;
    hand.all_done(BATCH).await?;
    hand.stop(third, "rf").await?;
    hand.destroy("third", true).await?;
    none(hand).await
}
