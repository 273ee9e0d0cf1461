"""Runs one session on its links: gives events to consumers, and answers to the requests.

The part of a client that owns the session, the link that carries it and the checkpoint. A frame
goes from the link's reader through the session to the fan-out in one synchronous step; from there
each consumer takes its own time. See the page "How an event travels" in the docs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from arcp_client._client.consumers import Consumers
from arcp_client._client.jobs import JobTable
from arcp_client._client.settings import Settings
from arcp_client._client.states import States
from arcp_client._deadline import Deadline
from arcp_client._dispatch.assembler import ChunkStore
from arcp_client._link.acks import Acknowledger
from arcp_client._link.driver import Driver
from arcp_client._link.durability import Durability
from arcp_client._link.ended_jobs import event_of
from arcp_client._link.ingress import Ingress
from arcp_client._link.reconnect import ReconnectManager
from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client.errors import ArcpError
from arcp_client.models import Checkpoint, OpenJob, SessionInfo, Stats
from arcp_client.state import Live
from arcp_client.transports.base import Connector

__all__ = ["GRACE", "SessionEngine"]

_log = logging.getLogger("arcp_client.client")

GRACE = 1.0
"""Seconds that the end of a session waits for the store, the link and the runtime, at most."""


class _Carrier(msgspec.Struct, frozen=True):
    """What carries a session, from the first `SessionEngine.run` on."""

    driver: Driver
    ingress: Ingress
    manager: ReconnectManager
    acks: Acknowledger


class SessionEngine:
    """One session, carried over as many links as it takes.

    Args:
        settings: the arguments of the client.
        connector: makes transports.
        consumers: who is given the events.
        jobs: who is told of jobs.
        states: who is told how the link stands.
        ended: called when the session has ended, with the reason if nobody here wanted it.

    Attributes:
        resumed: whether the present link went on with an earlier session.
    """

    def __init__(
        self,
        settings: Settings,
        connector: Connector,
        *,
        consumers: Consumers,
        jobs: JobTable,
        states: States,
        ended: Callable[[ArcpError | None], None],
    ) -> None:
        self.resumed = False
        self._settings = settings
        self._new_session = settings.new_session()
        self._connector = connector
        self._consumers = consumers
        self._fan_out = consumers.fan_out
        self._back_pressure = consumers.back_pressure
        self._jobs = jobs
        self._states = states
        self._ended = ended
        self._session = self._new_session()
        self._durability: Durability | None = None
        if settings.store is not None:
            self._durability = Durability(
                settings.store,
                connector.target,
                settings.key,
                fan_out=self._fan_out,
                back_pressure=self._back_pressure,
                fenced=self.stop,
            )
        self._line: _Carrier | None = None

    # ------------------------------------------------------------------ its life

    async def open(self) -> Checkpoint | None:
        """Take hold of the checkpoint, and give it if there is one.

        Raises:
            StoreLocked: another client holds it.
        """
        return await self._durability.open() if self._durability is not None else None

    async def run(self, checkpoint: Checkpoint | None) -> None:
        """Keep the session on a link until it ends. Cancelling stops it at once."""
        line = self._assemble(checkpoint)
        try:
            await line.manager.run()
        finally:
            line.driver.stop()

    def _assemble(self, checkpoint: Checkpoint | None) -> _Carrier:
        """Put together what keeps the session on a link."""
        durability, settings = self._durability, self._settings
        buffer = settings.buffer
        publish = self._fan_out.publish if durability is None else durability.offer
        if checkpoint is not None:
            self._session = self._new_session(checkpoint=checkpoint)
        driver = Driver(self._session, publish=publish, tell=self._tell)
        ingress = Ingress(driver, self._back_pressure, spill=buffer.spill, keep=buffer.bytes)
        manager = ReconnectManager(
            self._connector,
            driver,
            token=settings.token,
            policy=settings.reconnect,
            timeouts=settings.timeouts,
            ingress=ingress,
            outbox=buffer.bytes,
            changed=self._states.change,
        )
        acks = Acknowledger(driver, self._fan_out, safe=self._safe_mark)
        self._line = _Carrier(driver, ingress, manager, acks)
        if durability is not None:
            if checkpoint is not None:
                self._recall(checkpoint, durability)
            durability.start(driver)
        return self._line

    def _recall(self, checkpoint: Checkpoint, durability: Durability) -> None:
        """The jobs of an earlier process are known again, open ones and those that ended last."""
        for job in checkpoint.jobs:
            self._jobs.resume(job, durability.log_for(job.job_id) or ())
        for ended in checkpoint.ended:
            event = event_of(ended)
            if event is not None:
                self._jobs.recall(ended, event, durability.log_for(ended.job_id) or ())

    @property
    def assembled(self) -> bool:
        """Whether there is anything that could carry the session."""
        return self._line is not None

    def stop(self, cause: ArcpError) -> None:
        """A handler failed for good, or the store is another's: nothing counts as handled now."""
        if self._line is not None:
            self._line.acks.stop()
        self.finish(cause)

    def finish(self, cause: ArcpError | None) -> None:
        """End the session, for this reason if it was not wanted."""
        self._session.end(cause)
        if self._line is not None:
            self._line.driver.carry()
        else:
            self._ended(cause)

    async def say_goodbye(self, deadline: Deadline, *, tell: bool) -> bool:
        """Acknowledge what was handled; then end the session, or only see that all is sent.

        Args:
            deadline: the end of all of it, the link's own end included.
            tell: tell the runtime that the session ends.

        Returns:
            Whether there is an answer to wait for.
        """
        assert self._line is not None
        self._line.manager.close_by(deadline)
        if not tell:
            with contextlib.suppress(TimeoutError):
                async with deadline.timeout(GRACE):
                    await self.kept()
        self._line.acks.now()
        if tell:
            self._session.close(self._line.driver.now)
            self._line.driver.carry()
            return self._line.manager.link is not None
        with contextlib.suppress(TimeoutError):
            async with deadline.timeout(GRACE):
                await self.flushed()
        return False

    def halt(self) -> None:
        """It has ended: nothing here moves by itself any more, and what was handled is fixed."""
        if self._line is not None:
            self._line.acks.stop()
            self._line.driver.stop()
            self._line.manager.stop()
        if self._durability is not None:
            self._durability.freeze()

    def dismiss(self, error: Callable[[], ArcpError]) -> None:
        """Nobody is answered any more: each request fails with an error of its own."""
        for request in self._session.requests:
            _reject(request, error())
        if self._line is not None:
            self._line.ingress.close()

    async def let_go(self, *, forget: bool, deadline: Deadline | None = None) -> None:
        """Save the checkpoint a last time, or delete it with ``forget``, and let go of it.

        Args:
            forget: delete it.
            deadline: the end of the close that this belongs to.
        """
        if self._durability is not None:
            await self._durability.close(forget=forget, deadline=deadline)

    # ------------------------------------------------------------------ requests

    async def ask(self, request: Request) -> Any:
        """Send a request, now or over the next link, and wait for its answer (S7)."""
        assert self._line is not None
        driver = self._line.driver
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request.token = answer
        try:
            with self._back_pressure.inside(answer):
                self._session.request(request, driver.now)
                driver.carry()
                self._back_pressure.progress()
                return await answer
        finally:
            self._session.withdraw(request)

    def unsubscribe(self, job_id: str) -> None:
        """Ask for no more events of a job."""
        assert self._line is not None
        self._session.unsubscribe(job_id, self._line.driver.now)
        self._line.driver.carry()

    async def flushed(self) -> None:
        """Wait until everything was handed to the link, if there is one."""
        link = self._line.manager.link if self._line is not None else None
        if link is not None:
            await link.flushed()

    # ------------------------------------------------------------------ questions

    @property
    def info(self) -> SessionInfo | None:
        """What the last welcome agreed on."""
        return self._session.info

    @property
    def request_pending(self) -> bool:
        """Whether a request waits for its answer."""
        return any(not request.orphaned for request in self._session.requests)

    @property
    def durable(self) -> bool:
        """Whether the session can be gone on with after this process."""
        return self._durability is not None and self._durability.durable

    @property
    def held(self) -> int:
        """Events that wait until a restart could know of them."""
        return self._durability.held if self._durability is not None else 0

    def chunk_log(self, job_id: str) -> ChunkStore | None:
        """Where the chunks of a job's result outlive the process; ``None`` if nowhere."""
        return self._durability.log_for(job_id) if self._durability is not None else None

    def may_have_lost_events(self) -> bool:
        """Whether events may be gone with a lost link, of a runtime that does not replay them."""
        lost = self._line is not None and self._line.manager.links > 1
        return lost and self._session.may_lose_events

    def exact_sizes(self) -> bool:
        """Whether the runtime states the sizes of results in bytes, and truly."""
        return self._session.peer.exact_sizes

    async def kept(self) -> None:
        """Return when a restart would know of what is known here."""
        if self._durability is not None:
            await self._durability.flush()

    async def passed(self) -> None:
        """Wait until what arrived until now is with its consumers."""
        passed = self._durability.passed() if self._durability is not None else None
        if passed is not None:
            await self._back_pressure.wait_for(passed)

    def stats(self) -> Stats:
        """Counters since the client was made."""
        if self._line is None:
            return Stats()
        session, fan_out, line = self._session, self._fan_out, self._line
        if line.driver.moving:
            line.driver.flush()
        now = line.driver.now
        since = fan_out.since()
        return Stats(
            received=fan_out.published,
            processed=fan_out.processed,
            queued=self._consumers.backlog,
            spilled=line.ingress.spilled,
            repeated=session.repeated,
            gaps=session.gaps,
            reconnects=max(line.manager.links - 1, 0),
            lag=now - since if since is not None else 0.0,
            last_message=now - session.heard_at if session.heard_at else None,
            last_disconnect=line.manager.last_failure,
            silent=session.silent,
        )

    # ------------------------------------------------------------------ what the session decides

    def _tell(self, effect: actions.Action) -> None:
        match effect:
            case actions.Answered(request, value):
                _resolve(request, value)
            case actions.Refused(request, error):
                _reject(request, error)
            case actions.JobKnown():
                self._job_known(effect)
            case actions.JobGone():
                if self._durability is not None:
                    self._durability.after(partial(self._job_gone, effect))
                else:
                    self._job_gone(effect)
            case actions.Rotated(job_id, name, value):
                self._jobs.record(job_id).rotate(name, value)
            case actions.Opened(_, resumed):
                self._opened(resumed)
            case actions.Ended(cause):
                self._ended(cause)
            case actions.Report(message, _):
                _log.warning("%s", message)
            case _:
                raise AssertionError(f"an effect without a place: {effect!r}")

    def _job_known(self, effect: actions.JobKnown) -> None:
        told = effect.job
        record = self._jobs.known(told, mine=effect.mine)
        if effect.mine and not record.over:
            if self._session.jobs.has_ended(told.job_id):
                assert self._line is not None
                self._session.request_outcome(told.job_id, self._line.driver.now)
            request = effect.request
            if self._durability is not None and request is not None:
                payload = hashlib.sha256(memoryview(request.payload)).hexdigest()
                self._durability.opened(
                    OpenJob(told.job_id, record.agent, request.key or "", payload)
                )

    def _job_gone(self, effect: actions.JobGone) -> None:
        self._jobs.record(effect.job_id).lose(lambda: effect.error, status=effect.status)
        self._jobs.forget(effect.job_id)
        if self._durability is not None:
            self._durability.gone(effect.job_id)

    def _opened(self, resumed: bool) -> None:
        assert self._line is not None
        self._line.manager.opened()
        self.resumed = resumed
        if not resumed:
            self._line.acks.renewed()
        # Whoever waits for this state runs first, before an event of the replay is delivered: so
        # a handler registered there, or a look at the open jobs, comes in time.
        self._states.change(Live(resumed))
        if self._durability is not None:
            self._durability.renewed(self._session.session_id or "", fresh=not resumed)

    # ------------------------------------------------------------------ what is processed (S1)

    def active(self) -> None:
        """The first event after a quiet time came."""
        if self._line is not None:
            self._line.acks.plan()
        if self._durability is not None:
            self._durability.changed()

    def _safe_mark(self, mark: int) -> int:
        return mark if self._durability is None else min(mark, self._durability.mark)


def _resolve(request: Request, value: Any) -> None:
    answer: asyncio.Future[Any] = request.token
    if not answer.done():
        answer.set_result(value)


def _reject(request: Request, error: ArcpError) -> None:
    answer = request.token
    if isinstance(answer, asyncio.Future) and not answer.done():
        answer.set_exception(error)
