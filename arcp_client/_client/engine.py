"""Runs one session on its links: gives events to consumers, and waiting callers their answers.

The engine owns the session, its link and its checkpoint. A frame goes from the link's reader
through the session to the fan-out (`FanOut`) without an ``await``; after that, consumers run
independently. See the page "How an event travels" in the docs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from arcp_client._client.consumers import Consumers
from arcp_client._client.job_table import JobTable
from arcp_client._client.question_news import QuestionNews
from arcp_client._client.settings import Settings
from arcp_client._client.states import States
from arcp_client._deadline import Deadline
from arcp_client._dispatch.assembler import ChunkStore
from arcp_client._jobrecord import JobRecord
from arcp_client._link.acks import EVERY, SOON, Acknowledger
from arcp_client._link.driver import Driver
from arcp_client._link.durability import Durability
from arcp_client._link.ended_jobs import event_of
from arcp_client._link.ingress import Ingress
from arcp_client._link.reconnect import ReconnectManager
from arcp_client._log_fields import log_fields
from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client._telemetry import ClientFigures, ClientTelemetry
from arcp_client.errors import ArcpError
from arcp_client.models import Checkpoint, OpenJob, SessionInfo, Stats
from arcp_client.state import LinkState, Live, Reconnecting
from arcp_client.transports.base import Connector

__all__ = ["GRACE", "SessionEngine"]

_log = logging.getLogger("arcp_client.client")

GRACE = 1.0
"""Longest time in seconds that the end of a session waits for the store, link or runtime."""


class _Carrier(msgspec.Struct, frozen=True):
    """The parts that carry a session, made by `SessionEngine.run`."""

    driver: Driver
    ingress: Ingress
    manager: ReconnectManager
    acks: Acknowledger


class SessionEngine:
    """One session over successive links.

    Args:
        settings: the arguments of the client.
        connector: makes transports.
        consumers: get the events.
        jobs: gets the announced jobs and their ends.
        states: gets the state of the link.
        ended: called when the session has ended: with ``None`` if this client ended it, else with
            the error.
        telemetry: traces jobs and links.

    Attributes:
        resumed: whether the present link resumed an earlier session.
        news: wakes the followers of open questions.
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
        telemetry: ClientTelemetry | None = None,
    ) -> None:
        self._telemetry = telemetry
        self.resumed = False
        self.news = QuestionNews()
        self._settings = settings
        self._connector = connector
        self._consumers = consumers
        self._fan_out = consumers.fan_out
        self._back_pressure = consumers.back_pressure
        self._jobs = jobs
        self._states = states
        self._ended = ended
        self._session = settings.new_session()
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
        self._carrier: _Carrier | None = None

    # ------------------------------------------------------------------ lifecycle

    async def open(self) -> Checkpoint | None:
        """Lock the checkpoint in the store, and load it if there is one.

        Raises:
            StoreLocked: another client holds the checkpoint.
            StorageError: a handler cannot be called in a transaction.
        """
        if self._durability is None:
            return None
        checkpoint = await self._durability.open()
        try:
            await self._consumers.transactions.check()
        except BaseException:
            await self._durability.close(forget=False)
            raise
        return checkpoint

    def run(self, checkpoint: Checkpoint | None) -> Coroutine[Any, Any, None]:
        """Run the session on links until it ends. Cancelling stops it at once."""
        return self._assemble(checkpoint).manager.run()

    def _assemble(self, checkpoint: Checkpoint | None) -> _Carrier:
        """Make the parts that carry the session."""
        durability, settings = self._durability, self._settings
        buffer = settings.buffer
        publish = self._fan_out.publish if durability is None else durability.offer
        if checkpoint is not None:
            self._session = settings.new_session(checkpoint)
        driver = Driver(self._session, publish=publish, apply=self._apply)
        ingress = Ingress(driver, self._back_pressure, spill=buffer.spill, keep=buffer.bytes)
        manager = ReconnectManager(
            self._connector,
            driver,
            token=settings.token,
            policy=settings.reconnect,
            timeouts=settings.timeouts,
            ingress=ingress,
            outbox=buffer.bytes,
            changed=self._states.change if self._telemetry is None else self._changed,
        )
        # The first event after an acknowledgement also schedules a save.
        every = EVERY if durability is None else SOON
        limit = None if durability is None else lambda mark: min(mark, durability.mark)
        acks = Acknowledger(driver, self._fan_out, safe=limit, every=every)
        self._carrier = _Carrier(driver, ingress, manager, acks)
        if self._telemetry is not None:
            self._telemetry.opened(self.figures)
        if durability is not None:
            if checkpoint is not None:
                self._recall(checkpoint, durability)
            durability.start(driver)
        return self._carrier

    def _recall(self, checkpoint: Checkpoint, durability: Durability) -> None:
        """Restore the jobs of an earlier process: the open ones, and those that ended last."""
        for job in checkpoint.jobs:
            self._jobs.resume(job, durability.log_for(job.job_id) or ())
            if self._telemetry is not None:
                traceparent = self._telemetry.resumed(
                    job.job_id,
                    job.agent,
                    session_id=checkpoint.session_id,
                    traceparent=job.traceparent,
                )
                durability.add_job(replace(job, traceparent=traceparent))
        for ended in checkpoint.ended:
            event = event_of(ended)
            if event is not None:
                self._jobs.recall(ended, event, durability.log_for(ended.job_id) or ())

    @property
    def assembled(self) -> bool:
        """Whether `run` has made the parts that carry the session."""
        return self._carrier is not None

    def stop(self, cause: ArcpError) -> None:
        """End the session because a handler or the store failed; acknowledge no more events."""
        if self._carrier is not None:
            self._carrier.acks.stop()
        self.finish(cause)

    def finish(self, cause: ArcpError | None) -> None:
        """End the session; ``cause`` is ``None`` if this client ends it."""
        self._session.end(cause)
        if self._carrier is not None:
            self._carrier.driver.carry_out()
        else:
            self._ended(cause)

    async def say_goodbye(self, deadline: Deadline, *, tell: bool) -> bool:
        """Acknowledge processed events; then end the session, or leave it open on the runtime.

        Args:
            deadline: when the whole close must be complete, the end of the link included.
            tell: send the runtime a goodbye, which ends the session. Otherwise save the checkpoint
                and flush the link.

        Returns:
            Whether an answer of the runtime is expected.
        """
        assert self._carrier is not None
        self._carrier.manager.close_by(deadline)
        if not tell:
            with contextlib.suppress(TimeoutError):
                async with deadline.timeout(GRACE):
                    await self.save()
        self._carrier.acks.acknowledge(self._carrier.driver.now)
        if tell:
            self._session.close(self._carrier.driver.now)
            self._carrier.driver.carry_out()
            return self._carrier.manager.link is not None
        await self.flushed(deadline.share(GRACE))
        return False

    def halt(self) -> None:
        """Stop all timers after the end of the session, and freeze the watermark."""
        if self._telemetry is not None:
            self._telemetry.closed()
        if self._carrier is not None:
            self._carrier.acks.stop()
            self._carrier.driver.stop()
            self._carrier.manager.stop()
        if self._durability is not None:
            self._durability.freeze()

    def fail_requests(self, error: Callable[[], ArcpError]) -> None:
        """Let each pending request fail with its own exception."""
        for request in self._session.requests:
            _reject(request, error())
        self.news.report()  # followers ask again, and fail
        if self._carrier is not None:
            self._carrier.ingress.close()

    async def close_store(self, *, forget: bool, deadline: Deadline | None = None) -> None:
        """Save the checkpoint a last time, or delete it, and unlock it.

        Args:
            forget: delete the checkpoint.
            deadline: when the whole close must be complete.
        """
        if self._durability is not None:
            await self._durability.close(forget=forget, deadline=deadline)

    # ------------------------------------------------------------------ requests

    async def ask(self, request: Request) -> Any:
        """Send a request, over the next link if need be, and wait for its answer (rule S7)."""
        assert self._carrier is not None
        driver = self._carrier.driver
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request.token = answer
        try:
            with self._back_pressure.awaiting(answer):
                self._session.request(request, driver.now)
                driver.carry_out()
                self._back_pressure.progress()
                return await answer
        finally:
            self._session.withdraw(request)

    def unsubscribe(self, job_id: str) -> None:
        """Unsubscribe from the events of a job."""
        assert self._carrier is not None
        self._session.unsubscribe(job_id, self._carrier.driver.now)
        self._carrier.driver.carry_out()

    async def flushed(self, timeout: float | None = None) -> None:
        """Wait until the link, if there is one, has sent all frames, or the time is over."""
        link = self._carrier.manager.link if self._carrier is not None else None
        if link is not None:
            await link.flushed(timeout)

    # ------------------------------------------------------------------ state

    @property
    def info(self) -> SessionInfo | None:
        """The session as negotiated in the last welcome."""
        return self._session.info

    @property
    def session_id(self) -> str | None:
        """The id of the session; ``None`` before the first welcome."""
        return self._session.session_id

    @property
    def request_pending(self) -> bool:
        """Whether a request waits for its answer."""
        return any(not request.orphaned for request in self._session.requests)

    @property
    def durable(self) -> bool:
        """Whether a later process can resume the session."""
        return self._durability is not None and self._durability.durable

    @property
    def held(self) -> int:
        """The number of events that wait until a checkpoint covers them."""
        return self._durability.held if self._durability is not None else 0

    def chunk_log(self, job_id: str) -> ChunkStore | None:
        """The durable log of a job's result; ``None`` without a store."""
        return self._durability.log_for(job_id) if self._durability is not None else None

    def may_have_lost_events(self) -> bool:
        """Whether a lost link may have lost events, because the runtime does not replay them."""
        lost = self._carrier is not None and self._carrier.manager.links > 1
        return lost and self._session.may_lose_events

    def exact_sizes(self) -> bool:
        """Whether the runtime states exact sizes of results in bytes."""
        return self._session.peer.exact_sizes

    async def save(self) -> None:
        """Wait until the store, if there is one, has the present state."""
        if self._durability is not None:
            await self._durability.flush()

    async def published(self) -> None:
        """Wait until the events that have arrived are published to the consumers."""
        passed = self._durability.published() if self._durability is not None else None
        if passed is not None:
            await self._back_pressure.wait_for(passed)

    def stats(self) -> Stats:
        """Counts since the client was made."""
        if self._carrier is None:
            return Stats()
        session, fan_out, carrier = self._session, self._fan_out, self._carrier
        now = carrier.driver.now
        since = fan_out.since()
        return Stats(
            received=fan_out.published,
            processed=fan_out.processed,
            queued=self._consumers.backlog,
            spilled=carrier.ingress.spilled,
            repeated=session.repeated,
            gaps=session.gaps,
            reconnects=max(carrier.manager.links - 1, 0),
            lag=now - since if since is not None else 0.0,
            last_message=now - session.heard_at if session.heard_at else None,
            last_disconnect=carrier.manager.last_failure,
            silent=session.silent,
        )

    def figures(self) -> ClientFigures:
        """The counts for telemetry."""
        stats, back_pressure = self.stats(), self._back_pressure
        return ClientFigures(
            received=stats.received,
            processed=stats.processed,
            backlog=stats.queued,
            lag=stats.lag,
            spilled=stats.spilled,
            gaps=stats.gaps,
            reconnects=stats.reconnects,
            pauses=back_pressure.pauses,
            paused=back_pressure.paused is not None,
        )

    def may_share_trace(self, trace_id: str) -> bool:
        """Whether a submit may have this trace id, which other open submits may have too.

        Some runtimes name the request in an answer by its trace id only.
        """
        return self._session.peer.names_requests or all(
            request.trace_id != trace_id for request in self._session.requests
        )

    # ------------------------------------------------------------------ actions of the session

    def _apply(self, action: actions.Action) -> None:
        match action:
            case actions.Replied(request, value):
                _resolve(request, value)
            case actions.Refused(request, error):
                _reject(request, error)
            case actions.JobKnown():
                self._job_known(action)
            case actions.HistoryRequested(job_id):
                self._jobs.record(job_id).await_history()
            case actions.JobGone():
                if self._durability is not None:
                    self._durability.after(partial(self._job_gone, action))
                else:
                    self._job_gone(action)
            case actions.Rotated(job_id, name, value):
                self._jobs.record(job_id).rotate(name, value)
            case actions.Opened(_, resumed):
                self._opened(resumed)
            case actions.QuestionsChanged():
                self.news.report()
            case actions.Ended(cause):
                self._ended(cause)
            case actions.Report(message, _, job_id, seq):
                fields = log_fields(session=self._session.session_id, job=job_id, seq=seq)
                _log.warning("%s", message, extra=fields)
            case _:
                raise AssertionError(f"unknown action: {action!r}")

    def _job_known(self, action: actions.JobKnown) -> None:
        reply = action.job
        known = self._jobs.get(reply.job_id) if action.again else None
        if known is not None:
            self._jobs.reopen(known)
        record = self._jobs.announce(reply, submitted=action.submitted)
        if action.submitted and not record.over:
            if self._session.jobs.has_ended(reply.job_id):
                assert self._carrier is not None
                self._session.request_outcome(reply.job_id, self._carrier.driver.now)
            request = action.request
            traceparent = self._trace_job(record, request)
            if self._durability is not None and request is not None:
                payload = hashlib.sha256(memoryview(request.payload)).hexdigest()
                self._durability.add_job(
                    OpenJob(
                        reply.job_id,
                        record.agent,
                        request.key or "",
                        payload,
                        traceparent=traceparent,
                    )
                )

    def _trace_job(self, record: JobRecord, request: Request | None) -> str | None:
        """Report an accepted submit to telemetry, if there is any; return the ``traceparent``."""
        telemetry = self._telemetry
        if telemetry is None or request is None or request.trace is None:
            return None
        return telemetry.accepted(
            request.trace,
            record.job_id,
            record.agent,
            session_id=self._session.session_id or "",
            trace_id=record.trace_id,
        )

    def _job_gone(self, action: actions.JobGone) -> None:
        self._jobs.record(action.job_id).lose(lambda: action.error, status=action.status)
        self._jobs.forget(action.job_id)
        if self._durability is not None:
            self._durability.drop_job(action.job_id)

    def _opened(self, resumed: bool) -> None:
        assert self._carrier is not None
        self._carrier.manager.opened()
        self.resumed = resumed
        if not resumed:
            self._carrier.acks.renewed()
        self._log_session(resumed)
        if self._telemetry is not None and self._carrier.manager.links > 1:
            self._telemetry.link_live(resumed=resumed)
        # Code that waits for this state runs before the replay is delivered, so it can register
        # handlers, or read the open jobs, in time.
        self._states.change(Live(resumed))
        self.news.report()  # a notice may have been lost with the link
        if self._durability is not None:
            self._durability.hold_until_saved(self._session.session_id or "", fresh=not resumed)

    def _changed(self, state: LinkState) -> None:
        """Publish a state, and report a lost link to telemetry."""
        if isinstance(state, Reconnecting) and isinstance(self._states.now, Live):
            assert self._telemetry is not None
            self._telemetry.link_lost(state.cause)
        self._states.change(state)

    def _log_session(self, resumed: bool) -> None:
        info = self.info
        assert info is not None
        _log.info(
            "session %s %s: %s %s (%s), %s",
            info.id,
            "resumed" if resumed else "opened",
            info.runtime.name,
            info.runtime.version,
            info.dialect,
            ", ".join(sorted(info.features)),
            extra=log_fields(session=info.id),
        )

    # ------------------------------------------------------------------ processed events (rule S1)

    def active(self) -> None:
        """Schedule an acknowledgement and a save, at the first event after an idle time."""
        if self._carrier is not None:
            self._carrier.driver.call(self._carrier.acks.plan)
        if self._durability is not None:
            self._durability.schedule()


def _resolve(request: Request, value: Any) -> None:
    answer: asyncio.Future[Any] = request.token
    if not answer.done():
        answer.set_result(value)


def _reject(request: Request, error: ArcpError) -> None:
    answer = request.token
    if isinstance(answer, asyncio.Future) and not answer.done():
        answer.set_exception(error)
