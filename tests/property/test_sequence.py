"""Numbers in any order, lost and repeated, in; what a sequence gives for them, checked (S17)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arcp_client._dialects._unreliable_numbers import TolerantReassembly
from arcp_client._protocol.reassembly import (
    AGREEING,
    SETTLE,
    LostNumbers,
    Placement,
    Ranges,
    Reassembly,
)

LIMIT = 6
NUMBERS = st.integers(min_value=1, max_value=30)


class Ordered(RuleBasedStateMachine):
    """A peer that knows the numbers 1 to 30 and sends them as badly as it can."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence: Reassembly[int] = Reassembly(limit=LIMIT, reach=LIMIT)
        self.now = 0.0
        self.given: list[int] = []
        self.late: list[int] = []
        self.holes: list[LostNumbers] = []
        self.sent: set[int] = set()
        self.reach = 0  # the highest number that was believed
        self.refused: list[int] = []
        self.asked: list[int] = []
        self.down = False

    def take(self, items: object) -> None:
        for item in items:  # type: ignore[attr-defined]
            if isinstance(item, LostNumbers):
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
        believable = max(before, self.reach) + LIMIT
        if self.sequence.advance(number):
            verdict = Placement.NEXT
        else:
            verdict = self.sequence.offer(number, number, self.now)
        if number > believable:
            self.refused.append(number)
            run = list(range(number - AGREEING + 1, number + 1))
            assert verdict is Placement.BEYOND or self.refused[-AGREEING:] == run
        if verdict is Placement.BEYOND:
            assert number > believable
            assert self.sequence.cursor == before
            return
        self.reach = max(self.reach, number)
        if verdict is Placement.LATE:
            assert number in self.lost
            assert number not in self.late
            self.late.append(number)
        elif verdict is Placement.NEXT:
            assert number == before + 1
            self.given.append(number)
            self.take(self.sequence.release())
        elif verdict is Placement.REPEAT:
            assert number in self.given or number in self.late or number > before
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
        assert not set(self.late) & set(self.given)

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
        self.sequence: TolerantReassembly[tuple[int, str]] = TolerantReassembly(
            limit=LIMIT, reach=LIMIT
        )
        self.now = 0.0
        self.given: list[tuple[int, str]] = []
        self.holes: list[LostNumbers] = []
        self.first: dict[str, int] = {}
        self.beyond = 0
        self.waiting_since: float | None = None

    def take(self, items: object) -> None:
        for item in items:  # type: ignore[attr-defined]
            (self.holes if isinstance(item, LostNumbers) else self.given).append(item)

    @rule(number=NUMBERS, name=st.integers(min_value=0, max_value=40))
    def arrives(self, number: int, name: int) -> None:
        item = (number, f"id{name}")
        if item[1] in self.first:
            return  # a repeat, which the layer below recognises
        self.first[item[1]] = number
        before = self.sequence.cursor
        verdict = Placement.NEXT
        if not self.sequence.advance(number):
            verdict = self.sequence.offer(number, item, self.now)
        if verdict is Placement.BEYOND:
            self.beyond += 1
            assert number > before + LIMIT
        elif verdict is Placement.NEXT:
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
        assert len(names) + self.sequence.holding + self.beyond == len(self.first)

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
        self.sequence: Reassembly[str] = Reassembly(limit=LIMIT)
        self.next = 0
        self.came: list[str] = []
        self.given: list[str] = []

    @rule(number=st.integers(min_value=1, max_value=12))
    def numbered(self, number: int) -> None:
        verdict = self.sequence.offer(number, f"n{number}", 0.0)
        if verdict is Placement.NEXT:
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


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda p: (p[0], sum(p)))),
    st.lists(st.integers(1, 70)),
)
def test_ranges_are_a_set_of_numbers(ranges: list[tuple[int, int]], taken: list[int]) -> None:
    ours = Ranges(ranges)
    theirs = {n for first, last in ranges for n in range(first, last + 1)}
    for number in taken:
        assert ours.remove(number) is (number in theirs)
        theirs.discard(number)
    assert {n for n in range(1, 100) if n in ours} == theirs
    assert ours.last == max(theirs, default=0)


@given(
    st.lists(st.integers(3, 40), min_size=1, unique=True),
    st.sampled_from([Reassembly, TolerantReassembly]),
)
def test_what_comes_after_its_gap_is_delivered_once(
    late: list[int], kind: type[Reassembly[int]]
) -> None:
    """Events 1, 2, then a number far ahead, a pause, then some of the true ones, twice."""
    sequence = kind(limit=100, reach=100)
    now = 0.0
    for number in (1, 2):
        assert sequence.advance(number)
    assert sequence.offer(90, 90, now) is Placement.HELD
    sequence.should_resume(now)
    sequence.opened(now)
    now += 10 * SETTLE
    while sequence.missing:
        if not list(sequence.expire(now)):
            now += SETTLE
    assert sequence.cursor == 90
    for number in late:
        verdict = sequence.offer(number, number, now)
        assert verdict in (Placement.LATE, Placement.NEXT)
    for number in late:
        if kind is Reassembly:  # the others know repeats by their ids
            assert sequence.offer(number, number, now) is Placement.REPEAT
    assert sequence.cursor == 90
