//! What images say, good and bad.

use super::*;
use alloc::vec;

const MIB: u64 = 1 << 20;

fn span(start: u64, pages: u64) -> Span {
    let start = VirtAddr(KERNEL_BASE.0 + start);
    start..VirtAddr(start.0 + pages * PAGE)
}

/// An image with so many pages of code behind 2 MiB.
pub(crate) fn head(pages: u64) -> Head {
    let text = span(2 * MIB, pages);
    let after = text.end.0 - KERNEL_BASE.0;
    let private = span((after + 5 * PAGE).next_multiple_of(LARGE), 10);
    Head {
        abi: ABI,
        begin: VirtAddr(text.start.0 + 8),
        constants: span(after, 2),
        guard: span(after + 2 * PAGE, 1),
        shared: span(after + 3 * PAGE, 1),
        descriptors: span(after + 4 * PAGE, 1),
        data: private.start..VirtAddr(private.start.0 + PAGE + 16),
        private,
        pristine: span(MIB + 16 * PAGE, 2),
        text,
    }
}

/// That of the machine's image.
pub(crate) fn own() -> Head {
    head(700)
}

fn bytes(head: &Head) -> u64 {
    PAGE + layout::bytes(&head.text) + 2 * PAGE + PAGE + 16
}

fn file(head: &Head) -> Vec<u8> {
    head.words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn an_image_says_what_it_is() {
    let head = head(9);
    assert_eq!(Head::read(&file(&head)), Ok(head.clone()));
    assert_eq!(head.judge(&own(), bytes(&head)), Ok(()));
    for file in [&b""[..], b"\x7fELF", &file(&head)[..WORDS * 8 - 1], &[0xff; 4096]] {
        assert_eq!(Head::read(file), Err(ImageRefused::NotAnImage));
    }
}

#[test]
fn what_no_core_can_run_is_refused() {
    let own = own();
    let good = head(9);
    let other = Head { abi: ABI ^ 1, ..good.clone() };
    assert_eq!(other.judge(&own, bytes(&other)), Err(ImageRefused::OtherAbi));
    for off in [0, PAGE, bytes(&good) - 8, bytes(&good) + 8, u64::MAX] {
        assert_eq!(good.judge(&own, off), Err(ImageRefused::NotAnImage), "{off} bytes");
    }
    let large = head(5000);
    assert_eq!(large.judge(&own, bytes(&large)), Err(ImageRefused::TooLarge));

    let turned = |span: &Span| span.end..span.start;
    let moved = |span: &Span, by: i64| {
        VirtAddr(span.start.0.wrapping_add_signed(by))..VirtAddr(span.end.0.wrapping_add_signed(by))
    };
    let longer = |span: &Span, by: u64| span.start..VirtAddr(span.end.0 + by);
    let page = PAGE as i64;
    for (why, bad) in [
        ("begins elsewhere", Head { begin: good.constants.start, ..good.clone() }),
        ("text ends first", Head { text: turned(&good.text), ..good.clone() }),
        ("text over pristine data", Head { text: moved(&good.text, -255 * page), ..good.clone() }),
        ("a gap", Head { constants: moved(&good.constants, page), ..good.clone() }),
        ("half a page", Head { guard: moved(&good.guard, 8), ..good.clone() }),
        ("two parts at one place", Head { shared: good.guard.clone(), ..good.clone() }),
        ("more is shared", Head { shared: longer(&good.shared, PAGE), ..good.clone() }),
        ("data beyond its part", Head { data: longer(&good.data, MIB), ..good.clone() }),
        ("data beyond what is kept", Head { data: longer(&good.data, PAGE), ..good.clone() }),
        ("much data", Head { private: longer(&good.private, 2 * MIB), ..good.clone() }),
        ("the way in", Head { pristine: span(MIB, 2), ..good.clone() }),
        ("nowhere", Head { private: moved(&good.private, 1 << 30), ..good.clone() }),
        ("wraps", Head { text: VirtAddr(!0xfff)..VirtAddr(0), ..good.clone() }),
    ] {
        let judged = bad.judge(&own, bytes(&good));
        assert_eq!(judged, Err(ImageRefused::NotAnImage), "{why}: {bad:?}");
    }
}

#[test]
fn any_words_are_judged() {
    let own = own();
    let (mut seed, mut run) = (7u64, 0);
    for _ in 0..10_000 {
        let mut words = head(9).words();
        for _ in 0..=seed % 4 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695040888963407);
            let at = (seed >> 40) as usize % (WORDS - 2) + 2;
            words[at] = match seed >> 33 & 3 {
                0 => seed,
                1 => words[at].wrapping_add(PAGE),
                2 => words[at].wrapping_sub(PAGE),
                _ => words[2 + (seed >> 50) as usize % (WORDS - 2)],
            };
        }
        let head = Head::from_words(&words);
        if head.judge(&own, head_bytes(&head)).is_ok() {
            let pieces = head.memory_bytes().div_ceil(LARGE);
            let memory: Vec<PhysAddr> = (1..=pieces).map(|at| PhysAddr(at << 30)).collect();
            assert_whole(&head, &memory, &own);
            run += 1;
        }
    }
    assert!(run > 10, "{run} of them can be run");
}

fn head_bytes(head: &Head) -> u64 {
    let part = |span: &Span| span.end.0.wrapping_sub(span.start.0);
    PAGE.wrapping_add(part(&head.text))
        .wrapping_add(part(&head.constants))
        .wrapping_add(part(&head.data))
}

/// No page is there twice, nor a frame of its own.
fn assert_whole(head: &Head, memory: &[PhysAddr], own: &Head) {
    let mappings = head.mappings(memory, own);
    let mut pages: Vec<u64> = mappings.iter().map(|it| it.virt.0).collect();
    let mut frames: Vec<u64> = mappings.iter().map(|it| it.phys.0).collect();
    let count = head.memory_bytes() / PAGE + 2;
    for addresses in [&mut pages, &mut frames] {
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len() as u64, count);
    }
    assert!(pages.iter().all(|it| *it >= FIRST.0));
}

#[test]
fn a_core_has_all_parts_over_its_memory_and_what_is_shared_over_the_machines() {
    let (head, own) = (head(600), own());
    let memory = vec![PhysAddr(0x4000_0000), PhysAddr(0x2000_0000)];
    assert_eq!(head.memory_bytes(), (600 + 2 + 2 + 1 + 10) * PAGE);
    assert_whole(&head, &memory, &own);
    let mappings = head.mappings(&memory, &own);
    let at = |virt: VirtAddr| {
        let found = mappings.iter().find(|it| it.virt == virt).expect("it is mapped");
        (found.phys.0, found.permissions)
    };
    assert_eq!(at(head.text.start), (0x4000_0000, Permissions::READ_EXECUTE));
    let second = VirtAddr(head.text.start.0 + LARGE);
    assert_eq!(at(second), (0x2000_0000, Permissions::READ_EXECUTE));
    let rest = 0x2000_0000 + (600 - 512) * PAGE;
    assert_eq!(at(head.constants.start), (rest, Permissions::READ));
    assert_eq!(at(head.pristine.start), (rest + 2 * PAGE, Permissions::READ));
    assert_eq!(at(head.descriptors.start), (rest + 4 * PAGE, Permissions::READ_WRITE));
    assert_eq!(at(head.private.start), (rest + 5 * PAGE, Permissions::READ_WRITE));
    assert_eq!(at(head.guard.start), (place(&own.guard).start.0, Permissions::READ));
    assert_eq!(at(head.shared.start), (place(&own.shared).start.0, Permissions::READ_WRITE));
}
