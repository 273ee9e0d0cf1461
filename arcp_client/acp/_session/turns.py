"""Tracks the turns of a session: the turn of each update, and the cancellation of a turn.

A turn is *open* from the sending of its prompt until the answer arrives. An update belongs to the
turn if it lies between the prompt and the answer in the inbox; for such updates the turn is
*current*.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from functools import partial

from arcp_client.acp import schema
from arcp_client.acp._base import Origin
from arcp_client.acp._connection.calls import Outcome, Settle
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._connection.lane import UpdateLane
from arcp_client.acp._decode import Misshapen, decode
from arcp_client.acp.turn import Turn
from arcp_client.errors import ClientClosed

__all__ = ["OpenTurn", "Turns"]


class OpenTurn:
    """A prompt that was sent and not answered yet."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.cancel_requested = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.killer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """Mark the turn as ended."""
        if self.killer is not None:
            self.killer.cancel()
        if not self.ended.done():
            self.ended.set_result(None)


class Turns:
    """The turns of one session.

    Args:
        connection: the connection.
        session_id: the session.
        lane: the lane of the session.
    """

    def __init__(self, connection: AgentConnection, session_id: str, lane: UpdateLane) -> None:
        self._connection = connection
        self._session_id = session_id
        self._lane = lane
        version2 = connection.version2
        self._work = None if version2 is None else version2.work()
        self._count = 0
        self._open: dict[int, OpenTurn] = {}
        self._current: list[int] = []
        self._replays = 0
        self.origin = Origin(session_id, None, False)
        self.last: Turn | None = None

    @property
    def cancelling(self) -> bool:
        """Whether a turn is being cancelled: requested, but not answered yet."""
        return any(turn.cancel_requested for turn in self._open.values())

    @property
    def busy(self) -> bool:
        """Whether a turn is open."""
        return bool(self._open)

    async def idle(self) -> None:
        """Wait until no turn is open."""
        try:
            while self._open:
                await asyncio.wait([turn.ended for turn in self._open.values()])
        except asyncio.CancelledError:
            if self.cancelling:
                self._arm()
            raise

    def begin(self) -> OpenTurn:
        """Open a turn for a prompt that is about to be sent."""
        self._count += 1
        turn = self._open[self._count] = OpenTurn(self._count)
        self._lane.do(partial(self._enter, turn.number))
        return turn

    def answered(self, turn: OpenTurn, outcome: Outcome) -> None:
        """Record the answer. The result is kept even if the caller was cancelled."""
        self.close(turn)
        if isinstance(outcome, bytes):
            try:
                self.result(turn, decode(schema.PromptResponse, outcome))
            except Misshapen:
                return  # the caller raises the error

    def close(self, turn: OpenTurn) -> None:
        """Close the turn. Idempotent."""
        if self._open.pop(turn.number, None) is not None:
            self._lane.do(partial(self._exit, turn.number))
        turn.end()

    def deferral(self, turn: OpenTurn) -> Callable[[Outcome, Settle], None] | None:
        """Return what defers the outcome of a prompt to the end of the agent's work (version 2)."""
        return None if self._work is None else self._work.prompt(lambda: turn.cancel_requested)

    def seen(self, line: bytes) -> None:
        """Note an update that may end turns (version 2)."""
        if self._work is not None:
            self._work.seen(line)

    def fail(self, error: Exception) -> None:
        """Fail the prompts whose end an update would report (version 2)."""
        if self._work is not None:
            self._work.fail(lambda: copy.copy(error))

    def close_all(self) -> None:
        """Close all turns, because the session ends."""
        self.fail(ClientClosed(f"the session {self._session_id} was closed here"))
        for turn in list(self._open.values()):
            turn.end()

    def result(self, turn: OpenTurn, response: schema.PromptResponse) -> Turn:
        """Convert the answer to a `Turn`."""
        self.last = Turn(
            stop_reason=response.stop_reason,
            cancel_requested=turn.cancel_requested,
            usage=response.usage,
            number=turn.number,
            meta=response.meta,
        )
        return self.last

    def replay(self, step: int) -> None:
        """Note the beginning (1) or the end (-1) of a replay, in order with the updates."""
        self._replays += step
        self._locate()

    def _enter(self, number: int) -> None:
        self._current.append(number)
        self._locate()

    def _exit(self, number: int) -> None:
        if number in self._current:
            self._current.remove(number)
        self._locate()

    def _locate(self) -> None:
        turn = self._current[-1] if self._current else None
        self.origin = Origin(self._session_id, turn, self._replays > 0)

    # ------------------------------------------------------------------ cancellation

    def request_cancel(self) -> None:
        """Mark the open turns as cancelled. A second call starts the timer that kills the agent.

        Open permission requests are answered ``cancelled``.
        """
        if self.cancelling:
            self._arm()
        for turn in self._open.values():
            turn.cancel_requested = True
        self._connection.requests.cancel_session(self._session_id)

    async def cut_short(self, turn: OpenTurn) -> None:
        """Cancel the turn whose awaiting task was cancelled, and wait for the turn's end."""
        if turn.ended.done():
            return  # the answer has arrived; only handlers are still running
        self.request_cancel()
        params = schema.CancelNotification(session_id=self._session_id)
        self._connection.peer.post({"method": "session/cancel", "params": params})
        try:
            await asyncio.wait({turn.ended}, timeout=self._connection.limits.cancel)
        except asyncio.CancelledError:
            self._arm()
            raise

    def _arm(self) -> None:
        seconds = self._connection.limits.kill
        name = self._connection.name
        why = f"{name} was killed: a cancelled turn did not end within {seconds:g} s"
        loop = asyncio.get_running_loop()
        for turn in self._open.values():
            if turn.killer is None and not turn.ended.done():
                turn.killer = loop.call_later(seconds, self._connection.kill, why)
