"""Connects, closes and detaches a client (S8, S9).

One task locks the checkpoint, runs the session on its links and unlocks the checkpoint; another one
closes the session. All callers wait for these two tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from arcp_client._client.consumers import Consumers
from arcp_client._client.engine import GRACE, SessionEngine
from arcp_client._client.jobs import JobTable
from arcp_client._client.states import LOOP_ENDED, States
from arcp_client._deadline import SLACK, Deadline
from arcp_client._tasks import TaskOwner, cancel_and_wait, is_elsewhere, pass_on
from arcp_client.errors import (
    ArcpError,
    ClientClosed,
    ConnectFailed,
    LinkLost,
    LocalProtocolError,
)
from arcp_client.policy import Timeouts
from arcp_client.state import Closed, Live

__all__ = ["Lifecycle"]

_log = logging.getLogger("arcp_client.client")

_FOR_REST = 4
"""Slow handlers leave one part in so many of a close, at most `GRACE`, to the goodbye."""


class Lifecycle:
    """Beginning and end of one client.

    Args:
        engine: what is begun and ended.
        consumers: who is waited for, and told of the end.
        jobs: whose waiters are told of the end.
        states: what the link's state is read from.
        timeouts: bounds on every wait.
    """

    def __init__(
        self,
        engine: SessionEngine,
        *,
        consumers: Consumers,
        jobs: JobTable,
        states: States,
        timeouts: Timeouts,
    ) -> None:
        self._engine = engine
        self._consumers = consumers
        self._jobs = jobs
        self._states = states
        self._timeouts = timeouts
        self._owner = TaskOwner("arcp_client", on_failure=self._broke)
        self._running: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._connecting = 0
        self._handed_over = False

    # ------------------------------------------------------------------ where it stands

    def check_loop(self) -> None:
        """Whoever waits in another event loop would not be woken.

        Raises:
            LocalProtocolError: the caller is in another event loop than the client.
        """
        running = self._running
        if running is None or running.done():
            return
        if running.get_loop().is_closed():
            raise ClientClosed(LOOP_ENDED)
        if is_elsewhere(running.get_loop()):
            raise LocalProtocolError(
                "the client lives in another event loop: use it there (from another thread, with"
                " asyncio.run_coroutine_threadsafe or loop.call_soon_threadsafe)"
            )

    def usable(self) -> None:
        """Requests can be made.

        Raises:
            ArcpError: not, or not here; says why.
        """
        if self._states.closed or self._closing is not None:
            raise self._states.closed_error()
        if not self._engine.assembled:
            raise LocalProtocolError("the client is not connected: call connect() first")
        self.check_loop()

    # ------------------------------------------------------------------ the beginning

    async def connect(self) -> None:
        """Begin, once; returns when the session is live."""
        if self._running is None and not self._states.closed:
            self._running = self._owner.spawn(self._run(), name="reconnect")
            self._states.home = self._running.get_loop()
        running = self._running
        self.check_loop()
        self._connecting += 1
        try:
            await self.connected()
        except ArcpError:
            if running is not None and not running.done():
                await asyncio.wait({running})  # it lets go of the store
            raise
        except asyncio.CancelledError:
            if self._connecting == 1 and not self._handed_over:
                await self.leave(0.0, drain=False, tell=False)
            raise
        else:
            self._handed_over = True
        finally:
            self._connecting -= 1

    async def _run(self) -> None:
        """Take hold of the checkpoint, keep the session on a link, let go of the checkpoint."""
        task = asyncio.current_task()
        try:
            checkpoint = await self._engine.open()
        except BaseException as error:  # noqa: BLE001  a store of the user's may raise anything
            if task is not None and task.cancelling():
                self._cut_off()
            pass_on(error, task)
            self.end(error if isinstance(error, ArcpError) else _store_failed(error))
            return
        if self._states.closed:  # the store swallowed the cancellation, and nobody waited for it
            await self._engine.let_go(forget=False)
            return
        try:
            await self._engine.run(checkpoint)
        except asyncio.CancelledError:
            self._cut_off()
            raise
        finally:
            if self._closing is None:
                await self._engine.let_go(forget=False)

    async def connected(self) -> None:
        """Wait until the session is live."""
        self.check_loop()
        while not isinstance(self._states.now, Live):
            if self._states.closed:
                raise self._states.closed_error()
            if self._running is None:
                raise LocalProtocolError("the client is not connected: call connect() first")
            await self._states.changed()

    # ------------------------------------------------------------------ the end

    async def drain(self, seconds: float) -> None:
        """Wait until every handler is done with what arrived until now."""
        self.check_loop()
        async with asyncio.timeout(seconds):
            await self._drained()

    async def _drained(self) -> None:
        await self._engine.passed()
        await self._consumers.drained()

    async def leave(self, timeout: float | None, *, drain: bool, tell: bool) -> None:
        """Close or detach, once; every caller waits until it is done.

        Args:
            timeout: seconds for all of it.
            drain: let handlers finish what arrived.
            tell: tell the runtime that the session ends, and forget the checkpoint.
        """
        if self._running is None:
            self.end(None)
            return
        self.check_loop()
        mine = self._consumers.excuse_caller()
        if self._closing is None:
            seconds = self._timeouts.close if timeout is None else timeout
            self._closing = self._owner.spawn(
                self._farewell(self._running, Deadline(seconds), drain=drain, tell=tell),
                name="close",
            )
        await asyncio.shield(self._closing)
        if mine is not None:
            mine.dispose()

    async def _farewell(
        self, running: asyncio.Task[None], deadline: Deadline, *, drain: bool, tell: bool
    ) -> None:
        """One deadline for handlers, goodbye and transport; each gets what is left."""
        engine = self._engine
        failed = self._states.closed  # then this is not what ends the session
        if not engine.assembled:  # the store has not answered yet
            self.end(None)
            await _stopped(running, deadline)
            await engine.let_go(forget=False, deadline=deadline)
            return
        if drain:
            try:
                async with deadline.timeout(deadline.left - min(GRACE, deadline.left / _FOR_REST)):
                    await self._drained()
            except TimeoutError:
                _log.warning(
                    "closed while handlers still ran: %d events were not handled",
                    self._consumers.backlog,
                )
        self._warn_of_jobs()
        if await engine.say_goodbye(deadline, tell=tell):
            await asyncio.wait({running}, timeout=deadline.share(min(GRACE, deadline.left / 2)))
        await _stopped(running, deadline)
        engine.finish(None)
        await engine.let_go(forget=tell and not failed, deadline=deadline)

    def _warn_of_jobs(self) -> None:
        """Some runtimes do not let jobs outlive their session, as §6.7 has it."""
        info = self._engine.info
        open_jobs = [job.id for job in self._jobs.open()]
        if info is None or info.jobs_run_on or not open_jobs or self._states.closed:
            return
        _log.warning(
            "%d open jobs end with this session, since a runtime of the dialect %s ends them: %s",
            len(open_jobs),
            info.dialect,
            ", ".join(open_jobs[:10]),
        )

    def end(self, cause: ArcpError | None) -> None:
        """The session is over: everybody who waits is told, nothing runs on."""
        states = self._states
        if states.closed:
            return
        self._engine.halt()
        states.change(Closed(cause))
        self._engine.dismiss(states.closed_error)
        self._jobs.close(states.closed_error)
        self._consumers.end(states.closed_error, cause)
        states.end()

    @property
    def forgotten(self) -> bool:
        """Whether it was begun, was not ended, and nothing is ending it."""
        running = self._running
        if running is None or running.done():
            return False
        return self._closing is None and not self._states.closed

    def abandon(self) -> None:
        """Nobody can close the client any more: end it, from whatever thread this is called."""
        if self._running is None or self._running.get_loop().is_closed():
            return
        with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
            self._running.get_loop().call_soon_threadsafe(self._abandon)

    def _abandon(self) -> None:
        if self.forgotten:
            self._engine.finish(
                ClientClosed("the client was dropped without close(): keep a reference to it")
            )

    def _broke(self, error: BaseException) -> None:
        _log.error("a defect of arcp-client ends the client; please report it", exc_info=error)
        cause = ClientClosed(f"a defect of arcp-client ended the client: {type(error).__name__}")
        cause.__cause__ = error
        self._engine.finish(cause)

    def _cut_off(self) -> None:
        """The task that keeps the link is cancelled: if nobody here did it, this is the end."""
        if self._closing is None:
            _log.warning("a client was not closed: its task was cancelled from outside")
            self._states.interrupted = True
            self._engine.finish(LinkLost("the client's task was cancelled from outside"))


async def _stopped(running: asyncio.Task[None], deadline: Deadline) -> None:
    """End the task that keeps the link; what swallows its cancellation is left alone."""
    await cancel_and_wait([running], deadline=Deadline(deadline.left + SLACK))


def _store_failed(error: BaseException) -> ArcpError:
    # Its text may quote what is kept.
    failure = ConnectFailed(f"the store failed: {type(error).__name__}", permanent=True)
    failure.__cause__ = error
    return failure
