"""A runtime whose jobs replay a transcript.

It serves dashboards, demos and tests of clients. The recorded events are replayed at the recorded
pace or faster.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self

import msgspec

from arcp_client import _arguments as check
from arcp_client import _digits as digits
from arcp_client import events
from arcp_client._tasks import TaskOwner
from arcp_client.client import Client
from arcp_client.errors import ArcpError, JobFailed, LocalProtocolError, RequestError
from arcp_client.models import ClientInfo
from arcp_client.runtime import JobContext, Limits, Runtime, Server
from arcp_client.transcripts import (
    MAX_LINE,
    EventLine,
    Header,
    JobLine,
    OutcomeLine,
    read,
)
from arcp_client.transcripts.reading import line_at
from arcp_client.transports.base import Transport

__all__ = ["ReplayedRuntime"]

_NAMELESS = "replayed"
_MOST_JOBS = 10_000
_LONGEST = 1024
"""Maximum length of an agent's name, in characters."""
_SHARED = frozenset(events.Event.__struct_fields__)
_DAY = 86_400.0


@dataclass(slots=True)
class _Part:
    """One recorded job: its first line, and the positions of its lines in the file.

    ``delegated`` is the position of the line that delegated it, if another job did.
    """

    line: JobLine
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    delegated: int | None = None
    over: bool = False


class ReplayedRuntime:
    """A runtime that replays a transcript: its jobs begin, emit and end as recorded.

    ::

        async with ReplayedRuntime("session.jsonl", speed=10) as runtime:
            async with runtime.serve(port=7777) as server:
                print(server.url)
                await runtime.played()

    It is a `Connector`, like a `Runtime`: a client takes it as its target. The recorded jobs begin
    when the block is entered, each at its recorded time, and are visible to all accepted clients.
    In addition, a submit to a recorded agent replays its first recording from the start.

    Events keep their kinds, bodies and intervals. They get ids, numbers and times of this runtime,
    and jobs get new ids, listed in `jobs`. The recorded lease is granted without expiry. A `Gap`
    becomes a vendor event, ``x-vendor.arcp-client.gap``. A job whose end was not recorded fails
    with the code ``RECORDING_ENDED``, and a job with an incomplete result with
    ``RECORDING_INCOMPLETE``.

    Args:
        path: the transcript. It is read line by line during the replay.
        speed: recorded seconds per second; ``None`` replays without waiting.
        auth: principals by bearer token; the recorded jobs belong to the first one. ``None``
            accepts every client.
        on_job: called with each recorded job that begins, and its new id.

    Attributes:
        jobs: recorded id to new id, for the recorded jobs that have begun.

    Raises, when the block is entered:
        TranscriptError: the file is not a transcript, or is damaged.
        OSError: the file cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        speed: float | None = 1.0,
        auth: Mapping[str, str] | None = None,
        on_job: Callable[[JobLine, str], None] | None = None,
    ) -> None:
        check.a_path("path", path)
        check.an_instance("auth", auth, Mapping, "a mapping of tokens", none=True, secret=True)
        check.a_function("on_job", on_job, none=True, sync=True)
        if speed is not None:
            check.a_real("speed", speed)
            if not speed > 0:
                raise ValueError(f"speed must be above 0, or None for no waiting, not {speed}")
        self.jobs: dict[str, str] = {}
        self._path = Path(path)
        self._speed = speed
        self._on_job = on_job
        self._auth = dict(auth) if auth is not None else None
        self._parts: dict[str, _Part] = {}
        self._header: Header | None = None
        self._complete = False
        self._tasks = TaskOwner("replayed runtime")
        self._conductor: asyncio.Task[None] | None = None
        self._began = 0.0
        self._bases: dict[str, float] = {}
        limits = Limits(
            event_bytes=MAX_LINE,
            chunk_bytes=MAX_LINE,
            retention=_DAY,
            jobs_per_principal=2 * _MOST_JOBS,
        )
        self._runtime = Runtime(name="replay", auth=self._auth, limits=limits)
        token = next(iter(self._auth), None) if self._auth else None
        self._client = Client(self._runtime, token=token, info=ClientInfo(name="replay"))

    # ------------------------------------------------------------------ as a connector

    @property
    def target(self) -> str:
        """The name of the runtime."""
        return f"replayed:{self._path.name}"

    async def connect(self) -> Transport:
        """Open a new link inside this process."""
        return await self._runtime.connect()

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        path: str = "/arcp",
        ssl: SSLContext | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> Server:
        """Accept WebSocket connections as well; like `Runtime.serve`."""
        return self._runtime.serve(host, port, path=path, ssl=ssl, allowed_hosts=allowed_hosts)

    @property
    def header(self) -> Header:
        """The header of the transcript; available once the block was entered."""
        if self._header is None:
            raise LocalProtocolError("the transcript is not open yet: enter the block first")
        return self._header

    @property
    def complete(self) -> bool:
        """Whether the transcript has its end line."""
        return self._complete

    async def played(self) -> None:
        """Wait until all recorded jobs have ended."""
        if self._conductor is not None:
            await asyncio.wait([self._conductor])

    async def __aenter__(self) -> Self:
        self._index()
        for part in self._parts.values():
            self._register(part.line.agent)
        await self._client.connect()
        self._began = asyncio.get_running_loop().time()
        self._conductor = self._tasks.spawn(self._conduct(), name="conductor")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._tasks.close()
        await self._client.close(timeout=1.0)
        await self._runtime.close()

    # ------------------------------------------------------------------ what there is

    def _index(self) -> None:
        owners: dict[str, tuple[str, int]] = {}
        with read(self._path) as reader:
            self._header = reader.header
            position = reader.position
            for line in reader:
                if isinstance(line, JobLine):
                    if len(self._parts) < _MOST_JOBS:
                        self._parts.setdefault(line.job_id, _Part(line))
                elif isinstance(line, OutcomeLine):
                    if line.job_id in self._parts:
                        self._parts[line.job_id].over = True
                elif isinstance(line, EventLine):
                    for part in self._concerned(line):
                        part.offsets.append(position)
                    if isinstance(line.event, events.Delegate):
                        child, parent = line.event.child_job_id or "", line.job_id or ""
                        owners.setdefault(child, (parent, position))
                position = reader.position
            self._complete = reader.complete
        known = {
            child: owner
            for child, owner in owners.items()
            if child in self._parts and owner[0] in self._parts
        }
        for job_id, (_, position) in _without_circles(known).items():
            self._parts[job_id].delegated = position

    def _concerned(self, line: EventLine) -> list[_Part]:
        """Return the jobs of an event: all open jobs if it names none, as a gap does."""
        if line.job_id is None:
            return [part for part in self._parts.values() if not part.over]
        part = self._parts.get(line.job_id)
        return [] if part is None else [part]

    def _register(self, agent: str) -> None:
        name, _, version = agent.partition("@")

        async def play(input: Any, job: JobContext) -> Any:
            return await self._play(input, job)

        # Delegations to an agent that this runtime does not have, or beyond the number of recorded
        # jobs.
        if len(agent) <= _LONGEST:
            with contextlib.suppress(ValueError):
                self._runtime.agent(name, version or None)(play)
                return
        with contextlib.suppress(ValueError):
            self._runtime.agent(_NAMELESS)(play)

    # ------------------------------------------------------------------ what happens again

    async def _conduct(self) -> None:
        """Begin each top-level job at its recorded time, and wait for all of them."""
        started = []
        for job_id, part in self._parts.items():
            if part.delegated is None:
                await self._until(part.line.at, self._began, 0.0)
                started.append(self._tasks.spawn(self._begin(job_id), name=f"job {job_id}"))
        if started:
            await asyncio.wait(started)

    async def _begin(self, job_id: str) -> None:
        part = self._parts[job_id]
        self._bases[job_id] = part.line.at
        lease = {name: list(found) for name, found in part.line.lease.items()}
        given = {"replayed": job_id}
        for agent, wish in ((part.line.agent, lease), (part.line.agent, None), (_NAMELESS, None)):
            with contextlib.suppress(RequestError, ValueError):  # then in a simpler form
                job = await self._client.submit(agent, given, lease=wish or None)
                break
        else:
            return
        with contextlib.suppress(ArcpError):
            await job.result()

    async def _until(self, at: float, began: float, base: float) -> None:
        if self._speed is None:
            return
        delay = began + (at - base) / self._speed - asyncio.get_running_loop().time()
        if delay > 0:
            await asyncio.sleep(delay)

    async def _play(self, input: Any, job: JobContext) -> Any:
        wanted = input.get("replayed") if isinstance(input, dict) else None
        if not isinstance(wanted, str) or wanted not in self._parts:
            wanted = self._first(job.agent)
        elif wanted not in self.jobs:
            self.jobs[wanted] = job.id
            if self._on_job is not None:
                self._on_job(self._parts[wanted].line, job.id)
        part = self._parts[wanted]
        base = self._bases.get(wanted, part.line.at)
        began, hole = asyncio.get_running_loop().time(), False
        next_chunk = 0
        with self._path.open("rb") as file:
            for offset in part.offsets:
                line = line_at(file, offset)
                await self._until(line.at, began, base)
                if not isinstance(line, EventLine):
                    continue
                event = line.event
                if isinstance(event, events.ResultChunk):
                    hole |= event.chunk_seq != next_chunk
                    next_chunk = event.chunk_seq + 1
                if isinstance(event, events.Completed):
                    if event.result_id is not None and (hole or not next_chunk):
                        raise JobFailed(
                            "chunks of the result were not recorded", code="RECORDING_INCOMPLETE"
                        )
                    return _exact(line, "value", event.value)
                if isinstance(event, events.Failed):
                    await self._fail(event, line, job)
                await self._emit(line, job, offset)
        raise JobFailed("the recording ends before the job does", code="RECORDING_ENDED")

    def _first(self, agent: str) -> str:
        parts = self._parts.items()
        return next(
            (job_id for job_id, part in parts if part.line.agent == agent), next(iter(parts))[0]
        )

    async def _fail(self, event: events.Failed, line: EventLine, job: JobContext) -> None:
        if event.status == "cancelled":
            # Its submitter may cancel it, which interrupts this agent: then the job ends as
            # cancelled.
            with contextlib.suppress(ArcpError):
                await self._client.cancel_job(job.id, event.message or None)
                await asyncio.Event().wait()
        details = _exact(line, "details", event.details)
        raise JobFailed(event.message, code=event.code, retryable=event.retryable, details=details)

    async def _emit(self, line: EventLine, job: JobContext, position: int) -> None:
        event = line.event
        try:
            match event:
                case events.ResultChunk():
                    binary = event.encoding == "base64"
                    data = base64.b64decode(event.data, validate=True) if binary else event.data
                    await job.chunk(data, event.more)
                case events.Delegate():
                    await self._delegate(event, line, job, position)
                case events.Gap():
                    await job.emit("x-vendor.arcp-client.gap", _body(line))
                case events.Metric(name="cost.budget.remaining", unit=unit) if unit in job.budget:
                    pass  # the runtime emits this itself
                case events.Unknown(kind=kind, body=body):
                    shown = body if isinstance(body, dict) else {"body": body}
                    told = line.fields if line.fields is not None else {}
                    found = told.get("body", told)  # without a body, it is the whole event
                    exact = found if isinstance(found, dict) else {"body": found}
                    await job.emit(kind or "x-vendor.arcp-client.unknown", _raw(shown, exact))
                case _:
                    await job.emit(event.kind, _body(line))
        except (ValueError, RequestError) as error:
            await job.log(f"an event of the kind {event.kind!r} cannot be played: {error}", "warn")

    async def _delegate(
        self, event: events.Delegate, line: EventLine, job: JobContext, position: int
    ) -> None:
        child = self._parts.get(event.child_job_id or "")
        if child is None or child.delegated != position:  # each job begins once
            await job.emit("x-vendor.arcp-client.delegate", _body(line))
            return
        self._bases[child.line.job_id] = line.at
        given = {"replayed": child.line.job_id}
        try:
            await job.delegate(child.line.agent, given, delegate_id=event.delegate_id)
        except (RequestError, JobFailed):  # the lease does not allow it: begin it as a separate job
            await job.emit("x-vendor.arcp-client.delegate", _body(line))
            self._tasks.spawn(self._begin(child.line.job_id), name="child")


def _without_circles(owners: dict[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Return each job's parent, without cycles, which a file may contain."""
    found, checked = dict(owners), set[str]()
    for each in owners:
        way: list[str] = []
        on_it: set[str] = set()
        up = each
        while up in found and up not in checked:
            if up in on_it:
                del found[up]
                break
            way.append(up)
            on_it.add(up)
            up = found[up][0]
        checked.update(way)
    return found


def _body(line: EventLine) -> dict[str, Any]:
    """The fields that an event has besides those of its envelope, as JSON."""
    event = line.event
    fields = {name: value for name, value in event.to_dict().items() if name not in _SHARED}
    stated = {name: value for name, value in fields.items() if value is not None}
    return _raw(stated, line.fields or {})


def _raw(body: Mapping[str, Any], exact: Mapping[str, Any]) -> dict[str, Any]:
    """A body whose values are JSON, with the digits that the file has."""
    return {name: _json(value, exact.get(name)) for name, value in body.items()}


def _exact(line: EventLine, name: str, value: Any) -> Any:
    """A value of an event as JSON, with the digits that the file has; ``None`` for ``None``."""
    return None if value is None else _json(value, (line.fields or {}).get(name))


def _json(value: Any, exact: Any) -> Any:
    """A value as JSON, from ``exact``, which is the value with its digits, unless they differ."""
    if isinstance(value, str) and value.isascii():  # the runtime looks at the names of metrics
        return value
    try:
        same = digits.plain(exact) == value
        return msgspec.Raw(digits.dumps(exact if same else value, ascii=True).encode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
