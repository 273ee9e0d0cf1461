"""Agents in, a served runtime out: registration, hosting and shutdown (§4, §6–§9).

::

    transport ─▶ Connection ─▶ Requests ─▶ JobTable ─▶ Runner ─▶ agent(input, JobContext)
        ▲            │ cursor                                            │ emits
        └── frames ◀─┴── Session: number, log, queue in one step ◀──── Job ──▶ its subscribers
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from ssl import SSLContext
from types import TracebackType
from typing import Any, TypeVar

from aiohttp import web

from arcp_client._tasks import TaskOwner
from arcp_client._wire import dialect
from arcp_client._wire.codec import ControlFrame
from arcp_client.errors import ConnectFailed, JobNotFound, LocalProtocolError, RequestError
from arcp_client.models import Credential
from arcp_client.runtime import frames
from arcp_client.runtime.admission import Admission
from arcp_client.runtime.agents import Agents
from arcp_client.runtime.auth import Authentication, Gate
from arcp_client.runtime.authority import Authority
from arcp_client.runtime.connection import Connection
from arcp_client.runtime.context import JobContext
from arcp_client.runtime.credentials import Provisioner, Vault
from arcp_client.runtime.delegation import Delegation
from arcp_client.runtime.handshake import Greeter, Identity
from arcp_client.runtime.idempotency import Keys
from arcp_client.runtime.jobs import Job
from arcp_client.runtime.journal import Journal
from arcp_client.runtime.leases import Budget
from arcp_client.runtime.limits import Limits, Policy
from arcp_client.runtime.log import EventLog, MemoryEventLog
from arcp_client.runtime.outcomes import PARENT_ENDED, Failure
from arcp_client.runtime.requests import Requests
from arcp_client.runtime.restoring import restore
from arcp_client.runtime.serving import Server, WebSockets
from arcp_client.runtime.session import Session
from arcp_client.runtime.sessions import SessionTable
from arcp_client.runtime.table import JobTable
from arcp_client.transports.base import Transport
from arcp_client.transports.memory import memory_pair
from arcp_client.transports.stdio import StdioServerTransport
from arcp_client.version import __version__

__all__ = ["Runtime"]

_log = logging.getLogger("arcp_client.runtime")

F = TypeVar("F", bound=Callable[..., Any])

_ENVELOPE = 64 * 1024


class Runtime:
    """An ARCP runtime to embed: agents are functions, clients connect from anywhere.

    It guarantees two things. *Order*: an event is numbered, logged and queued in one step, so that
    each session sees its events in the order of ``event_seq``, without a gap, also across a
    resume and also as a subscriber (§8.3). *Lifetime*: a job belongs to the runtime; no dropped,
    closed or silent connection ends it (§6.4, §6.7).

    A ``Client`` in the same process takes the runtime itself as its target. It needs no ``async
    with`` for that; a runtime without connections and running jobs owns no task and no socket.

    Args:
        name: the runtime's name in the welcome.
        version: its version; by default this package's.
        auth: ``None`` lets anybody in, as one principal; a mapping names the principal of each
            bearer token; an async callable is given the token and returns the principal, or
            ``None`` to refuse (§6.1).
        event_log: how much of each session is kept for a resume, and where.
        heartbeat_interval: seconds (§6.4); ``None`` turns heartbeats off.
        resume_window: seconds that a session without connection and running job is kept (§6.3).
        limits: every other bound.
        policy: widens who may watch whose jobs; by default only the principal that submitted
            them (§14).
        provisioner: issues credentials for jobs and revokes them at their end (§9.8). Offered to
            clients only with a durable event log, and over TLS, stdio or in this process.
    """

    def __init__(
        self,
        *,
        name: str = "arcp-client",
        version: str | None = None,
        auth: Authentication = None,
        event_log: EventLog | None = None,
        heartbeat_interval: float | None = 30.0,
        resume_window: float = 600.0,
        limits: Limits | None = None,
        policy: Policy | None = None,
        provisioner: Provisioner | None = None,
    ) -> None:
        if heartbeat_interval is not None and not heartbeat_interval > 0:
            raise ValueError("heartbeat_interval is positive, or None for no heartbeats")
        if not resume_window > 0:
            raise ValueError("resume_window is positive")
        self._name = name
        self._limits = limits or Limits()
        self._interval = heartbeat_interval
        self._gate = Gate(auth)
        self._agents = Agents()
        self._tasks = TaskOwner(f"runtime {name}")
        self._job_tasks = TaskOwner(f"runtime {name} jobs")
        self._event_log: EventLog = event_log or MemoryEventLog()
        self._journal = Journal(self._event_log, self._tasks)
        journal = self._journal if self._event_log.durable else None
        keys = Keys(self._limits.idempotency_window, self._limits.idempotency_keys, journal)
        self._keys = keys
        self._vault = (
            None if provisioner is None else Vault(provisioner, self._tasks, self._journal)
        )
        self._jobs = JobTable(
            self._limits,
            self._job_tasks,
            policy=policy,
            journal=journal,
            context=self._context,
            before_end=self._end_credentials if self._vault is not None else None,
        )
        self._admission = Admission(self._agents, self._jobs, self._limits, keys, self._vault)
        self._sessions = SessionTable(
            self._limits,
            self._event_log,
            window=resume_window,
            on_gone=self._jobs.released,
            journal=journal,
        )
        self._requests = Requests(
            self._jobs, self._admission, self._limits, self._journal.then, self._tasks.spawn
        )
        self._greeter = Greeter(
            Identity(
                name=name,
                version=version or __version__,
                sdk=f"arcp-client/{__version__}",
                resume_window=resume_window,
                heartbeat_interval=heartbeat_interval,
            ),
            self._gate,
            self._sessions,
            inventory=self._agents.inventory,
            features=self._features,
            stored=self._journal.flushed,
        )
        self._opening: asyncio.Task[None] | None = None
        self._connections: set[Connection] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Runtime {self._name}>"

    # ------------------------------------------------------------------------ agents

    def agent(
        self, name: str, version: str | None = None, default: bool = False
    ) -> Callable[[F], F]:
        """Register an agent; the decorated function is returned unchanged.

        The function is called as ``agent(input, job)`` for each job, ``job`` being a `JobContext`.
        It is a coroutine function that returns the result, any JSON value; or an async generator,
        or a coroutine function that returns an async iterator, of ``str`` or ``bytes``: its items
        are sent as the chunks of a streamed result (§8.4).

        An exception ends the job with INTERNAL_ERROR, retryable, and neither its text nor its
        trace reaches the client. To fail a job on purpose, raise ``JobFailed`` with a code and a
        message of your own; a refusal of `JobContext.authorize` that is not caught ends the job
        with its code.

        Args:
            name: lower-case letters, digits, ``.``, ``_`` and ``-`` (§7.5).
            version: any version string, or ``None`` for an agent without versions.
            default: a submit without a version means this one. Without it, the version that was
                registered first.

        Raises:
            ValueError: the name is not one, or is registered already.
        """

        def register(function: F) -> F:
            self._agents.add(name, version, function, default)
            return function

        return register

    def _context(self, job: Job, holder: Callable[[Budget], Job | None]) -> JobContext:
        return JobContext(job, self._limits, Authority(job, holder), self._delegate)

    async def _delegate(self, parent: Job, wish: Delegation) -> Job:
        """Accept a child, then tell the parent's session of it and start it, in one step."""
        child = await self._admission.delegate(parent, wish)
        if parent.ended or parent.stopping is not None:
            self._jobs.runner.stop(child, PARENT_ENDED)
            raise LocalProtocolError("the delegating job has ended")
        parent.emit(
            "delegate",
            {
                "child_job_id": child.id,
                "delegate_id": child.delegate_id,
                "agent": child.agent,
                "lease": child.grant.wire(),
            },
        )
        acceptance = child.accepted

        def announce() -> None:
            if child.owner is not None:
                child.owner.control(frames.acceptance(acceptance, child.owner.id, None))
            self._jobs.runner.admit(child)

        self._journal.then(announce)
        return child

    def rotate(self, job_id: str, credential: Credential) -> None:
        """A credential of a running job has a new value: tell the session that submitted the job.

        It arrives as a ``credential_rotated`` status; observers get the event without the value,
        live and replayed (§9.8). Ending the old value is the provisioner's part.

        Args:
            job_id: the job.
            credential: with the id of one of its credentials, and the new value.

        Raises:
            JobNotFound: no running job has that id and that credential.
        """
        job = self._jobs.get(job_id)
        if job is None or job.ended or credential.id not in job.credentials:
            raise JobNotFound("no running job has that credential")
        job.rotate(credential)

    def _features(self, connection: Connection) -> frozenset[str]:
        offered = set(dialect.FEATURES)
        if self._interval is None:
            offered.discard(dialect.HEARTBEAT)
        if self._vault is None or not self._event_log.durable or not connection.secure:
            # Who cannot promise revocation, or not keep the value secret, offers none (§9.8).
            offered.discard(dialect.CREDENTIALS)
        return frozenset(offered)

    async def _end_credentials(self, job: Job) -> None:
        assert self._vault is not None
        await self._vault.revoke(job.id, list(job.credentials))

    # ----------------------------------------------------------------------- hosting

    @property
    def target(self) -> str:
        """``runtime://`` and the name: what a client's messages and checkpoints call it."""
        return f"runtime://{self._name}"

    @property
    def open(self) -> bool:
        """Whether anybody may come in, because it was made without ``auth`` (§6.1)."""
        return self._gate.open

    async def connect(self) -> Transport:
        """A new link inside this process; what makes a runtime a valid target of a client.

        Raises:
            ConnectFailed: the runtime was closed.
        """
        await self._begin()
        near, far = memory_pair(max_frame=self._max_frame)
        connection = self._connection(far, secure=True)
        # An empty context: what the client's task keeps there is not the runtime's.
        contextvars.Context().run(self._tasks.spawn, connection.run(), name="link")
        return near

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        path: str = "/arcp",
        ssl: SSLContext | None = None,
    ) -> Server:
        """Listen for WebSockets: ``async with runtime.serve() as server`` (§4).

        Leaving the block stops listening and ends its connections, neither sessions nor jobs.

        Args:
            host: an address of this machine; by default reachable from it alone.
            port: 0 takes a free one; see ``server.port`` and ``server.url``.
            path: the URL's path.
            ssl: makes it ``wss``.
        """
        return Server(
            self._sockets(), host=host, port=port, path=path, ssl=ssl, on_enter=self._begin
        )

    def add_routes(self, app: web.Application, path: str = "/arcp") -> None:
        """Serve WebSockets under a path of an existing aiohttp application.

        The application's shutdown ends the connections, neither sessions nor jobs.
        """
        sockets = self._sockets()
        app.router.add_get(path, sockets.handle)
        app.on_shutdown.append(sockets.close)

    async def serve_stdio(self) -> None:
        """Serve the parent process over stdin and stdout until it closes them (§4).

        Whatever the process prints goes to stderr meanwhile.
        """
        await self._begin()
        transport = StdioServerTransport(max_line=self._max_frame)
        await self._connection(transport, secure=True).run()

    def _sockets(self) -> WebSockets:
        return WebSockets(
            self._begun_connection, max_frame=self._max_frame, any_origin=not self._gate.open
        )

    @property
    def _max_frame(self) -> int:
        return max(self._limits.frame_bytes, self._limits.event_bytes + _ENVELOPE)

    async def _begin(self) -> None:
        """Open the event log, once, whoever comes first."""
        if self._closed:
            raise ConnectFailed(f"{self.target} was closed", permanent=True)
        if not self._event_log.durable:
            return
        if self._opening is None:
            self._opening = self._tasks.spawn(self._restore(), name="open")
        # Not the caller's to cancel: others wait for it too.
        await asyncio.shield(self._opening)

    async def _restore(self) -> None:
        stored = await self._event_log.open()
        restore(stored, self._sessions, self._jobs, self._keys, self._requests.broken)
        for left in stored.credentials:
            if self._vault is not None:
                self._vault.revoke_later(left.job_id, [left.credential_id])
            else:
                _log.error("job %s left a credential, and nobody to revoke it", left.job_id)

    async def _begun_connection(self, transport: Transport, secure: bool) -> Connection:
        await self._begin()
        return self._connection(transport, secure=secure)

    def _connection(self, transport: Transport, *, secure: bool) -> Connection:
        connection = Connection(
            transport, self, self._tasks, secure=secure, on_end=self._connections.discard
        )
        self._connections.add(connection)
        return connection

    # ------------------------------------------------- what connections turn to (Desk)

    @property
    def handshake_timeout(self) -> float:
        """See `Limits`."""
        return self._limits.handshake_timeout

    @property
    def heartbeat_interval(self) -> float | None:
        """Seconds, or ``None``."""
        return self._interval

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool:
        """Open or resume a session."""
        return await self._greeter.greet(connection, frame)

    def handle(self, connection: Connection, session: Session, frame: ControlFrame) -> None:
        """Act on a frame of an open session."""
        if session.tokens.settle():
            session.note()
        if frame.type == dialect.RESUME:
            self._tasks.spawn(self._resume_later(connection, session, frame), name="resume")
        else:
            self._requests.handle(connection, session, frame)

    async def _resume_later(
        self, connection: Connection, session: Session, frame: ControlFrame
    ) -> None:
        try:
            await self._greeter.resume_later(connection, session, frame)
        except RequestError as error:
            connection.refuse(frame, error)

    def left(self, connection: Connection, session: Session) -> None:
        """A session has lost its connection."""
        self._sessions.left(session)

    # ---------------------------------------------------------------------- lifetime

    async def __aenter__(self) -> Runtime:
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, *, timeout: float = 0.0) -> None:
        """Shut down: no new jobs, an end for the running ones, their terminals sent, links ended.

        A job that is still running after ``timeout`` seconds ends with INTERNAL_ERROR, retryable.
        Servers stop when their own blocks are left; their links end here. Idempotent.
        """
        self._closed = True
        self._jobs.closing = True
        await self._end_jobs(timeout)
        for connection in tuple(self._connections):
            await connection.drain(1.0)
            connection.finish()
        self._sessions.close()
        self._jobs.close()
        running = [c.ended() for c in tuple(self._connections)]
        if running:
            await asyncio.wait(
                {self._tasks.spawn(wait, name="ending") for wait in running}, timeout=3.0
            )
        await self._journal.drain(5.0)
        await self._tasks.close()
        await self._event_log.close()

    async def _end_jobs(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        for job in self._jobs.open():
            left = until - loop.time()
            if left <= 0:
                break
            try:
                await asyncio.wait_for(job.done.wait(), left)
            except TimeoutError:
                break
        ended = Failure(
            dialect.ERROR, dialect.INTERNAL_ERROR, "the runtime was shut down", retryable=True
        )
        jobs = self._jobs.open()
        for job in jobs:
            self._jobs.runner.stop(job, ended)
        waiting = [self._tasks.spawn(job.done.wait(), name="end") for job in jobs]
        if waiting:
            await asyncio.wait(waiting, timeout=self._limits.kill_grace + 1)
