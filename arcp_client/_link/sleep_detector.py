"""Pings the runtime after the machine has slept, because the link may be dead.

Timers use the monotonic clock, which stops while a machine sleeps. The wall clock does not stop. So
if the wall clock has advanced further than the monotonic clock, the machine has slept. The client
then pings at once, instead of waiting for two silent heartbeat intervals. A blocked event loop
affects both clocks alike.

See rule S12 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from arcp_client._link.driver import Driver
from arcp_client._protocol.pending import Request
from arcp_client._protocol.session import State
from arcp_client._wire import names
from arcp_client._wire.ids import new_id, now_text
from arcp_client._wire.messages import Ping
from arcp_client.errors import ArcpError, HeartbeatLost, RequestTimeout

__all__ = ["Drift", "SleepDetector", "probe"]

LOOK_EVERY: Final = 2.0
"""Seconds between two checks of the clocks."""
JUMP: Final = 5.0
"""Difference in seconds that counts as sleep. Clocks that a network adjusts drift less."""
ANSWER_WITHIN: Final = 5.0
"""Seconds to wait for the pong; less if the heartbeat interval is shorter."""


class Drift:
    """Measures how far the wall clock runs ahead of the monotonic clock between two checks."""

    def __init__(self, now: float, wall: float) -> None:
        self._now = now
        self._wall = wall

    def slept(self, now: float, wall: float) -> bool:
        """Whether the machine seems to have slept since the last check."""
        ahead = (wall - self._wall) - (now - self._now)
        self._now, self._wall = now, wall
        return ahead > JUMP


class WatchedLink(Protocol):
    """A link whose peer may be gone after the machine has slept."""

    def slept(self) -> None:
        """Check whether the peer still answers."""


class SleepDetector:
    """Checks the clocks for all links of one event loop."""

    _by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, SleepDetector]] = (
        WeakKeyDictionary()
    )

    def __init__(self) -> None:
        # Neither the links nor the timer are referenced: they refer to the loop, which is the key.
        self._links: WeakSet[WatchedLink] = WeakSet()
        self._drift: Drift | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> SleepDetector:
        """The detector of a loop."""
        found = cls._by_loop.get(loop)
        if found is None:
            found = cls._by_loop[loop] = cls()
        return found

    def add(self, link: WatchedLink) -> None:
        """From now on, call `WatchedLink.slept` of this link after the machine has slept."""
        self._links.add(link)
        if self._drift is None:
            loop = asyncio.get_running_loop()
            self._drift = Drift(loop.time(), time.time())
            loop.call_later(LOOK_EVERY, self._look, loop)

    def discard(self, link: WatchedLink) -> None:
        """Call `WatchedLink.slept` of this link no more."""
        self._links.discard(link)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._drift is not None
        now = loop.time()
        slept = self._drift.slept(now, time.time())
        if not self._links:
            self._drift = None
            return
        loop.call_at(now + LOOK_EVERY, self._look, loop)
        if slept:
            for link in tuple(self._links):
                link.slept()


async def probe(
    driver: Driver, *, reading: Callable[[], bool], dead: Callable[[ArcpError], None]
) -> None:
    """Ping the peer; call ``dead`` if no answer arrives in time.

    Args:
        driver: runs the session.
        reading: whether the reader is reading; while it pauses, a missing answer proves nothing.
        dead: called when no answer arrived in time.
    """
    session = driver.session
    if session.state is not State.LIVE:
        return
    assert session.info is not None
    nonce = new_id()
    seconds = min(session.info.heartbeat_interval or ANSWER_WITHIN, ANSWER_WITHIN)
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    request = Request(
        kind=names.PING,
        payload=Ping(nonce=nonce, sent_at=now_text()).wire(),
        deadline=driver.now + seconds,
        nonce=nonce,
        token=answer,
    )
    session.request(request, driver.now)
    driver.carry_out()
    try:
        await answer
    except RequestTimeout:
        if reading():
            dead(HeartbeatLost(f"no answer within {seconds:g} s after this machine slept (§6.4)"))
    except ArcpError:
        pass  # the session has ended, heartbeats are not negotiated, or the refusal is an answer
    finally:
        session.withdraw(request)
