"""Numbers in any order, lost and repeated, in; what a sequence gives for them, checked."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arcp_client._protocol.sequence import SETTLE, Hole, Sequence, TolerantSequence, Verdict

LIMIT = 6
NUMBERS = st.integers(min_value=1, max_value=30)


class Ordered(RuleBasedStateMachine):
    """A peer that knows the numbers 1 to 30 and sends them as badly as it can."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence: Sequence[int] = Sequence(limit=LIMIT)
        self.now = 0.0
        self.given: list[int] = []
        self.holes: list[Hole] = []
        self.sent: set[int] = set()
        self.asked: list[int] = []
        self.down = False

    def take(self, items: object) -> None:
        for item in items:  # type: ignore[attr-defined]
            if isinstance(item, Hole):
                self.holes.append(item)
            else:
                self.given.append(item)

    def look(self) -> None:
        if self.sequence.should_resume(self.now):
            self.asked.append(self.sequence.cursor)
            self.down = True
        else:
            self.take(self.sequence.expire(self.now))

    @precondition(lambda self: not self.down)
    @rule(number=NUMBERS)
    def arrives(self, number: int) -> None:
        self.sent.add(number)
        before = self.sequence.cursor
        if self.sequence.advance(number):
            verdict = Verdict.NEXT
        else:
            verdict = self.sequence.offer(number, number, self.now)
        if verdict is Verdict.NEXT:
            assert number == before + 1
            self.given.append(number)
            self.take(self.sequence.release())
        elif verdict is Verdict.REPEAT:
            assert number in self.given or number in self.lost or number > before
        else:
            assert number > before + 1
            self.look()

    @precondition(lambda self: not self.down)
    @rule(seconds=st.floats(min_value=0.0, max_value=1.5 * SETTLE))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.look()

    @rule()
    def the_link_drops_and_is_resumed(self) -> None:
        self.down = False
        self.now += 0.1
        self.sequence.opened(self.now)

    @property
    def lost(self) -> set[int]:
        return {n for hole in self.holes for n in range(hole.first, hole.last + 1)}

    @invariant()
    def everything_is_given_once_and_in_order(self) -> None:
        assert self.given == sorted(set(self.given))

    @invariant()
    def what_was_not_given_is_a_hole(self) -> None:
        assert not self.lost & set(self.given)
        assert self.lost | set(self.given) == set(range(1, self.sequence.cursor + 1))

    @invariant()
    def it_is_bounded(self) -> None:
        assert self.sequence.holding <= LIMIT

    @invariant()
    def each_cursor_is_asked_for_once(self) -> None:
        assert len(self.asked) == len(set(self.asked))

    @invariant()
    def what_is_missing_has_a_deadline_or_waits_for_a_link(self) -> None:
        if self.sequence.missing and not self.down:
            assert self.sequence.deadline is not None

    def teardown(self) -> None:
        """Whatever happened: a peer that repeats what it has ends it, without another loss."""
        lost_before = set(self.lost)
        for _ in range(40):
            if not self.sequence.missing:
                break
            self.the_link_drops_and_is_resumed()
            for number in range(self.sequence.cursor + 1, 31):
                self.arrives(number)
                assert not self.down
        assert not self.sequence.missing
        assert self.lost == lost_before


TestOrdered = Ordered.TestCase


class Distrusted(RuleBasedStateMachine):
    """A peer whose numbers repeat and collide; envelope ids are true."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence: TolerantSequence[tuple[int, str]] = TolerantSequence(limit=LIMIT)
        self.now = 0.0
        self.given: list[tuple[int, str]] = []
        self.holes: list[Hole] = []
        self.first: dict[str, int] = {}
        self.waiting_since: float | None = None

    def take(self, items: object) -> None:
        for item in items:  # type: ignore[attr-defined]
            (self.holes if isinstance(item, Hole) else self.given).append(item)

    @rule(number=NUMBERS, name=st.integers(min_value=0, max_value=40))
    def arrives(self, number: int, name: int) -> None:
        item = (number, f"id{name}")
        if self.sequence.is_repeat("job", item[1]):
            assert item[1] in self.first
            return
        assert item[1] not in self.first
        self.first[item[1]] = number
        if self.sequence.advance(number) or (
            self.sequence.offer(number, item, self.now) is Verdict.NEXT
        ):
            self.given.append(item)
            self.take(self.sequence.release())
        self.look()

    @rule(seconds=st.floats(min_value=0.0, max_value=1.5 * SETTLE))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.look()

    @rule()
    def the_link_is_resumed(self) -> None:
        self.sequence.opened(self.now)

    def look(self) -> None:
        assert not self.sequence.should_resume(self.now)
        self.take(self.sequence.expire(self.now))

    @invariant()
    def nothing_is_lost_or_given_twice(self) -> None:
        names = [name for _, name in self.given]
        assert len(names) == len(set(names))
        assert len(names) + self.sequence.holding == len(self.first)

    @invariant()
    def it_is_bounded(self) -> None:
        assert self.sequence.holding <= 2 * LIMIT + 1

    @invariant()
    def nothing_waits_for_long(self) -> None:
        if not self.sequence.holding:
            self.waiting_since = None
            return
        if self.waiting_since is None:
            self.waiting_since = self.now
        assert self.sequence.deadline is not None
        assert self.sequence.deadline <= self.now + SETTLE


TestDistrusted = Distrusted.TestCase


class Bare(RuleBasedStateMachine):
    """Items without a number among numbered ones keep their place, and are never lost."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence: Sequence[str] = Sequence(limit=LIMIT)
        self.next = 0
        self.came: list[str] = []
        self.given: list[str] = []

    @rule(number=st.integers(min_value=1, max_value=12))
    def numbered(self, number: int) -> None:
        verdict = self.sequence.offer(number, f"n{number}", 0.0)
        if verdict is Verdict.NEXT:
            self.given.append(f"n{number}")
            self.given += self.sequence.release()

    @rule()
    def unnumbered(self) -> None:
        item = f"u{self.next}"
        self.next += 1
        self.came.append(item)
        if self.sequence.after(item):
            self.given.append(item)

    @rule()
    def gone(self) -> None:
        self.given += [i for i in self.sequence.abandon() if isinstance(i, str)]
        assert not self.sequence.holding
        assert sorted(i for i in self.given if i[0] == "u") == sorted(self.came)


TestBare = Bare.TestCase
