//! Domains that ask without end, leave nonsense in their links, and take all room; and ends that
//! die at the worst moment.

use super::*;
use crate::driven_disk::DrivenDisk;

/// Asks for nonsense again as soon as that is answered.
#[test]
fn nonsense_without_end_has_an_end_at_each_look() {
    let machine = Machine::new();
    let nonsense = Asked { what: What::Read, at: 0, bytes: 0 };
    let (link, looks) = (machine.links[0].clone(), Rc::new(Cell::new(0)));
    let (again, counted) = (link.clone(), looks.clone());
    let now = move || {
        counted.set(counted.get() + 1);
        assert!(counted.get() < 1000, "there is no end of it");
        (0..SLOTS).filter(|slot| !again.is_asked(*slot)).for_each(|slot| again.ask(slot, nonsense));
        Instant::START
    };
    let parts = Parts { bytes: PART, first: FIRST };
    let (drum, ledger) = (Box::new(machine.drum.clone()), machine.ledger.clone());
    let links = machine.parts().into_iter();
    let supervisor = SharedDisk::new(drum, parts, links, ledger, (0, |_| ()), now);
    (0..SLOTS).for_each(|slot| link.ask(slot, nonsense));
    let other = machine.domain(1);
    assert!(other.submit(1, &write(0, &[5; 512])));
    other.tell();
    let mut passes = 0;
    while other.complete().is_none() {
        supervisor.tell();
        assert_eq!(supervisor.complete(), None);
        passes += 1;
        assert!(passes < 5, "others are served");
    }
    assert!(supervisor.is_ready(), "it goes on at the next look");
}

/// A domain writes whatever it likes into its link, and is gone.
#[test]
fn what_a_domain_left_in_its_link_is_not_believed() {
    for word in [0, 1, 2, 3, 4, 512, u64::MAX] {
        let machine = Machine::new();
        let supervisor = machine.supervisor();
        machine.drum.0.bytes.borrow_mut().fill(0xee);
        let words = &machine.regions[0].words()[..HEAD_WORDS];
        words.iter().for_each(|it| it.store(word, Ordering::Relaxed));
        machine.give(0, None);
        let mut passes = 0;
        while machine.states[0].renew(|_| ()) != Renewal::Done {
            supervisor.tell();
            assert_eq!(supervisor.complete(), None);
            passes += 1;
            assert!(passes < 20, "{word}");
        }
        assert!(passes > 3, "{word}: it was made as new");
        assert!(machine.contents(OWN, PART).iter().all(|byte| *byte == 0), "{word}");
        assert!(machine.states[0].is_there(), "{word}");
        machine.give(0, Some(1));
        let next = machine.domain(0);
        let Description { bytes, sector_bytes, .. } = next.description();
        assert_eq!((*bytes, u64::from(*sector_bytes)), (PART, SECTOR), "{word}");
        assert!(next.submit(1, &write(0, &[3; 512])));
        assert_eq!(run(&supervisor, &[&next], 3)[0].len(), 1, "{word}");
    }
}

/// Whoever has put something down and ended before the interrupt: the next one interrupts.
#[test]
fn nobody_sleeps_for_good_as_somebody_died() {
    let machine = Machine::new();
    let (supervisor, domain) = (machine.supervisor(), machine.domain(0));
    assert!(!supervisor.is_ready());
    // The domain's core has asked, and interrupted nobody.
    let mute = LinkedDisk::open(machine.links[0].clone(), 5, (|_| ()) as fn(u32)).unwrap();
    assert!(mute.submit(1, &write(0, &[1; 512])));
    drop((mute, domain));
    let woken = machine.woken.clone();
    let wake = move |name| woken.borrow_mut().push(name);
    let domain = LinkedDisk::open(machine.links[0].clone(), 5, wake).unwrap();
    assert!(domain.submit(1, &write(512, &[2; 512])));
    assert!(machine.woken.borrow().contains(&7), "its next incarnation does");
    supervisor.tell();
    assert_eq!(supervisor.complete(), None);
    domain.tell();
    supervisor.tell();
    assert!(!domain.is_ready());
    // The supervisor's core answers, and interrupts nobody.
    let before = machine.woken.borrow().len();
    assert!(core::iter::from_fn(|| machine.drum.complete()).count() > 0);
    machine.links[0]
        .answer((0..SLOTS).find(|slot| machine.links[0].is_asked(*slot)).unwrap(), Answer::Done);
    drop(supervisor);
    let _next = machine.supervisor();
    assert_eq!(machine.woken.borrow()[before..], [5], "its next incarnation does");
    assert!(domain.is_ready());
}

#[test]
fn the_supervisor_s_requests_go_on_though_domains_filled_the_disk() {
    let machine = Machine::new();
    let drum = Drum(Rc::new(Inside { room: 8, ..Inside::new(OWN + 2 * PART) }));
    let machine = Machine { drum, ..machine };
    let disk = Rc::new(DrivenDisk::new(Box::new(machine.supervisor())));
    let domain = machine.domain(0);
    assert!(domain.submit(1, &write(0, &vec![1; 8 * BLOCK_BYTES])));
    machine.drum.0.holds.set(true);
    assert!(!disk.turn(), "none has ended");
    assert_eq!(machine.drum.0.given.borrow().len(), 8, "the domain has all the room");
    let memory = Region::owned(512);
    let own = disk.read(0, vec![piece(&memory)], ());
    assert!(!disk.turn() && !disk.is_idle(), "it waits");
    machine.drum.0.holds.set(false);
    assert!(disk.turn(), "the room is its own now");
    assert_eq!(disk.ended(), 8, "ends of others count");
    assert!(disk.turn() && disk.is_idle());
    assert_eq!(disk.ended(), 9);
    drop(own);
}

/// A core that sleeps until it is interrupted.
struct Sleeper<'a> {
    disk: &'a dyn Disk,
    is_woken: &'a Cell<bool>,
    ended: Vec<Completion>,
}

impl Sleeper<'_> {
    /// Whether it had anything to do.
    fn pass(&mut self) -> bool {
        if !self.is_woken.get() {
            return false;
        }
        self.disk.tell();
        let before = self.ended.len();
        self.ended.extend(core::iter::from_fn(|| self.disk.complete()));
        self.is_woken.set(before < self.ended.len() || self.disk.is_ready());
        true
    }
}

#[test]
fn nobody_sleeps_while_there_is_something_to_do() {
    let machine = Machine::new();
    let woken = [(); 3].map(|()| Rc::new(Cell::new(true)));
    let parts = Parts { bytes: PART, first: FIRST };
    let links = machine.parts();
    let wakes = woken.clone();
    let wake = move |name: u32| wakes[name as usize].set(true);
    let (drum, ledger) = (Box::new(machine.drum.clone()), machine.ledger.clone());
    let now = || Instant::START;
    let shared = SharedDisk::new(drum, parts, links.into_iter(), ledger, (0, wake), now);
    let ends = [0, 1].map(|part| {
        let supervisor = woken[0].clone();
        let wake = move |_| supervisor.set(true);
        LinkedDisk::open(machine.links[part].clone(), part as u32 + 1, wake).unwrap()
    });
    for (tag, end) in (0..3).flat_map(|tag| ends.iter().map(move |end| (tag, end))) {
        assert!(end.submit(tag, &write(0, &vec![1; 30 * BLOCK_BYTES])));
    }
    let disks: [&dyn Disk; 3] = [&shared, &ends[0], &ends[1]];
    let mut cores: Vec<Sleeper> = disks
        .into_iter()
        .zip(&woken)
        .map(|(disk, is_woken)| Sleeper { disk, is_woken, ended: Vec::new() })
        .collect();
    let mut passes = 0;
    while cores.iter_mut().fold(false, |any, core| core.pass() | any) {
        passes += 1;
        assert!(passes < 1000, "they never sleep");
    }
    assert_eq!(cores.iter().map(|it| it.ended.len()).collect::<Vec<_>>(), [0, 3, 3]);
}
