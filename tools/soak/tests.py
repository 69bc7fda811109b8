"""What the model allows, and what it must not."""

import unittest

from history import DONE, REFUSED, Broken, History, Operation, Value, put, read, remove
from meters import MIB, has_grown

ONE, TWO = (Value(number, 1, lambda got: True) for number in (1, 2))


class Name(History):
    """A history, told in few words."""

    def __init__(self) -> None:
        super().__init__("a")

    def done(self, operation: Operation) -> None:
        self.ended(operation, DONE, lambda came: came == DONE)

    def does(self, operation: Operation) -> None:
        self.done(self.begin(operation))

    def sees(self, operation: Operation, value: Value | None) -> None:
        self.ended(operation, "seen", lambda now: now == value)

    def reads(self, value: Value | None) -> None:
        self.sees(self.begin(read()), value)


class Histories(unittest.TestCase):
    def setUp(self) -> None:
        self.name = Name()

    def test_what_was_put_is_there_until_it_is_removed(self) -> None:
        self.name.reads(None)
        self.name.does(put(ONE, False))
        self.name.reads(ONE)
        self.name.does(remove())
        self.name.reads(None)
        with self.assertRaises(Broken):
            self.name.reads(ONE)

    def test_of_two_puts_one_is_refused(self) -> None:
        first, second = (self.name.begin(put(it, False)) for it in (ONE, TWO))
        self.name.done(second)
        with self.assertRaises(Broken):
            self.name.done(first)
        self.setUp()
        first, second = (self.name.begin(put(it, False)) for it in (ONE, TWO))
        self.name.done(second)
        self.name.ended(first, REFUSED, lambda came: came == REFUSED)
        self.name.reads(TWO)

    def test_readers_beside_a_change_see_either_and_never_go_back(self) -> None:
        self.name.does(put(ONE, False))
        early, change = self.name.begin(read()), self.name.begin(put(TWO, True))
        self.name.reads(ONE)
        self.name.reads(TWO)
        self.name.sees(early, ONE)
        with self.assertRaises(Broken):
            self.name.reads(ONE)
        self.setUp()
        self.name.does(put(ONE, False))
        early, change = self.name.begin(read()), self.name.begin(put(TWO, True))
        self.name.done(change)
        self.name.sees(early, ONE)
        self.name.reads(TWO)

    def test_what_failed_has_changed_nothing(self) -> None:
        self.name.failed(self.name.begin(put(ONE, False)), "no majority")
        with self.assertRaises(Broken):
            self.name.reads(ONE)

    def test_what_is_unknown_happens_late_or_never_but_behind_no_later_change(self) -> None:
        self.name.unknown(self.name.begin(put(ONE, True)), "unknown")
        self.name.reads(None)
        self.name.reads(ONE)
        with self.assertRaises(Broken):
            self.name.reads(None)
        self.setUp()
        self.name.unknown(self.name.begin(put(ONE, True)), "unknown")
        self.name.does(put(TWO, True))
        self.name.reads(TWO)
        with self.assertRaises(Broken):
            self.name.reads(ONE)


class Growth(unittest.TestCase):
    def test_what_doubles_has_grown_and_what_wavers_has_not(self) -> None:
        self.assertTrue(has_grown("rss", 40 * MIB, 80 * MIB))
        self.assertFalse(has_grown("rss", 40 * MIB, 44 * MIB))
        self.assertTrue(has_grown("descriptors", 20, 40))
