//! The label: extents do not overlap, and a torn change leaves the one before.

use alloc::vec;
use alloc::vec::Vec;

use nile_abi::NodeId;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::disk::Disk;
use super::mount;
use crate::label::{LABEL_BYTES, LONGEST_EXTENT_NAME, MOST_EXTENTS};
use crate::{Home, Label, LabelError, Step, UNIT};

const MIB: u64 = 1 << 20;

fn read(disk: &Disk, bytes: u64) -> Result<Label, LabelError> {
    Label::read(&disk.read(0, LABEL_BYTES as usize), bytes, crc32c::crc32c_append)
}

fn names(label: &Label) -> Vec<&str> {
    label.extents().map(|(name, _)| name).collect()
}

fn add(label: &mut Label, name: &str, bytes: Option<u64>) -> Result<Vec<Step>, LabelError> {
    label.add(name, bytes, name.len() as u64, crc32c::crc32c_append).map(|it| it.1)
}

#[test]
fn power_loss_at_every_step_leaves_the_extent_whole_or_absent() {
    for seed in 0..200 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let bytes = 3 * MIB;
        let mut disk = Disk::new(bytes);
        let mut present = Vec::new();
        for name in ["a", "bb", "ccc"] {
            let mut label = read(&disk, bytes).expect("a label");
            let steps = add(&mut label, name, Some(MIB - 4 * UNIT)).expect("there is room");
            for step in &steps {
                disk.step(step);
                let mut crashed = disk.clone();
                crashed.lose_power(&mut random);
                let found = read(&crashed, bytes).expect("one of the labels holds");
                let mut with = present.clone();
                with.push(name);
                assert!(names(&found) == present || names(&found) == with, "{found:?}");
                for (_, extent) in found.extents() {
                    assert!(mount(&crashed, extent).is_ok());
                }
            }
            present.push(name);
        }
    }
}

#[test]
fn extents_share_a_disk() {
    let mut label = Label::read(&[0; LABEL_BYTES as usize], 8 * MIB + 7, crc32c::crc32c_append)
        .expect("a blank disk");
    let mut disk = Disk::new(8 * MIB + 7);
    let mut steps = add(&mut label, "one", Some(2 * MIB)).expect("there is room");
    steps.extend(add(&mut label, "three", Some(3 * MIB)).expect("there is room"));
    let none = Err(LabelError::TooSmall { wanted: 4 * MIB, free: 3 * MIB - LABEL_BYTES });
    assert_eq!(add(&mut label, "four", Some(4 * MIB)), none);
    assert_eq!(add(&mut label, "one", None), Err(LabelError::Exists));
    assert_eq!(add(&mut label, "", None), Err(LabelError::Refused));
    let long = vec![b'x'; LONGEST_EXTENT_NAME + 1];
    let long = core::str::from_utf8(&long).expect("it is");
    assert_eq!(add(&mut label, long, None), Err(LabelError::Refused));
    steps.extend(label.remove("one", crc32c::crc32c_append).expect("it is there"));
    assert!(label.remove("one", crc32c::crc32c_append).is_none());
    // The longest gap is the one at the end.
    steps.extend(add(&mut label, "rest", None).expect("there is room"));
    steps.iter().for_each(|step| assert!(disk.step(step)));
    let found = read(&disk, 8 * MIB + 7).expect("a label");
    assert_eq!((&found, names(&found)), (&label, vec!["three", "rest"]));
    let rest = found.find("rest").expect("it was added");
    assert_eq!((rest.start, rest.bytes), (LABEL_BYTES + 5 * MIB, 3 * MIB - LABEL_BYTES));
    assert!(mount(&disk, rest).is_ok());
    // The same label on a smaller disk names extents that are not there.
    let cut = LabelError::Truncated { wanted: 8 * MIB, disk: 4 * MIB };
    assert_eq!(read(&disk, 4 * MIB), Err(cut));
}

#[test]
fn a_copy_that_is_damaged_is_written_anew() {
    let mut disk = Disk::new(4 * MIB);
    let mut label = read(&disk, 4 * MIB).expect("a blank disk");
    for step in add(&mut label, "one", None).expect("there is room") {
        disk.step(&step);
    }
    assert_eq!(label.renew(crc32c::crc32c_append), [], "the other copy is blank");
    disk.write(100, &[1]);
    let mut found = read(&disk, 4 * MIB).expect("the other copy holds");
    for step in found.renew(crc32c::crc32c_append) {
        disk.step(&step);
    }
    for copy in [0, UNIT] {
        let mut disk = disk.clone();
        disk.write(copy + 100, &[1]);
        assert_eq!(names(&read(&disk, 4 * MIB).expect("one copy holds")), ["one"]);
    }
    // Empty on purpose, whatever its label said.
    let anew = disk.read(0, LABEL_BYTES as usize);
    let mut label = Label::anew(&anew, 2 * MIB, crc32c::crc32c_append);
    let steps = add(&mut label, "two", None).expect("there is room").into_iter();
    let steps: Vec<Step> = steps.chain(label.renew(crc32c::crc32c_append)).collect();
    steps.iter().for_each(|step| assert!(disk.step(step)));
    assert_eq!(names(&read(&disk, 4 * MIB).expect("a label")), ["two"]);
}

#[test]
fn a_disk_with_something_else_is_left_alone() {
    let mut disk = Disk::new(4 * MIB);
    disk.write(510, &[0x55, 0xaa]);
    assert_eq!(read(&disk, 4 * MIB), Err(LabelError::Foreign));
    assert_eq!(Label::read(&[0; 100], MIB, crc32c::crc32c_append), Err(LabelError::Foreign));
}

#[test]
fn a_disk_of_another_version_is_left_alone_and_said_to_be_so() {
    let mut disk = Disk::new(4 * MIB);
    let mut label = read(&disk, 4 * MIB).expect("a blank disk");
    for step in add(&mut label, "one", None).expect("there is room") {
        disk.step(&step);
    }
    let mut copy = disk.read(UNIT, UNIT as usize);
    copy[12] = 1;
    disk.write(UNIT, &copy);
    assert_eq!(read(&disk, 4 * MIB), Err(LabelError::Foreign), "it is damaged");
    let sum = crc32c::crc32c(&copy[12..]);
    copy[8..12].copy_from_slice(&sum.to_le_bytes());
    disk.write(UNIT, &copy);
    assert_eq!(read(&disk, 4 * MIB), Err(LabelError::Version(1)));
}

#[test]
fn a_disk_is_of_one_node_of_one_cluster() {
    let home = |cluster, node| Home { cluster, node: NodeId(node) };
    let made = |own, key| {
        let mut disk = Disk::new(4 * MIB);
        let mut label = read(&disk, 4 * MIB).expect("a blank disk");
        assert_eq!(label.take(own, key, false), Ok(()));
        for step in add(&mut label, "one", None).expect("there is room") {
            disk.step(&step);
        }
        disk
    };
    let taken = |disk: &Disk, own, key| {
        let mut label = read(disk, 4 * MIB).expect("a label");
        label.take(own, key, false).map(|()| label.renew(crc32c::crc32c_append).len())
    };
    let disk = made(home(5, 1), None);
    assert_eq!(taken(&disk, home(5, 1), None), Ok(0));
    assert_eq!(taken(&disk, home(5, 1), Some(3)), Ok(0), "it stays plain");
    for own in [home(5, 2), home(6, 1), home(0, 1)] {
        let error = LabelError::Home { disk: home(5, 1), own };
        assert_eq!(taken(&disk, own, None), Err(error));
    }
    // Of a cluster that nobody had given an identity.
    let disk = made(home(0, 1), None);
    assert_eq!(taken(&disk, home(0, 1), None), Ok(0));
    assert_eq!(taken(&disk, home(5, 1), None), Ok(4), "it is of this cluster from now on");
    assert!(taken(&disk, home(5, 2), None).is_err());
    // Encrypted.
    let disk = made(home(5, 1), Some(3));
    assert_eq!(taken(&disk, home(5, 1), Some(3)), Ok(0));
    for key in [None, Some(4)] {
        let error = LabelError::Key { has_key: key.is_some() };
        assert_eq!(taken(&disk, home(5, 1), key), Err(error));
    }
}

#[test]
fn a_disk_has_so_many_extents() {
    let bytes = 64 * MIB;
    let mut label = Label::read(&[0; LABEL_BYTES as usize], bytes, crc32c::crc32c_append)
        .expect("a blank disk");
    let mut disk = Disk::new(bytes);
    for number in 0..MOST_EXTENTS {
        let name = alloc::format!("{number:063}");
        for step in add(&mut label, &name, Some(MIB)).expect("there is room") {
            disk.step(&step);
        }
    }
    assert_eq!(add(&mut label, "more", Some(MIB)), Err(LabelError::Refused));
    assert_eq!(read(&disk, bytes), Ok(label));
}
