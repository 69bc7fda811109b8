//! Whoever has the graph open: a core of some node, which takes calls, ranks vertices, and puts
//! records and generations.

use std::rc::Rc;

use nile_graph::{Broken, Kept, ONE, Part, Received, Settings};

use super::World;
use super::shelf::Memory;
use super::steps::{either, pause};

const SETTINGS: Settings =
    Settings { error: ONE / 100, patience: 1000, vertices: 1000, edges: 1000, part: Part::ALL };

/// Opens the graph if it seems that nobody has it, or now and then although somebody has.
pub async fn run(world: Rc<World>, part: usize, host: usize) {
    let settings = Settings { part: world.part(part), ..SETTINGS };
    let open = &world.parts[part].open;
    loop {
        pause().await;
        let is_open = open.iter().any(|it| it.borrow().is_some());
        if is_open && (world.is_calm.get() || world.below(400) > 0) {
            continue;
        }
        let opened = match Kept::open(Memory::new(&world, part), 0).await {
            Err(Broken::No) => {
                let number = match settings.part.is_divided() {
                    true => world.number,
                    false => 1 + world.below(1 << 40),
                };
                Kept::create(Memory::new(&world, part), settings, number, 1).await
            }
            opened => opened,
        };
        let kept = match opened {
            Ok(kept) => Rc::new(kept),
            Err(Broken::Damaged(damaged)) => return world.breaks(format!("damaged: {damaged}")),
            Err(_) => continue,
        };
        world.opened.set(world.opened.get() + 1);
        world.note(&format!("{host} has {part}"));
        world.check_opened(&kept);
        // By this whoever feeds knows that it was opened anew, also at the same place.
        let life = kept.live.borrow().graph.life();
        if !world.parts[part].lives.borrow_mut().insert(life) {
            world.breaks(format!("two openings of part {part} have the number {life}"));
        }
        open[host].replace(Some(kept.clone()));
        either(log(&world, part, &kept), save(&world, &kept)).await;
        open[host].take();
    }
}

async fn log(world: &World, part: usize, kept: &Rc<Kept<Memory>>) {
    while world.has(part, kept) {
        pause().await;
        let sweep = world.below(3) as usize;
        let _ = kept.live.borrow_mut().graph.step(0, 1 + sweep * 9);
        let to = world.below(world.parts.len() as u64) as usize;
        if to != part
            && let Some(other) = world.open(to)
        {
            match deliver(world, kept, to, &other, world.below(4) == 0) {
                Some(Received::Superseded) => world.leave(to, &other),
                Some(Received::Taken { writer }) if writer > kept.live.borrow().graph.life() => {
                    return;
                }
                _ => {}
            }
        }
        // As when time passes.
        if world.below(60) == 0 {
            kept.live.borrow_mut().graph.remind();
        }
        // As somebody asks it who wants to know all that is kept.
        if world.below(50) == 0
            && let Err(Broken::Superseded) = kept.look().await
        {
            return;
        }
        if let Err(Broken::Superseded | Broken::Damaged(_)) = kept.commit().await {
            return;
        }
    }
}

/// The first letter of a part to another comes to who has that, perhaps once more later. What came
/// of it, if there was one.
pub fn deliver(
    world: &World,
    from: &Kept<Memory>,
    to: usize,
    other: &Kept<Memory>,
    is_again: bool,
) -> Option<Received> {
    let letter = from.live.borrow().graph.letter(to as u32).map(|it| (it.0, it.1.to_vec()));
    let (number, bytes) = letter?;
    world.letters.set(world.letters.get() + 1);
    let received = other.live.borrow_mut().graph.receive(&bytes);
    match received {
        Ok(Received::Taken { .. }) if !is_again => {
            from.live.borrow_mut().graph.sent(to as u32, number);
        }
        Ok(_) => {}
        Err(damaged) => world.breaks(format!("damaged: {damaged}")),
    }
    received.ok()
}

async fn save(world: &World, kept: &Kept<Memory>) {
    loop {
        pause().await;
        // Much more often than is worth while.
        if world.below(40) == 0 || kept.wants_generation() {
            kept.begin_generation();
        }
        match kept.save().await {
            Ok(true) => world.saved.set(world.saved.get() + 1),
            Err(Broken::Superseded | Broken::Damaged(_)) => return,
            Ok(false) | Err(_) => {}
        }
    }
}
