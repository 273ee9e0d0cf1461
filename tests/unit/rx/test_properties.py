"""Whatever is interleaved: order, one at a time, one end, an account that closes (I1, I3, I7)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Tape

Behaviour: TypeAlias = Literal["return", "sync", "turn", "sleep", "raise", "cancelled", "push"]
Step: TypeAlias = tuple[str, Any]

_behaviours = st.sampled_from(["return", "sync", "turn", "sleep", "raise", "cancelled", "push"])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), _behaviours),
        st.tuples(st.just("turn"), st.none()),
        st.tuples(st.just("wait"), st.none()),
    ),
    max_size=40,
)
_ends = st.sampled_from(["complete", "fail", "dispose", "dispose in handler", "observer"])


class _Scenario:
    """Runs steps against one operator and checks the invariants while it does."""

    def __init__(self, keys: int, cap: int, lanes: int | None) -> None:
        self.keys = keys
        self.channel: EventChannel[int] = EventChannel(cap=cap)
        self.cap = cap
        self.lanes = lanes
        self.behaviours: list[Behaviour] = []
        self.started: defaultdict[int, list[int]] = defaultdict(list)
        self.returned: defaultdict[int, list[int]] = defaultdict(list)
        self.failed: set[int] = set()
        self.running: set[int] = set()
        self.quiet = False

    def key(self, number: int) -> int:
        return number % self.keys

    def handle(self, number: int) -> Any:
        if self.behaviours[number] != "sync":
            return self._handle(number)
        self.started[self.key(number)].append(number)
        self.returned[self.key(number)].append(number)
        return number

    async def _handle(self, number: int) -> int:
        key = self.key(number)
        assert not self.quiet, "a handler started after the end"
        assert key not in self.running, "two handlers at once"
        self.running.add(key)
        self.started[key].append(number)
        try:
            match self.behaviours[number]:
                case "turn":
                    await asyncio.sleep(0)
                case "sleep":
                    await asyncio.sleep(0.01)
                case "raise":
                    raise ValueError(number)
                case "cancelled":
                    raise asyncio.CancelledError
                case "push":
                    self.push("return")
                case _:
                    pass
        finally:
            self.running.discard(key)
        self.returned[key].append(number)
        return number

    def push(self, behaviour: Behaviour) -> None:
        self.behaviours.append(behaviour)
        if not self.channel.push_nowait(len(self.behaviours) - 1):
            self.behaviours.pop()
        assert self.channel.stats().outstanding <= self.cap

    def on_error(self, number: int, error: Exception) -> None:
        self.failed.add(number)

    async def run(self, steps: list[Step], end: str, clock: VirtualClock) -> Tape:
        tape = Tape()
        observable = self.channel.observable().pipe(
            concat_map_async(self.handle, on_error=self.on_error)
            if self.keys == 1
            else concat_map_async_by(
                self.key, self.handle, lanes=self.lanes, on_error=self.on_error
            )
        )

        def observe(number: int) -> None:
            if end == "observer" and len(tape.items) == 5:
                raise RuntimeError("observer")
            if end == "dispose in handler" and len(tape.items) == 5:
                subscription.dispose()
                return
            tape.on_next(number)

        subscription = observable.subscribe(observe, tape.on_error, tape.on_completed)
        for what, behaviour in steps:
            if what == "push":
                self.push(behaviour)
            elif what == "turn":
                await asyncio.sleep(0)
            else:
                await clock.advance(0.02)
        if end == "complete":
            self.channel.complete()
        elif end == "fail":
            self.channel.fail(OSError("source"))
        elif end == "dispose":
            subscription.dispose()
            self.quiet = True
        await clock.advance(10)
        return tape

    def check(self, tape: Tape, end: str) -> None:
        pushed: defaultdict[int, list[int]] = defaultdict(list)
        for number in range(len(self.behaviours)):
            pushed[self.key(number)].append(number)
        emitted: defaultdict[int, list[int]] = defaultdict(list)
        for number in tape.items:
            emitted[self.key(number)].append(number)
        for key in range(self.keys):
            assert self.started[key] == pushed[key][: len(self.started[key])], "arrival order"
            assert emitted[key] == self.returned[key][: len(emitted[key])], "results in order"
        assert len(tape.ends) <= 1
        assert tape.late == []
        assert self.channel.stats().outstanding == 0
        if end in ("complete", "fail"):
            assert [str(how) for how in tape.ends] == [
                "completed" if end == "complete" else "source"
            ]
            for key in range(self.keys):
                assert self.started[key] == pushed[key]
                assert emitted[key] == self.returned[key]
            bad = {n for n, how in enumerate(self.behaviours) if how in ("raise", "cancelled")}
            assert self.failed == bad


@pytest.mark.parametrize("lanes", [None, 2])
@given(steps=_steps, end=_ends, keys=st.integers(1, 4), cap=st.sampled_from([1, 3, 1000]))
def test_any_interleaving_keeps_the_invariants(
    steps: list[Step], end: str, keys: int, cap: int, lanes: int | None
) -> None:
    clock = VirtualClock()

    async def main() -> None:
        scenario = _Scenario(keys, cap, lanes)
        tape = await scenario.run(steps, end, clock)
        scenario.check(tape, end)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    clock.run(main())


@given(
    steps=st.lists(st.sampled_from(["push", "nowait", "turn", "cancel", "release"]), max_size=60),
    policy=st.sampled_from(["wait", "drop_oldest", "drop_newest", "coalesce"]),
    cap=st.integers(1, 5),
    sized=st.booleans(),
    by=st.sampled_from(["serial", "keyed", "mapped"]),
)
@example(steps=["push"] * 4 + ["turn"] * 2, policy="coalesce", cap=1, sized=False, by="serial")
def test_a_channel_never_exceeds_its_bound_and_its_account_closes(
    steps: list[str], policy: Any, cap: int, sized: bool, by: str
) -> None:
    clock = VirtualClock()

    async def main() -> None:
        channel: EventChannel[int] = EventChannel(
            cap,
            overflow=policy,
            key=(lambda n: n % 3) if policy == "coalesce" else None,
            size=(lambda n: n % cap + 1) if sized else None,
        )
        tokens = asyncio.Semaphore(0)
        seen: list[int] = []

        async def handle(number: int) -> None:
            await tokens.acquire()
            seen.append(number)

        source = channel.observable()
        match by:
            case "serial":
                source.pipe(concat_map_async(handle)).subscribe()
            case "keyed":
                source.pipe(concat_map_async_by(lambda _: 0, handle)).subscribe()
            case _:
                source.pipe(concat_map_async(lambda n: n), concat_map_async(handle)).subscribe()

        pushes: list[asyncio.Future[bool]] = []
        results: list[bool] = []
        for number, step in enumerate(steps):
            if step == "push":
                pushes.append(asyncio.ensure_future(channel.push(number)))
            elif step == "nowait":
                results.append(channel.push_nowait(number))
            elif step == "turn":
                await asyncio.sleep(0)
            elif step == "cancel" and pushes:
                pushes[number % len(pushes)].cancel()
            elif step == "release":
                tokens.release()
            assert channel.stats().outstanding <= cap
        for _ in range(len(steps) + 1):
            tokens.release()
        ended = await asyncio.gather(*pushes, return_exceptions=True)
        results += [result for result in ended if isinstance(result, bool)]
        await clock.settle()

        stats = channel.stats()
        assert stats.outstanding == stats.queued == stats.waiting == 0
        assert len(seen) == stats.accepted - stats.merged - _evicted(stats.dropped, results)
        assert sum(results) == stats.accepted
        if policy in ("wait", "drop_newest") and "push" not in steps:
            assert seen == sorted(seen)

    clock.run(main())


def _evicted(dropped: int, results: list[bool]) -> int:
    # Dropped are the refused newcomers, which were never accepted, and the evicted.
    return dropped - results.count(False) if dropped else 0
