"""What was said of a name, and whether that can be: a name is a register (docs/names.md), so every
operation on it happened at one moment between its call and its end.

A *world* is one way in which all that was heard so far can have come about: what the name stands
for now, and what came of each operation that has happened but not ended. All worlds are kept. An
end that no world allows is a broken promise.
"""

import collections
from collections.abc import Callable
from dataclasses import dataclass, field

# More worlds than so many operations at once on one name can make.
MOST_WORLDS = 100_000


class Broken(Exception):
    """A promise that was not kept."""


@dataclass(frozen=True)
class Value:
    """What a name can stand for: a file that was put, or what a job makes of one."""

    number: int
    bytes: int | None
    is_right: Callable[[bytes], bool] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"#{self.number}"


@dataclass(eq=False)
class Operation:
    """Something that was asked of a name. What it does to the name, `act` says."""

    what: str
    act: Callable[[Value | None], tuple[Value | None, object]]
    is_change: bool
    # Whether another change was under way meanwhile, or may have been.
    is_raced: bool = False
    is_over: bool = False
    # Changes that had ended as unknown before this began: none of them can follow it.
    before: tuple["Operation", ...] = ()


DONE, REFUSED = "done", "refused"


def put(value: Value, replaces: bool) -> Operation:
    def act(now: Value | None) -> tuple[Value | None, object]:
        return (value, DONE) if replaces or now is None else (now, REFUSED)

    return Operation(f"put {value}{' over all' if replaces else ''}", act, is_change=True)


def remove() -> Operation:
    return Operation("rm", lambda now: (None, REFUSED if now is None else DONE), is_change=True)


def read() -> Operation:
    return Operation("read", lambda now: (now, now), is_change=False)


@dataclass(frozen=True)
class World:
    now: Value | None
    happened: frozenset[tuple[Operation, object]]


class History:
    """All that was heard of one name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.worlds = {World(None, frozenset())}
        self.pending: list[Operation] = []
        self.told: collections.deque[str] = collections.deque(maxlen=40)

    def begin(self, operation: Operation) -> Operation:
        changes = [it for it in self.pending if it.is_change]
        operation.is_raced = bool(changes)
        operation.before = tuple(it for it in changes if it.is_over)
        if operation.is_change:
            for other in self.pending:
                other.is_raced = True
        self.pending.append(operation)
        self.told.append(f"begins {operation.what}")
        return operation

    def ended(self, operation: Operation, said: str, allows: Callable[[object], bool]) -> None:
        """It has happened, and what came of it was seen."""
        self.told.append(f"ended  {operation.what}: {said}")
        worlds = set()
        for world in self.reachable():
            for entry in world.happened:
                if entry[0] is operation and allows(entry[1]):
                    worlds.add(World(world.now, world.happened - {entry}))
        self.pending.remove(operation)
        if operation.is_change and said == DONE:
            # A change counts only if its name has not changed since it looked.
            self.forget(operation.before, worlds)
        else:
            self.keep(worlds, operation, said)

    def forget(self, never: tuple[Operation, ...], worlds: set[World]) -> None:
        self.pending = [it for it in self.pending if it not in never]
        left = {
            World(it.now, frozenset(entry for entry in it.happened if entry[0] not in never))
            for it in worlds
        }
        self.keep(left, None, DONE)

    def failed(self, operation: Operation, said: str) -> None:
        """It has changed nothing."""
        self.told.append(f"failed {operation.what}: {said}")
        worlds = {it for it in self.worlds if all(one is not operation for one, _ in it.happened)}
        self.pending.remove(operation)
        self.keep(worlds, operation, said)

    def unknown(self, operation: Operation, said: str) -> None:
        """It may have happened, or happen later, or never."""
        self.told.append(f"unsure {operation.what}: {said}")
        operation.is_over = True

    def possible(self) -> set[Value | None]:
        """What the name may stand for now."""
        return {world.now for world in self.reachable()}

    def reachable(self) -> set[World]:
        """All worlds, with what may have happened since."""
        found, new = set(self.worlds), list(self.worlds)
        while new:
            world = new.pop()
            happened = {operation for operation, _ in world.happened}
            for operation in self.pending:
                if operation in happened:
                    continue
                now, came = operation.act(world.now)
                next_world = World(now, world.happened | {(operation, came)})
                if next_world not in found:
                    found.add(next_world)
                    new.append(next_world)
            if len(found) > MOST_WORLDS:
                raise Broken(f"{self.name!r}: too much is unknown of it")
        return found

    def keep(self, worlds: set[World], operation: Operation | None, said: str) -> None:
        if not worlds:
            may_be = ", ".join(sorted(str(it) for it in {world.now for world in self.worlds}))
            what = operation.what if operation else "a change"
            raise Broken(
                f"{self.name!r}: {what} cannot end so: {said}; it could be {may_be} before\n  "
                + "\n  ".join(self.told)
            )
        self.worlds = worlds
