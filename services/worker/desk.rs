//! What a package is to do next, and what it does: one attempt or cut at a time, and exports in
//! between. No IO; tickets name what is done.

use alloc::collections::VecDeque;

/// Names an attempt, a cut or an export of a package.
pub type Ticket = u64;

/// What the package is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Begin this attempt or cut.
    Work(Ticket),
    /// Make this export.
    Export(Ticket),
    /// What it does is off.
    Stop(Ticket),
    /// It waits for work though it has not said what came of this: it has lost it.
    Lost(Ticket),
    /// The job is over.
    End,
}

/// The desk of one job's package.
#[derive(Default, Debug)]
pub struct Desk {
    /// What is to be begun.
    queued: Option<Ticket>,
    /// What the package does, and whether that is off.
    working: Option<Ticket>,
    is_off: bool,
    exports: VecDeque<Ticket>,
    exporting: Option<Ticket>,
    is_over: bool,
}

impl Desk {
    /// There is work, to be begun when the package has nothing else to do.
    pub fn queue(&mut self, ticket: Ticket) {
        self.queued = Some(ticket);
    }

    /// There is an export to be made.
    pub fn export(&mut self, ticket: Ticket) {
        self.exports.push_back(ticket);
    }

    /// The work is off. Gives whether the package has it, and is to be waited for.
    pub fn call_off(&mut self, ticket: Ticket) -> bool {
        if self.queued == Some(ticket) {
            self.queued = None;
        }
        let is_working = self.working == Some(ticket);
        self.is_off |= is_working;
        is_working
    }

    /// The job is over: when it has nothing else to do, the package is told.
    pub fn close(&mut self) {
        self.is_over = true;
    }

    /// What the package works on, if that is not off.
    pub fn working(&self) -> Option<Ticket> {
        self.working.filter(|_| !self.is_off)
    }

    /// Whether the package has this and has not let it go, off or not.
    pub fn has(&self, ticket: Ticket) -> bool {
        self.working == Some(ticket)
    }

    /// The export that is being made.
    pub fn exporting(&self) -> Option<Ticket> {
        self.exporting
    }

    /// The package has said what came of its work.
    pub fn let_go(&mut self, ticket: Ticket) {
        if self.working == Some(ticket) {
            self.working = None;
            self.is_off = false;
        }
    }

    /// The package has said what came of an export.
    pub fn finish(&mut self, ticket: Ticket) {
        if self.exporting == Some(ticket) {
            self.exporting = None;
        }
        self.exports.retain(|queued| *queued != ticket);
    }

    /// Takes back what nobody has begun, as there is nobody.
    pub fn take_queued(&mut self) -> Option<Ticket> {
        self.queued.take()
    }

    /// The same of exports.
    pub fn take_exports(&mut self) -> VecDeque<Ticket> {
        core::mem::take(&mut self.exports)
    }

    /// Whether there is something that needs a package.
    pub fn has_work(&self) -> bool {
        self.queued.is_some() || !self.exports.is_empty()
    }

    /// Whether a package that works on something should ask what there is to do.
    pub fn is_wanted(&self) -> bool {
        self.is_off || !self.exports.is_empty()
    }

    /// What the package does next; `is_idle`: it has nothing to do.
    pub fn next(&mut self, is_idle: bool) -> Option<Next> {
        if let Some(ticket) = self.working
            && (self.is_off || is_idle)
        {
            let is_off = self.is_off;
            self.let_go(ticket);
            return Some(if is_off { Next::Stop(ticket) } else { Next::Lost(ticket) });
        }
        if let Some(ticket) = self.exporting.take() {
            return Some(Next::Lost(ticket));
        }
        if let Some(ticket) = self.exports.pop_front() {
            self.exporting = Some(ticket);
            return Some(Next::Export(ticket));
        }
        if self.working.is_some() {
            return None;
        }
        if let Some(ticket) = self.queued.take() {
            self.working = Some(ticket);
            return Some(Next::Work(ticket));
        }
        self.is_over.then_some(Next::End)
    }

    /// The package is no more: what it worked on, and the export that it made.
    pub fn died(&mut self) -> [Option<Ticket>; 2] {
        self.is_off = false;
        [self.working.take(), self.exporting.take()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_begun_by_who_is_idle_and_exports_come_in_between() {
        let mut desk = Desk::default();
        assert_eq!(desk.next(true), None);
        desk.queue(1);
        assert!(desk.has_work());
        assert_eq!(desk.next(true), Some(Next::Work(1)));
        assert_eq!((desk.working(), desk.is_wanted(), desk.has_work()), (Some(1), false, false));
        assert_eq!(desk.next(false), None);
        desk.export(2);
        desk.export(3);
        assert!(desk.is_wanted());
        assert_eq!(desk.next(false), Some(Next::Export(2)));
        assert_eq!(desk.exporting(), Some(2));
        desk.finish(2);
        assert_eq!(desk.next(false), Some(Next::Export(3)));
        desk.finish(3);
        assert_eq!(desk.next(false), None);
        desk.let_go(1);
        desk.close();
        desk.export(4);
        assert_eq!(desk.next(true), Some(Next::Export(4)));
        desk.finish(4);
        assert_eq!(desk.next(true), Some(Next::End));
    }

    #[test]
    fn what_is_off_is_told_before_anything_else() {
        let mut desk = Desk::default();
        desk.queue(1);
        assert!(!desk.call_off(1), "nobody has it");
        assert_eq!(desk.next(true), None);
        desk.queue(2);
        assert_eq!(desk.next(true), Some(Next::Work(2)));
        desk.export(3);
        assert!(desk.call_off(2));
        assert_eq!((desk.working(), desk.has(2)), (None, true));
        desk.queue(4);
        assert_eq!(desk.next(false), Some(Next::Stop(2)));
        assert_eq!(desk.next(true), Some(Next::Export(3)));
        desk.finish(3);
        assert_eq!(desk.next(true), Some(Next::Work(4)));
        assert!(!desk.call_off(2), "that is long over");
        assert_eq!(desk.working(), Some(4));
    }

    #[test]
    fn what_the_package_forgets_is_lost() {
        let mut desk = Desk::default();
        desk.queue(1);
        assert_eq!(desk.next(true), Some(Next::Work(1)));
        assert_eq!(desk.next(true), Some(Next::Lost(1)));
        desk.export(2);
        assert_eq!(desk.next(true), Some(Next::Export(2)));
        assert_eq!(desk.next(true), Some(Next::Lost(2)));
        desk.queue(3);
        desk.export(4);
        assert_eq!(desk.next(false), Some(Next::Export(4)));
        desk.finish(4);
        assert_eq!(desk.next(false), Some(Next::Work(3)), "it has nothing, whatever it says");
        desk.export(5);
        assert_eq!(desk.next(false), Some(Next::Export(5)));
        assert_eq!(desk.died(), [Some(3), Some(5)]);
        assert_eq!((desk.next(true), desk.has_work()), (None, false));
    }
}
