"""An event loop with virtual time, in which timers run without waiting.

When no callback is ready, the loop advances its clock to the next timer and does not wait for it.
Sockets and threads run in real time, so the loop polls them before it advances the clock.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Self, TypeVar, TypeVarTuple
from unittest import mock

__all__ = ["VirtualClock", "VirtualTimeLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_real_time = time.time
_SELF_PIPE = 1  # every loop has registered one file itself
_EXECUTOR_GRACE = 1.0
_RESOLUTION = 1e-9  # asyncio runs a timer that is due within this time


class VirtualClock:
    """The time of a `VirtualTimeLoop`.

    In a test without an event loop of its own::

        def test_it_gives_up_after_an_hour():
            clock = VirtualClock()
            clock.run(scenario(clock))
            assert clock.time() >= 3600

    With pytest-asyncio 1.4 or later, this in ``conftest.py`` gives every test that asks for the
    fixture ``clock`` a loop with virtual time::

        def pytest_asyncio_loop_factories(config, item):
            virtual = "clock" in item.fixturenames
            return {"virtual": VirtualTimeLoop} if virtual else {"real": asyncio.new_event_loop}

        @pytest_asyncio.fixture
        async def clock():
            with VirtualClock.current().installed() as clock:
                yield clock

    Virtual time applies to ``loop.time()``, and so to ``asyncio.sleep``, timeouts and
    ``call_later``; inside `run` or `installed`, also to calls of ``time.time()``. It does not apply
    to ``time.monotonic()``, ``datetime.now()``, an earlier ``from time import time``, threads,
    child processes and peers in other processes.

    Args:
        grace: real seconds to wait for sockets and threads, if there are any, before time jumps.
    """

    def __init__(self, *, grace: float = 0.005) -> None:
        self._grace = grace
        self._now = 0.0
        self._wall_offset = _real_time()
        self._jumps = 0
        self._settling: list[asyncio.Future[None]] = []

    @classmethod
    def current(cls) -> VirtualClock:
        """The clock of the running loop.

        Raises:
            RuntimeError: the running loop is not a `VirtualTimeLoop`.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise RuntimeError("the running event loop has real time; run it by VirtualClock")
        return loop.clock

    @property
    def grace(self) -> float:
        """Real seconds to wait for sockets and threads before time jumps."""
        return self._grace

    @property
    def jumps(self) -> int:
        """How often the clock was advanced to the next timer."""
        return self._jumps

    def time(self) -> float:
        """Return monotonic seconds, like ``loop.time()``; 0 at first."""
        return self._now

    def wall(self) -> float:
        """Return seconds since the epoch: the real time at the start plus virtual time."""
        return self._wall_offset + self._now

    def jump_wall(self, seconds: float) -> None:
        """Advance only the wall clock, like a machine that slept; timers are not affected."""
        self._wall_offset += seconds

    async def advance(self, seconds: float) -> None:
        """Let time pass. When this returns, the callbacks that fell due have run, in order."""
        await asyncio.sleep(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Wait until every callback that needs no further time has run."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settling.append(waiter)
        await waiter

    def idle(self, seconds: float | None) -> bool:
        """Called by an idle loop: advance time. False if the loop must wait for files."""
        if self._settling:
            settled, self._settling = self._settling, []
            for waiter in settled:
                if not waiter.done():
                    waiter.set_result(None)
            return True
        if seconds is None:
            return False
        self._now += seconds
        if self._now + _RESOLUTION == self._now:
            # After half a year a float is less precise than asyncio's resolution, and a timer would
            # be due forever without running.
            self._now = math.nextafter(self._now, math.inf)
        self._jumps += 1
        return True

    def new_loop(self) -> VirtualTimeLoop:
        """Make a loop with this clock; a ``loop_factory`` for ``asyncio.Runner``."""
        return VirtualTimeLoop(self)

    @contextmanager
    def installed(self) -> Iterator[Self]:
        """Make ``time.time()`` return `wall`."""
        with mock.patch("time.time", self.wall):
            yield self

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in virtual time, like ``asyncio.run``."""
        with self.installed(), asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(main)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits for a timer.

    Args:
        clock: the clock to use; a new one by default.
    """

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self._jobs = 0
        super().__init__(_Selector(self.clock, waits=lambda: self._jobs > 0))

    def time(self) -> float:
        """The virtual time in seconds."""
        return self.clock.time()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Like in every loop. Meanwhile, virtual time stands still for up to a real second."""
        job = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        job.add_done_callback(self._job_done)
        return job

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Shut the executor down without a time limit, which would pass at once in virtual time."""
        self._jobs += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jobs -= 1

    def _job_done(self, _job: asyncio.Future[Any]) -> None:
        self._jobs -= 1


class _Selector(selectors.BaseSelector):
    """Polls files without waiting, and advances the clock when another selector would wait."""

    def __init__(self, clock: VirtualClock, *, waits: Callable[[], bool]) -> None:
        self._clock = clock
        self._waits = waits
        self._files = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._files.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        grace = self._real_wait()
        if grace:
            ready = self._files.select(grace)
            if ready:
                return ready
        return [] if self._clock.idle(timeout) else self._files.select(None)

    def _real_wait(self) -> float:
        if self._waits():
            return max(self._clock.grace, _EXECUTOR_GRACE)
        if len(self._files.get_map()) > _SELF_PIPE or threading.active_count() > 1:
            return self._clock.grace
        return 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.get_key(fileobj)

    def close(self) -> None:
        self._files.close()
