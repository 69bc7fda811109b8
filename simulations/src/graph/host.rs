//! Whoever has the graph open: a core of some node, which takes calls, ranks vertices, and puts
//! records and generations.

use std::rc::Rc;

use nile_graph::{Broken, Kept, ONE, Settings};

use super::World;
use super::shelf::Memory;
use super::steps::{either, pause};

const SETTINGS: Settings =
    Settings { error: ONE / 100, patience: 1000, vertices: 1000, edges: 1000 };

/// Opens the graph if it seems that nobody has it, or now and then although somebody has.
pub async fn run(world: Rc<World>, host: usize) {
    loop {
        pause().await;
        let is_open = world.open.iter().any(|it| it.borrow().is_some());
        if is_open && (world.is_calm.get() || world.below(400) > 0) {
            continue;
        }
        let opened = match Kept::open(Memory::new(&world), 0).await {
            Err(Broken::No) => {
                let number = 1 + world.below(1 << 40);
                Kept::create(Memory::new(&world), SETTINGS, number, 1).await
            }
            opened => opened,
        };
        let kept = match opened {
            Ok(kept) => Rc::new(kept),
            Err(Broken::Damaged(damaged)) => return world.breaks(format!("damaged: {damaged}")),
            Err(_) => continue,
        };
        world.opened.set(world.opened.get() + 1);
        world.note(&format!("{host} has it"));
        world.check_opened(&kept);
        world.open[host].replace(Some(kept.clone()));
        either(log(&world, &kept), save(&world, &kept)).await;
        world.open[host].take();
    }
}

async fn log(world: &World, kept: &Kept<Memory>) {
    loop {
        pause().await;
        let sweep = world.below(3) as usize;
        let _ = kept.live.borrow_mut().graph.step(0, 1 + sweep * 9);
        if let Err(Broken::Superseded | Broken::Damaged(_)) = kept.commit().await {
            return;
        }
    }
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
