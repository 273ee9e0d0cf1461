"""Passes frames from a link to the session, at once or when consumers have caught up.

Normally the reader of the link pauses while consumers are behind. But if user code awaits a message
of the runtime, the reader has to continue, because the message may come after many events. When
memory has no room for these events, the reader writes them to a file (`SpillFile`), and passes
other messages to the session at once. The session gets the events of the file later, in order, when
consumers have room. Only then are they *received*. `BackPressure` decides when the reader pauses,
and when it writes to the file.

See rule D6 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from arcp_client._budget import ByteBudget
from arcp_client._dispatch.back_pressure import BackPressure, Reading
from arcp_client._link.driver import Driver
from arcp_client._log_fields import log_fields
from arcp_client._protocol.session import Session, State
from arcp_client._spill import SpillFile
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, ControlFrame, Frame, decode, encode, parse, to_json

__all__ = ["Ingress"]

_log = logging.getLogger("arcp_client.link")

_SLICE = 64  # frames that are read from the file in one iteration of the loop


class Ingress:
    """Passes the frames of a client's links to its session.

    Args:
        driver: gets the frames for the session.
        back_pressure: decides when events wait in the file.
        spill: limit of the file in bytes.
        keep: limit in bytes of the events in memory (`Buffer.bytes`). When the link ends, the
            session still gets the frames of the file if these and the unprocessed events take at
            most ``2 * keep``. Otherwise the resume requests the frames again.

    Attributes:
        aside: whether the reader passes frames to `set_aside` and not to the driver.
    """

    def __init__(
        self, driver: Driver, back_pressure: BackPressure, *, spill: int, keep: int
    ) -> None:
        self.aside = False
        self._driver = driver
        self._back_pressure = back_pressure
        self._keep = keep
        self._limit = spill
        self._spill: SpillFile | None = None
        self._refilling = False
        self._room: asyncio.Future[None] | None = None
        self._published = 0  # `Driver.published` at the last call of next_wait
        back_pressure.refill = self._refill_soon

    @property
    def spilled(self) -> int:
        """The number of frames in the file."""
        return len(self._spill or ())

    @property
    def turn(self) -> int:
        """The number of frames that the reader may take in before it calls `next_wait`."""
        return self._back_pressure.turn

    def next_wait(self, lone: bool = False) -> Awaitable[None] | None:
        """Decide how the reader continues; return what it must await first, or ``None``.

        Args:
            lone: the reader has taken in one frame, of at most `LONE` bytes, since the last call.
                See `BackPressure.spare`.
        """
        back_pressure = self._back_pressure
        published = self._driver.published
        lone = lone and published - self._published <= 1  # a frame may release others
        self._published = published
        if lone and back_pressure.spare > 0:
            back_pressure.spare -= 1
            return None
        reading = back_pressure.decide(lone=lone)
        self.aside = reading is Reading.ASIDE or bool(self._spill)
        if reading is Reading.BY_TURNS:
            return back_pressure.let_run()
        if reading is Reading.HELD:
            return self._with_heartbeat_paused(back_pressure.caught_up())
        return None

    async def set_aside(self, data: bytes) -> None:
        """Write a frame to the file, or to the session if no frames need to be set aside.

        Waits while the file is full.
        """
        driver = self._driver
        if not self._spill and not self._back_pressure.beyond:
            driver.received((data,))
            return
        frame = decode(data)
        if not _stays_in_order(driver.session, frame):
            if frame.event_seq is None:
                driver.received((data,))
                return
            # Some runtimes number other frames, too. The frame goes to the session at once, and a
            # frame without content keeps its number's place in the file.
            at_once, data = _without_number(data, frame.event_seq)
            driver.received((at_once,))
        if not self._append(data):
            await self._with_heartbeat_paused(self._until_stored(data))
        driver.frame_seen()
        self._back_pressure.set_stored(bool(self._spill))
        self._refill_soon()

    async def _until_stored(self, data: bytes) -> None:
        """Stop the reader until the file or memory has room for a frame."""
        self._back_pressure.full = True
        try:
            while not self._append(data):
                if not self._spill and not self._back_pressure.beyond:
                    self._driver.received((data,))  # larger than the file
                    return
                self._room = asyncio.get_running_loop().create_future()
                self._back_pressure.set_stored(True)
                self._refill_soon()
                await self._room
        finally:
            self._room = None
            self._back_pressure.full = False

    def _append(self, data: bytes) -> bool:
        if self._spill is None:
            self._spill = SpillFile(ByteBudget(self._limit))
        return self._spill.append(data)

    async def _with_heartbeat_paused(self, waiting: Awaitable[None]) -> None:
        """Wait with the heartbeat paused, because no frames are read meanwhile (rule D7)."""
        session, driver = self._driver.session, self._driver
        session.pause(driver.now)
        try:
            await waiting
        finally:
            session.unpause(driver.now)

    # -- from the file to the session

    def _refill_soon(self) -> None:
        if not self._refilling:
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        self._refilling = False
        spill, driver = self._spill, self._driver
        taken = 0
        while spill and taken < _SLICE and self._back_pressure.room:
            count = min(_SLICE // 2, len(spill))
            driver.received([spill.pop() for _ in range(count)])
            taken += count
        self._back_pressure.set_stored(bool(spill) or self._room is not None)
        room = self._room
        # A frame that is larger than the file waits for room in memory.
        vacant = taken or (not spill and not self._back_pressure.beyond)
        if room is not None and not room.done() and vacant:
            room.set_result(None)
        if spill and taken:
            self._refill_soon()
        elif taken:
            self._back_pressure.progress()

    # -- the end of a link

    def link_lost(self) -> bool:
        """Empty the file, because the link that brought its frames has ended.

        The session has not received these frames, so the next link's resume requests them again. A
        small file (see ``keep``) is read first, for the sake of runtimes that do not replay events.

        Returns:
            Whether the session has received all frames of the link.
        """
        spill = self._spill
        whole = True
        if spill:
            little = spill.size + self._back_pressure.weight <= 2 * self._keep
            live = self._driver.session.state is State.LIVE
            if little and live:
                for frame in spill:
                    self._driver.received((frame,))
            else:
                whole = False
                _log.warning(
                    "the link ended while %d events waited on disk: %s",
                    len(spill),
                    "the resume requests them again" if live else "they were not handled",
                    extra=log_fields(session=self._driver.session.session_id),
                )
            spill.clear()
        self.aside = False
        self._back_pressure.set_stored(False)
        self._back_pressure.spare = 0
        return whole

    def close(self) -> None:
        """Close the file."""
        if self._spill is not None:
            self._spill.close()
        self._back_pressure.set_stored(False)


def _without_number(data: bytes, number: int) -> tuple[bytes, bytes]:
    """Split a numbered control frame into an unnumbered one and an empty one with the number."""
    content = parse(data)
    content.pop("event_seq", None)
    return to_json(content), encode(names.PONG, {}, id="", event_seq=number)


def _stays_in_order(session: Session, frame: Frame) -> bool:
    """Whether a frame must stay in order behind earlier events.

    True for events, and for messages that end a job or a history. False for an error that answers a
    request.
    """
    if isinstance(frame, ControlFrame):
        return session.in_turn(frame)
    return not isinstance(frame, BadFrame) or frame.event_seq is not None
