"""Connects, closes and detaches a client (rules S8 and S9 in docs/explanation/rules.md).

One task locks the checkpoint, runs the session on its links and unlocks the checkpoint. A second
task closes the session. Callers of the methods wait for these two tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

from arcp_client import _feeds
from arcp_client._client.consumers import Consumers
from arcp_client._client.engine import GRACE, SessionEngine
from arcp_client._client.job_table import JobTable
from arcp_client._client.states import LOOP_ENDED, States
from arcp_client._deadline import SLACK, Deadline
from arcp_client._log_fields import log_fields
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
"""Slow handlers leave one part in four of a close, at most `GRACE`, to the goodbye."""


class Lifecycle:
    """Begins and ends the session of one client.

    Args:
        engine: runs the session.
        consumers: the consumers, which are drained at a close, and end with the client.
        jobs: the jobs, whose waits fail when the client ends.
        states: the state of the link.
        streams: the streams to browsers, if there are any; they end with the client.
        timeouts: limits on every wait.
    """

    def __init__(
        self,
        engine: SessionEngine,
        *,
        consumers: Consumers,
        jobs: JobTable,
        states: States,
        streams: Callable[[], _feeds.BrowserStreams | None],
        timeouts: Timeouts,
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._consumers = consumers
        self._jobs = jobs
        self._states = states
        self._timeouts = timeouts
        self._owner = TaskOwner("arcp_client", on_failure=self._fail)
        self._running: asyncio.Task[None] | None = None
        self._process = 0
        self._closing: asyncio.Task[None] | None = None
        self._connecting = 0
        self._connected_once = False

    # ------------------------------------------------------------------ checks

    def check_loop(self) -> None:
        """Check that the caller is in the client's event loop. Another loop would not be woken.

        Raises:
            LocalProtocolError: the caller is in another event loop than the client.
            ClientClosed: the client's event loop has ended.
        """
        running = self._running
        if running is None or running.done():
            return
        if running.get_loop().is_closed():
            raise ClientClosed(LOOP_ENDED)
        if is_elsewhere(running.get_loop()):
            raise LocalProtocolError(
                "the client belongs to another event loop: use it there (from another thread, with"
                " asyncio.run_coroutine_threadsafe or loop.call_soon_threadsafe)"
            )

    def usable(self) -> None:
        """Check that the caller can make requests.

        Raises:
            ArcpError: the client is closed, not connected, or belongs to another event loop.
        """
        if self._states.closed or self._closing is not None:
            raise self._states.closed_error()
        if not self._engine.assembled:
            raise LocalProtocolError("the client is not connected: call connect() first")
        self.check_loop()

    # ------------------------------------------------------------------ connecting

    async def connect(self) -> None:
        """Start the session, once. Returns when the session is live."""
        if self._running is None and not self._states.closed:
            self._running = self._owner.spawn(self._run(), name="reconnect")
            self._process = os.getpid()
            self._states.loop = self._running.get_loop()
        running = self._running
        self.check_loop()
        self._connecting += 1
        try:
            await self.connected()
        except ArcpError:
            if running is not None and not running.done():
                await asyncio.wait({running})  # until the store is unlocked
            raise
        except asyncio.CancelledError:
            if self._connecting == 1 and not self._connected_once:
                await self.leave(0.0, drain=False, tell=False)
            raise
        else:
            self._connected_once = True
        finally:
            self._connecting -= 1

    async def _run(self) -> None:
        """Lock the checkpoint, run the session on links, unlock the checkpoint."""
        task = asyncio.current_task()
        try:
            checkpoint = await self._engine.open()
        except BaseException as error:  # noqa: BLE001  a user's store may raise anything
            if task is not None and task.cancelling():
                self._interrupted()
            pass_on(error, task)
            self.end(error if isinstance(error, ArcpError) else _store_failed(error))
            return
        if self._states.closed:  # the store suppressed the cancellation of a close
            await self._engine.close_store(forget=False)
            return
        try:
            await self._engine.run(checkpoint)
        except asyncio.CancelledError:
            self._interrupted()
            raise
        finally:
            if self._closing is None:
                await self._engine.close_store(forget=False)

    async def connected(self) -> None:
        """Wait until the session is live."""
        self.check_loop()
        while not isinstance(self._states.now, Live):
            if self._states.closed:
                raise self._states.closed_error()
            if self._running is None:
                raise LocalProtocolError("the client is not connected: call connect() first")
            await self._states.changed()

    # ------------------------------------------------------------------ closing

    async def drain(self, seconds: float) -> None:
        """Wait until handlers have processed the events that have arrived."""
        self.check_loop()
        async with asyncio.timeout(seconds):
            await self._drained()

    async def _drained(self) -> None:
        await self._engine.published()
        await self._consumers.drained()

    async def leave(self, timeout: float | None, *, drain: bool, tell: bool) -> None:
        """Close or detach, once. Every caller waits for the end.

        Args:
            timeout: seconds for the whole close.
            drain: let handlers process the events that have arrived.
            tell: send the goodbye, which ends the session, and delete the checkpoint.
        """
        if self._running is None:
            self.end(None)
            return
        self.check_loop()
        mine = self._consumers.exempt_caller()
        if self._closing is None:
            seconds = self._timeouts.close if timeout is None else timeout
            self._closing = self._owner.spawn(
                self._close(self._running, Deadline(seconds), drain=drain, tell=tell),
                name="close",
            )
        await asyncio.shield(self._closing)
        if mine is not None:
            mine.dispose()

    async def _close(
        self, running: asyncio.Task[None], deadline: Deadline, *, drain: bool, tell: bool
    ) -> None:
        """Close. Handlers, goodbye and transport share one deadline (rule S15)."""
        engine = self._engine
        streams = self._streams()
        if streams is not None:
            streams.stop()
        failed = self._states.closed  # the session has ended before
        if not engine.assembled:  # the store has not answered yet
            self.end(None)
            await _stopped(running, deadline)
            await engine.close_store(forget=False, deadline=deadline)
            return
        if drain and self._consumers.backlog:
            try:
                async with deadline.timeout(deadline.left - min(GRACE, deadline.left / _FOR_REST)):
                    await self._drained()
            except TimeoutError:
                _log.warning(
                    "closed while handlers still ran: %d events were not handled",
                    self._consumers.backlog,
                    extra=log_fields(session=engine.session_id),
                )
        self._warn_of_jobs()
        if await engine.say_goodbye(deadline, tell=tell):
            await asyncio.wait({running}, timeout=deadline.share(min(GRACE, deadline.left / 2)))
        await _stopped(running, deadline)
        engine.finish(None)
        if streams is not None:
            await streams.close()
        await engine.close_store(forget=tell and not failed, deadline=deadline)

    def _warn_of_jobs(self) -> None:
        """Warn of open jobs that the runtime ends with the session, against §6.7 (rule S21)."""
        info = self._engine.info
        open_jobs = [job.id for job in self._jobs.open()]
        if info is None or info.jobs_run_on or not open_jobs or self._states.closed:
            return
        _log.warning(
            "%d open jobs end with this session, since a runtime of the dialect %s ends them: %s",
            len(open_jobs),
            info.dialect,
            ", ".join(open_jobs[:10]),
            extra=log_fields(session=info.id),
        )

    def end(self, cause: ArcpError | None) -> None:
        """End the client: stop all tasks, and let every wait fail."""
        states = self._states
        if states.closed:
            return
        self._engine.halt()
        states.change(Closed(cause))
        self._engine.fail_requests(states.closed_error)
        streams = self._streams()
        if streams is not None:
            streams.end()
        self._jobs.close(states.closed_error)
        self._consumers.end(states.closed_error, cause)
        states.end()

    @property
    def unclosed(self) -> bool:
        """Whether the client was started in this process, and is neither closed nor closing."""
        running = self._running
        if running is None or running.done() or self._process != os.getpid():
            return False
        return self._closing is None and not self._states.closed

    def abandon(self) -> None:
        """End a client that is no longer referenced. May be called from any thread."""
        if self._running is None or self._running.get_loop().is_closed():
            return
        with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
            self._running.get_loop().call_soon_threadsafe(self._abandon)

    def _abandon(self) -> None:
        if self.unclosed:
            self._engine.finish(
                ClientClosed("the client was dropped without close(): keep a reference to it")
            )

    def _fail(self, error: BaseException) -> None:
        _log.error(
            "a defect of arcp-client ends the client; please report it",
            exc_info=error,
            extra=log_fields(session=self._engine.session_id),
        )
        cause = ClientClosed(f"a defect of arcp-client ended the client: {type(error).__name__}")
        cause.__cause__ = error
        self._engine.finish(cause)

    def _interrupted(self) -> None:
        """End the client, because other code has cancelled the task that runs its links."""
        if self._closing is None and not self._states.closed:
            _log.warning(
                "a client was not closed: its task was cancelled from outside",
                extra=log_fields(session=self._engine.session_id),
            )
            self._states.interrupted = True
            self._engine.finish(LinkLost("the client's task was cancelled from outside"))


async def _stopped(running: asyncio.Task[None], deadline: Deadline) -> None:
    """Cancel the task that runs the links; abandon it if it suppresses its cancellation."""
    await cancel_and_wait([running], deadline=Deadline(deadline.left + SLACK))


def _store_failed(error: BaseException) -> ArcpError:
    # The error's own text may quote stored values.
    failure = ConnectFailed(f"the store failed: {type(error).__name__}", permanent=True)
    failure.__cause__ = error
    return failure
