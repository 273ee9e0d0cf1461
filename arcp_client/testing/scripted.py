"""`ScriptedRuntime`: plays a script in the dialect of any public runtime.

It is made for tests of clients. It writes frames in the forms of a public runtime or of the
specification, and performs only the steps of its script.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

from arcp_client._dialects import DIALECTS, SPECIFICATION, Forms
from arcp_client._security import AllowedHosts, WrongTokens
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client._wire import names as wire
from arcp_client._wire.ids import new_prefixed_id, now_text
from arcp_client.runtime._connection.connection import Arrival
from arcp_client.runtime.limits import Limits
from arcp_client.runtime.serving import Server, WebSockets
from arcp_client.testing._played import Frame, PlayedJob, PlayedSession
from arcp_client.testing._script import (
    Accept,
    Answer,
    Chunk,
    Drop,
    Emit,
    Fail,
    Finish,
    Later,
    Raw,
    Refuse,
    Script,
    Spawn,
    Step,
    Wait,
    Withhold,
)
from arcp_client.testing._talk import Talk
from arcp_client.transports.base import MAX_FRAME, Transport
from arcp_client.transports.memory import memory_pair

__all__ = [
    "Accept",
    "Answer",
    "Chunk",
    "Drop",
    "Emit",
    "Fail",
    "Finish",
    "Later",
    "Raw",
    "Refuse",
    "Script",
    "ScriptedRuntime",
    "Spawn",
    "Step",
    "Wait",
    "Withhold",
]

_SPEC, _LEGACY = "spec", "legacy"


def _forms_of(dialect: str) -> Forms:
    if dialect in (_SPEC, _LEGACY):
        return SPECIFICATION.forms
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join([_SPEC, *DIALECTS, _LEGACY])}")
    return DIALECTS[dialect].forms


class ScriptedRuntime:
    """A runtime that speaks one dialect and performs a script.

    ::

        async with ScriptedRuntime(
            "python",
            agents={"count": [Emit("progress", {"current": 1}), Wait("go"), Finish("done")]},
            answers={"job.submit": [Refuse("PERMISSION_DENIED")]},     # the first one only
        ) as runtime, Client(runtime) as client:
            ...
            runtime.open("go")

    It is a `Connector`: a client takes it as its target and reaches it over an in-memory link.
    `serve` also accepts WebSockets. Sessions and jobs survive a lost link exactly as far as they
    survive it in the played runtime.

    Each frame of the client is checked against what the played runtime requires. A frame that the
    played runtime would refuse or ignore is added to `objections`.

    Args:
        dialect: the runtime to play, by its name in ``SessionInfo.dialect``; ``spec`` for the
            specification; ``legacy`` for a runtime of an older protocol, which rejects the session.
        agents: the script of each agent, by name.
        answers: by message type, the answers to the first requests of that type, in order. ``None``
            stands for the usual answer, which later requests get too.
        features: the features that the runtime offers (§6.2); all by default.
        tokens: the bearer tokens that it accepts; any by default.

    Attributes:
        name: the name of the dialect.
        heard: every frame from the client, oldest first.
        said: every frame to the client, oldest first.
        objections: what the runtime would not have understood, each with its frame.
        sessions: its sessions, by id.
        jobs: its jobs, by id.
        links: the number of links so far.
    """

    def __init__(
        self,
        dialect: str = "spec",
        *,
        agents: Mapping[str, Sequence[Step]] | None = None,
        answers: Mapping[str, Sequence[Answer | None]] | None = None,
        features: Iterable[str] = wire.FEATURES,
        tokens: Iterable[str] | None = None,
    ) -> None:
        self.name = dialect
        self.forms = _forms_of(dialect)
        self.legacy = dialect == _LEGACY
        self.features = list(features)
        self.sessions: dict[str, PlayedSession] = {}
        self.jobs: dict[str, PlayedJob] = {}
        self.heard: list[Frame] = []
        self.said: list[Frame | bytes] = []
        self.objections: list[tuple[str, Mapping[str, Any]]] = []
        self.links = 0
        self._agents = {name: tuple(script) for name, script in (agents or {}).items()}
        self._answers = {kind: deque(given) for kind, given in (answers or {}).items()}
        self._tokens = frozenset(tokens) if tokens is not None else None
        self._gates: dict[str, asyncio.Event] = {}
        self._news: list[asyncio.Future[None]] = []
        self._talks: set[Talk] = set()
        self._tasks = TaskOwner("scripted runtime")

    # ------------------------------------------------------------------ as a connector

    @property
    def target(self) -> str:
        """The name of the runtime."""
        return f"scripted:{self.name}"

    async def connect(self) -> Transport:
        """Open a new in-memory link."""
        near, far = memory_pair()
        self._tasks.spawn(self._hold(far), name="link")
        return near

    def serve(
        self, host: str = "127.0.0.1", port: int = 0, *, path: str = "/arcp"
    ) -> AbstractAsyncContextManager[Server]:
        """Accept WebSocket connections as well, at ``server.url``.

        Args:
            host: the address to listen on.
            port: the port; a free one by default.
            path: the path of the URL.
        """

        async def on_enter() -> None:
            """Does nothing: there is nothing to prepare."""

        async def link(transport: Transport, arrival: Arrival) -> _Served:
            arrival.welcomed()  # a script may require anything of a client before the welcome
            return _Served(self, transport)

        sockets = WebSockets(
            link,
            limits=Limits(),
            max_frame=MAX_FRAME,
            allowed_hosts=AllowedHosts(),
            any_origin=True,
            wrong_tokens=WrongTokens(),
        )
        return Server(sockets, host=host, port=port, path=path, ssl=None, on_enter=on_enter)

    async def close(self) -> None:
        """End all links and jobs."""
        self.drop()
        await self._tasks.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------ for tests

    def open(self, gate: str) -> None:
        """Open a gate: jobs that have reached, or later reach, a `Wait` for it continue."""
        self.gate(gate).set()

    def next(self, kind: str, *answers: Answer | None) -> None:
        """Set the answers for the next requests of this type."""
        self._answers.setdefault(kind, deque()).extend(answers)

    def drop(self) -> None:
        """End every link without a goodbye; queued frames are still sent."""
        for talk in tuple(self._talks):
            talk.drop()

    def send(self, frame: Mapping[str, Any] | bytes) -> None:
        """Send an unsolicited frame on every link with a session.

        A mapping gets version, id and session id unless it has its own.
        """
        for session in self.sessions.values():
            if isinstance(frame, bytes):
                session.send(frame)
            else:
                session.send({**session.frame(str(frame.get("type", "")), {}), **frame})

    def of(self, kind: str) -> list[Frame]:
        """Return the client's frames of one type."""
        return [frame for frame in self.heard if frame.get("type") == kind]

    async def until(self, kind: str, count: int = 1) -> list[Frame]:
        """Wait until the client has sent ``count`` frames of one type; return them."""
        await self._until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    async def until_linked(self, count: int) -> None:
        """Wait until ``count`` links were opened."""
        await self._until(lambda: self.links >= count)

    async def until_left(self, up: int = 0) -> None:
        """Wait until no link is open, or at most ``up`` links."""
        await self._until(lambda: len(self._talks) <= up)

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._news.append(news)
            await news

    def _tell(self) -> None:
        waiting, self._news = self._news, []
        for news in waiting:
            if not news.done():
                news.set_result(None)

    # ------------------------------------------------------------------ for its links

    async def _hold(self, transport: Transport) -> None:
        """Serve one link, from its beginning to its end."""
        talk = Talk(self, transport)
        self._talks.add(talk)
        self.links += 1
        self._tell()
        reading = self._tasks.spawn(talk.read(), name="read")
        try:
            await talk.write()
        finally:
            self._talks.discard(talk)
            await cancel_and_wait([reading])
            self._tell()

    def gate(self, name: str) -> asyncio.Event:
        """Return a gate by its name."""
        return self._gates.setdefault(name, asyncio.Event())

    def knows(self, agent: str) -> bool:
        """Whether the agent has a script."""
        return agent.partition("@")[0] in self._agents

    def accepts(self, token: str) -> bool:
        """Whether a bearer token is valid."""
        return self._tokens is None or token in self._tokens

    def inventory(self) -> list[str]:
        """Return the names of the agents."""
        return list(self._agents)

    def answer_to(self, kind: str) -> Answer | None:
        """Return the test's answer for the next request of this type, if any."""
        given = self._answers.get(kind)
        return given.popleft() if given else None

    def note(self, way: str, frame: Any) -> None:
        """Record a frame."""
        (self.heard if way == "heard" else self.said).append(frame)
        self._tell()

    def object(self, why: str, frame: Mapping[str, Any]) -> None:
        """Record a frame that this dialect would not have understood."""
        self.objections.append((why, frame))

    def start(
        self, agent: str, session: PlayedSession, talk: Any, *, parent: str | None, **facts: Any
    ) -> PlayedJob:
        """Make a job and run it."""
        job_id = new_prefixed_id("job")
        request_id = facts.pop("request_id", None)
        payload: dict[str, Any] = {
            "job_id": job_id,
            "agent": agent,
            "accepted_at": now_text(),
            **self.forms.lease(facts.get("submit", {})),
        }
        trace_id = facts.get("trace_id")
        if self.forms.names_request == "trace":
            payload["trace_id"] = trace_id
        elif request_id is not None:
            payload[self.forms.names_request] = request_id
        if parent is not None:
            payload["parent_job_id"] = parent
        told = {name: value for name, value in payload.items() if value is not None}
        trace = trace_id if self.forms.says_traces else None
        accepted = session.frame(wire.ACCEPTED, told, job_id=job_id, trace_id=trace)
        job = PlayedJob(
            job_id,
            agent,
            self._agents[agent.partition("@")[0]],
            session,
            talk,
            accepted,
            gates=self.gate,
            spawn=self._spawn,
            parent=parent,
            **{**facts, "trace_id": trace},
        )
        self.jobs[job_id] = job
        job.begin()
        job.task = self._tasks.spawn(job.run(), name=f"job {job_id}")
        return job

    def _spawn(self, parent: PlayedJob, agent: str) -> None:
        delegate_id = new_prefixed_id("del")
        body = {"delegate_id": delegate_id, "agent": agent, "input": None}
        parent.tell(wire.EVENT, self.forms.event("delegate", body))
        self.start(agent, parent.session, parent.link, parent=parent.id, trace_id=parent.trace_id)


class _Served:
    """One WebSocket link of a `ScriptedRuntime`."""

    def __init__(self, runtime: ScriptedRuntime, transport: Transport) -> None:
        self._runtime = runtime
        self._transport = transport

    async def run(self) -> None:
        await self._runtime._hold(self._transport)  # noqa: SLF001  the same module

    def finish(self) -> None:
        self._runtime.drop()
