//! What a package is to do next, and what it does: one attempt or cut at a time. No IO; tickets
//! name what is done.

/// Names an attempt or a cut of a package.
pub type Ticket = u64;

/// What the package is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Begin this attempt or cut.
    Work(Ticket),
    /// What it does is off.
    Stop(Ticket),
    /// It waits for work though it has not said what came of this: it has lost it.
    Lost(Ticket),
    /// The job is over, or another one has the core.
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
    is_over: bool,
    /// Whether another job has the core.
    is_left: bool,
}

impl Desk {
    /// There is work, to be begun when the package has nothing else to do.
    pub fn queue(&mut self, ticket: Ticket) {
        self.queued = Some(ticket);
        self.is_left = false;
    }

    /// Another job gets the core: when the package has nothing else to do, it is told to end.
    pub fn leave(&mut self) {
        self.is_left = true;
    }

    /// Whether there is anything that the package does or is to do.
    pub fn is_busy(&self) -> bool {
        self.queued.is_some() || self.working.is_some()
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

    /// The package has said what came of its work.
    pub fn let_go(&mut self, ticket: Ticket) {
        if self.working == Some(ticket) {
            self.working = None;
            self.is_off = false;
        }
    }

    /// Takes back what nobody has begun, as there is nobody.
    pub fn take_queued(&mut self) -> Option<Ticket> {
        self.queued.take()
    }

    /// Whether there is something that needs a package.
    pub fn has_work(&self) -> bool {
        self.queued.is_some()
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
        if self.working.is_some() {
            return None;
        }
        if let Some(ticket) = self.queued.take() {
            self.working = Some(ticket);
            return Some(Next::Work(ticket));
        }
        (self.is_over || self.is_left).then_some(Next::End)
    }

    /// The package is no more: what it worked on.
    pub fn died(&mut self) -> Option<Ticket> {
        (self.is_off, self.is_left) = (false, false);
        self.working.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_begun_by_who_is_idle() {
        let mut desk = Desk::default();
        assert_eq!(desk.next(true), None);
        desk.queue(1);
        assert!(desk.has_work());
        assert_eq!(desk.next(true), Some(Next::Work(1)));
        assert_eq!((desk.working(), desk.has_work()), (Some(1), false));
        assert_eq!(desk.next(false), None);
        desk.let_go(1);
        desk.close();
        assert_eq!(desk.next(true), Some(Next::End));
    }

    #[test]
    fn a_package_makes_room_when_it_has_done_its_work() {
        let mut desk = Desk::default();
        desk.queue(1);
        assert_eq!(desk.next(true), Some(Next::Work(1)));
        desk.leave();
        assert_eq!((desk.next(false), desk.is_busy()), (None, true));
        desk.let_go(1);
        assert_eq!((desk.next(true), desk.is_busy()), (Some(Next::End), false));
        assert_eq!(desk.died(), None);
        desk.leave();
        desk.queue(2);
        assert_eq!(desk.next(true), Some(Next::Work(2)), "its turn has come again before it went");
    }

    #[test]
    fn what_is_off_is_told_before_anything_else() {
        let mut desk = Desk::default();
        desk.queue(1);
        assert!(!desk.call_off(1), "nobody has it");
        assert_eq!(desk.next(true), None);
        desk.queue(2);
        assert_eq!(desk.next(true), Some(Next::Work(2)));
        assert!(desk.call_off(2));
        assert_eq!((desk.working(), desk.has(2)), (None, true));
        desk.queue(4);
        assert_eq!(desk.next(false), Some(Next::Stop(2)));
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
        desk.queue(3);
        assert_eq!(desk.next(false), Some(Next::Work(3)), "it has nothing, whatever it says");
        assert_eq!(desk.died(), Some(3));
        assert_eq!((desk.next(true), desk.has_work()), (None, false));
    }
}
