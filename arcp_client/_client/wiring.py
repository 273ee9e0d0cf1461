"""Makes the parts of one client and connects them.

::

    Client ─┬─ Consumers      handlers, iterators, Observables, and their progress
            ├─ JobTable       the record of each job
            ├─ States         the state of the link
            ├─ SessionEngine  the session, the link that carries it, the checkpoint
            ├─ BrowserStreams the streams of jobs to browsers
            ├─ Lifecycle      connect, close, detach
            ├─ Verdicts       what each job is doing
            └─ Commands       submit, watch, list, ping, cancel
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import cached_property
from typing import Any

from pydantic import SecretStr

from arcp_client import _feeds
from arcp_client._client.commands import Commands
from arcp_client._client.consumers import Consumers
from arcp_client._client.engine import SessionEngine
from arcp_client._client.job_table import JobTable
from arcp_client._client.lifecycle import Lifecycle
from arcp_client._client.settings import Settings
from arcp_client._client.states import States
from arcp_client._client.verdicts import Verdicts
from arcp_client._dispatch.assembler import ChunkStore
from arcp_client._jobrecord import JobOwner, JobRecord
from arcp_client.errors import ArcpError
from arcp_client.job import JobHandle, JobView
from arcp_client.models import TakenAnswer, Verdict
from arcp_client.transports.base import Connector

__all__ = ["Wiring"]


class Wiring:
    """The parts of one client.

    Some parts call a part that is made after them. They get a method that looks that part up.

    Args:
        connector: makes transports to the runtime.
        settings: the arguments of the client.
    """

    def __init__(self, connector: Connector, settings: Settings) -> None:
        timeouts = settings.timeouts
        maker = settings.telemetry
        self._telemetry = telemetry = None if maker is None else maker.client(connector.target)
        self.consumers = Consumers(
            settings,
            target=connector.target,
            telemetry=telemetry,
            request_pending=self._request_pending,
            held=self._held,
            active=self._active,
            check_loop=self._check_loop,
            failed=self._failed,
        )
        self.states = States()
        self.jobs = JobTable(self._job_owner)
        self.consumers.route(self.jobs.streams)
        self.engine = SessionEngine(
            settings,
            connector,
            consumers=self.consumers,
            jobs=self.jobs,
            states=self.states,
            ended=self._ended,
            telemetry=telemetry,
        )
        self._token = settings.token
        self._streams: _feeds.BrowserStreams | None = None
        self.lifecycle = Lifecycle(
            self.engine,
            consumers=self.consumers,
            jobs=self.jobs,
            states=self.states,
            streams=self.made_streams,
            timeouts=timeouts,
        )
        self.commands = Commands(
            self.engine,
            lifecycle=self.lifecycle,
            jobs=self.jobs,
            timeouts=timeouts,
            telemetry=telemetry,
        )

    def _job_owner(self) -> JobOwner:
        consumers = self.consumers
        return JobOwner(
            notifications=consumers.notifications,
            gate=consumers.back_pressure,
            check_loop=self._check_loop,
            wait_graph=consumers.wait_graph,
            barriers=consumers.barriers,
            own_call=consumers.own_call,
            chunk_log=self._chunk_log,
            exact_sizes=self._exact_sizes,
            may_have_lost_events=self._may_have_lost_events,
            cancel=self._cancel,
            unwatch=self._unwatch,
            sse=self._sse,
            answer=self._answer,
            send=self._send,
            verdict=self._verdict,
            telemetry=self._telemetry,
        )

    @cached_property
    def verdicts(self) -> Verdicts:
        """What each job is doing; made at the first use."""
        return Verdicts(self.states, self.consumers, self.jobs, self.engine)

    # Calls of parts that are made later than their callers. Functions that are made for each client
    # would take three times the memory.

    def _check_loop(self) -> None:
        self.lifecycle.check_loop()

    def _ended(self, cause: ArcpError | None) -> None:
        self.lifecycle.end(cause)

    def _failed(self, cause: ArcpError) -> None:
        self.engine.stop(cause)

    def _active(self) -> None:
        self.engine.active()

    def _request_pending(self) -> bool:
        return self.engine.request_pending

    def _held(self) -> int:
        return self.engine.held

    def _chunk_log(self, job_id: str) -> ChunkStore | None:
        return self.engine.chunk_log(job_id)

    def _exact_sizes(self) -> bool:
        return self.engine.exact_sizes()

    def _may_have_lost_events(self) -> bool:
        return self.engine.may_have_lost_events()

    async def _cancel(self, job_id: str, reason: str | None) -> None:
        await self.commands.cancel(job_id, reason)

    async def _unwatch(self, job_id: str) -> None:
        await self.commands.unwatch(job_id)

    async def _answer(
        self, job_id: str, question_id: str, value: Any, key: str | None, timeout: float | None
    ) -> TakenAnswer:
        return await self.commands.answer(job_id, question_id, value, key=key, timeout=timeout)

    async def _send(
        self, job_id: str, value: Any, mode: str, message_id: str | None, timeout: float | None
    ) -> str:
        return await self.commands.send(
            job_id, value, mode=mode, message_id=message_id, timeout=timeout
        )

    def _verdict(self, record: JobRecord) -> Verdict:
        return self.verdicts.of(record)

    def _sse(self, job: JobHandle, last_event_id: str | None) -> AsyncGenerator[bytes, None]:
        return self.streams.of(job, last_event_id)

    @property
    def streams(self) -> _feeds.BrowserStreams:
        """The streams of jobs to browsers; made at the first use.

        Raises:
            ArcpError: the client has ended.
        """
        if self._streams is None:
            if self.states.closed:
                raise self.states.closed_error()
            token = self._token if isinstance(self._token, str | SecretStr) else None
            self._streams = _feeds.BrowserStreams(self, [token] if token else [])
        return self._streams

    def made_streams(self) -> _feeds.BrowserStreams | None:
        """The streams of jobs to browsers; ``None`` before the first use."""
        return self._streams

    def job(self, job_id: str) -> JobHandle | None:
        """The handle of a job that the session knows; for streams."""
        record = self.jobs.get(job_id)
        return self.jobs.handle(record) if record is not None else None

    async def watch(self, job_id: str, *, history: bool = False) -> JobView:
        """Follow a job; for streams."""
        return await self.commands.watch(job_id, history=history, from_seq=None, timeout=None)
