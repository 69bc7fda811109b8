//! Where a node finds a package's image by the package's name.

use alloc::rc::Rc;

/// What a package is loaded from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Image {
    /// An ELF file, not yet checked in any way.
    Elf(&'static [u8]),
    /// The same, which has come while the node runs. A machine that runs no files (a simulation)
    /// has the program that is linked in by the name in its manifest instead.
    Shipped(Rc<[u8]>),
    /// The program of this name, which the machine has linked in (simulations).
    Linked(&'static str),
}

/// The packages that a node was started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Store {
    /// None at all.
    #[default]
    Empty,
    /// The ELF files of these names.
    Files(&'static [(&'static str, &'static [u8])]),
    /// The programs of these names, which the machine has linked in.
    Linked(&'static [&'static str]),
}

impl Store {
    /// The image of the package `name`.
    pub fn find(&self, name: &str) -> Option<Image> {
        match *self {
            Store::Empty => None,
            Store::Files(files) => {
                let file = files.iter().find(|(known, _)| *known == name);
                file.map(|(_, bytes)| Image::Elf(bytes))
            }
            Store::Linked(names) => {
                names.iter().find(|known| **known == name).map(|known| Image::Linked(known))
            }
        }
    }
}
