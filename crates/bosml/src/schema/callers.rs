//! Who may call a method, besides the kernels of its own node.

use core::fmt;

/// Somebody who is not the own node's kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CallerKind {
    /// A package, of this node or of another.
    Package = 1,
    /// Whoever operates the cluster: the command line.
    Operator = 2,
    /// The kernel of another node of the cluster.
    Peer = 4,
}

impl CallerKind {
    /// Each of them, in the order of reports.
    pub const ALL: [CallerKind; 3] = [CallerKind::Package, CallerKind::Operator, CallerKind::Peer];

    /// As declarations and discovery documents have it.
    pub const fn name(self) -> &'static str {
        match self {
            CallerKind::Package => "package",
            CallerKind::Operator => "operator",
            CallerKind::Peer => "peer",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<CallerKind> {
        CallerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A set of them: those whom a method's declaration allows to call it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Callers(u8);

impl Callers {
    /// Nobody.
    pub const NONE: Callers = Callers(0);

    /// Everybody.
    pub const ALL: Callers = Callers(7);

    /// Those and this one.
    #[must_use]
    pub const fn with(self, kind: CallerKind) -> Callers {
        Callers(self.0 | kind as u8)
    }

    /// Whether this one is among them.
    pub const fn has(self, kind: CallerKind) -> bool {
        self.0 & kind as u8 != 0
    }

    /// Those who are among both.
    #[must_use]
    pub const fn and(self, other: Callers) -> Callers {
        Callers(self.0 & other.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = CallerKind> {
        CallerKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    /// Those of these names, which spaces part; the first that is none.
    pub(crate) fn parse(text: &str) -> Result<Callers, &str> {
        text.split(' ').filter(|name| !name.is_empty()).try_fold(Callers::NONE, |all, name| {
            CallerKind::from_name(name).map(|kind| all.with(kind)).ok_or(name)
        })
    }
}

impl fmt::Display for Callers {
    /// Their names, with spaces between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, kind) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { " " })?;
            f.write_str(kind.name())?;
        }
        Ok(())
    }
}
