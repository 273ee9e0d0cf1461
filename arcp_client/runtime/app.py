"""The public `Runtime`: registers agents, serves clients, and shuts down (§4, §6–§9).

::

    transport ─▶ Connection ─▶ RequestHandler ─▶ Admission ─▶ Runner ─▶ agent(input, JobContext)
        ▲            │ takes events in order                                │ emits
        └── frames ◀─┴── ServerSession: numbers and logs an event ◀──── ServerJob ──▶ subscribers

    _connection     one link: handshake, requests, answers, heartbeat
    _agents         permissions, costs, tool calls and delegation of a JobContext
    _jobs           admission, execution, outcome and retention of jobs
    _sessions       sessions and their numbered events, across connections
    _leases         grants, budgets and credentials
    _webhooks       calls of URLs for questions and ends of jobs
    _log            events kept for resumes: in memory and in a durable log
"""

from __future__ import annotations

import contextvars
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Any, Literal, TypeVar

from aiohttp import web

from arcp_client import _arguments as check
from arcp_client._security import AllowedHosts
from arcp_client._telemetry import Telemetry
from arcp_client._wire.messages import parse_agent
from arcp_client.errors import JobNotFound
from arcp_client.models import Credential
from arcp_client.runtime._agents.input_schema import input_schema as read_schema
from arcp_client.runtime._connection.authentication import Authentication, Gate
from arcp_client.runtime._connection.connection import Arrival, Connection
from arcp_client.runtime._connection.handshake import Identity
from arcp_client.runtime._core import Core
from arcp_client.runtime._jobs.compat import GO, PYTHON, SPECIFICATION
from arcp_client.runtime._leases.credentials import Provisioner
from arcp_client.runtime._log.event_log import EventLog, MemoryEventLog
from arcp_client.runtime._webhooks.endpoint import Webhook
from arcp_client.runtime.limits import Limits, Policy
from arcp_client.runtime.serving import AsgiRuntime, Server, WebSockets
from arcp_client.transports.base import Transport
from arcp_client.transports.memory import memory_pair
from arcp_client.transports.stdio import StdioServerTransport
from arcp_client.version import __version__

__all__ = ["Runtime"]

F = TypeVar("F", bound=Callable[..., Any])

_ENVELOPE = 64 * 1024
_COMPAT = {"specification": SPECIFICATION, "python": PYTHON, "go": GO}


class Runtime:
    """An embeddable ARCP runtime: agents are functions, clients connect from anywhere.

    It guarantees order and lifetime. *Order*: an event is numbered, logged and queued in one step.
    So each session receives its events in the order of ``event_seq``, without gaps. This holds
    across a resume too, and for the jobs of other sessions to which it subscribes (§8.3).
    *Lifetime*: the runtime owns its jobs; a dropped, closed or silent connection does not end them
    (§6.4, §6.7).

    A ``Client`` in the same process takes the runtime itself as its target. Such a runtime need
    not be closed if its clients and its jobs have ended and its event log is in memory: it owns no
    task, socket or file then. A runtime belongs to the first event loop that uses it; calls from
    other loops are refused. A runtime that is dropped without `close` while it has open jobs, or an
    event log in a file or a database, is reported with a ResourceWarning and closed (rule D20).

    Args:
        name: the runtime's name in the welcome.
        version: its version; by default this package's.
        auth: ``None`` accepts every client, as one principal; a mapping gives the principal of each
            bearer token; an async callable receives the token and returns the principal, or
            ``None`` to refuse (§6.1).
        event_log: stores the events of each session for resumes: in memory (the default), in a file
            (`SqliteEventLog`) or in a database (`PostgresEventLog`). An event log in a file or a
            database is *durable*: it outlives the process.
        heartbeat_interval: seconds (§6.4); ``None`` turns heartbeats off.
        resume_window: seconds that a session without a connection is kept (§6.3). If a job of the
            session still runs at the end of this time, the session is kept for as long again.
        limits: all other limits.
        policy: lets principals observe the jobs of others; by default only the principal that
            submitted a job may (§14).
        steering: lets a session send messages to the agent of a job, although the session has not
            submitted the job. By default only the sessions that may cancel the job may send
            messages. These sessions have the job's principal, and have submitted the job or
            repeated the submit with its idempotency key (§7.4).
        provisioner: issues credentials for jobs, and revokes them when the jobs end (§9.8). The
            runtime offers credentials only with a durable event log, and only to clients that
            connect over TLS, over stdio or in this process.
        dialect: ``specification`` keeps to the specification. ``python`` also serves clients of the
            Python SDK (1.1.3). The runtime then deviates from the specification in three points,
            for every client. The runtime sends the amounts of the budget in ``job.accepted`` as
            strings (§7.1). The runtime sends ``error`` as the status of every ``job.error``; the
            code of the error distinguishes a cancellation and a time-out (§7.4). A submit with an
            empty ``lease_request`` gets ``Limits.default_lease``, because the Python SDK sends an
            empty one if the caller gives no lease. ``go`` also serves clients of the Go SDK, which
            read an inline result only from ``output``. The runtime sends the result under both
            ``output`` and ``result``, so the result counts twice towards the 1 MiB that such a
            client reads in one frame.
        telemetry: traces jobs and counts events, such as `arcp_client.otel.OpenTelemetry`.
        webhooks: URLs that are called when a question is opened or settled and when a job ends.
            With a durable event log, calls that are not made yet survive a restart.
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
        steering: Policy | None = None,
        provisioner: Provisioner | None = None,
        dialect: Literal["specification", "python", "go"] = "specification",
        telemetry: Telemetry | None = None,
        webhooks: Iterable[Webhook] = (),
    ) -> None:
        check.a_text("name", name)
        check.a_text("version", version, none=True)
        check.an_instance(
            "auth",
            auth,
            (Mapping, Callable),
            "a mapping of tokens to principals, or a function",
            none=True,
            secret=True,
        )
        if callable(auth):
            check.a_function("auth", auth)
        check.an_instance("limits", limits, Limits, "Limits", none=True)
        check.an_instance("event_log", event_log, EventLog, "an EventLog", none=True)
        check.a_function("policy", policy, none=True, sync=True)
        check.a_function("steering", steering, none=True, sync=True)
        check.an_instance("provisioner", provisioner, Provisioner, "a Provisioner", none=True)
        check.an_instance(
            "telemetry", telemetry, Telemetry, "an OpenTelemetry of arcp_client.otel", none=True
        )
        check.seconds("heartbeat_interval", heartbeat_interval, above=True, none=True)
        check.seconds("resume_window", resume_window, above=True)
        if dialect not in _COMPAT:
            raise ValueError(f"dialect must be one of {', '.join(_COMPAT)}, not {dialect!r}")
        called = check.several("webhooks", webhooks, Webhook, "Webhooks")
        if len({webhook.key for webhook in called}) < len(called):
            raise ValueError("webhooks must have different URLs")
        self._name = name
        self._gate = Gate(auth)
        identity = Identity(
            name=name,
            version=version or __version__,
            sdk=f"arcp-client/{__version__}",
            resume_window=resume_window,
            heartbeat_interval=heartbeat_interval,
        )
        self._core = Core(
            identity,
            self._gate,
            event_log or MemoryEventLog(),
            limits or Limits(),
            policy,
            steering,
            provisioner,
            _COMPAT[dialect],
            None if telemetry is None else telemetry.runtime(name),
            called,
        )

    def __repr__(self) -> str:
        return f"<Runtime {self._name} {self._core.state}>"

    def __del__(
        self,
        _warn: Callable[..., None] = warnings.warn,
        _log: logging.Logger = logging.getLogger("arcp_client.runtime"),  # noqa: B008
    ) -> None:
        core = getattr(self, "_core", None)  # the arguments may have been refused
        if core is not None and core.holds_something:
            _warn(f"{self!r} was dropped without close()", ResourceWarning, source=self)
            _log.warning("%r was dropped without close(), which ends it", self)
            core.abandon()

    # ------------------------------------------------------------------------ agents

    def agent(
        self,
        name: str,
        version: str | None = None,
        default: bool = False,
        *,
        input_schema: Any = None,
        description: str | None = None,
    ) -> Callable[[F], F]:
        """Register an agent; the decorated function is returned unchanged.

        The runtime calls ``agent(input, job)`` for each job, where ``job`` is a `JobContext`. The
        function is one of: a coroutine function that returns the result, any JSON value; an async
        generator of ``str`` or ``bytes``; a coroutine function that returns an async iterator of
        ``str`` or ``bytes``. The items of a generator or iterator are sent as the chunks of a
        streamed result (§8.4).

        With an ``input_schema``, each submit and each delegation is validated before a job exists:
        an input that does not match is refused with `InvalidInput`, which names the fields. Schema
        and description are sent to clients in the agent inventory of the welcome, as an extension
        that other clients ignore.

        An exception ends the job with INTERNAL_ERROR, retryable; its text and its traceback are not
        sent to the client. To fail a job deliberately, raise ``JobFailed`` with your own code and
        message. An uncaught refusal of `JobContext.authorize` ends the job with its code.

        Args:
            name: lower-case letters, digits, ``.``, ``_`` and ``-`` (§7.5).
            version: any version string, or ``None`` for an agent without versions.
            default: whether a submit without a version selects this one. If no version is the
                default, it selects the version that was registered first.
            input_schema: a pydantic model, or another type that pydantic validates: the function
                then gets its first argument as that type, while ``job.input`` stays the JSON value.
                Or a JSON Schema as a mapping, which needs the extra ``schema``; the function then
                gets the JSON value. By default the attribute ``input_schema`` of the function, if
                it has one.
            description: what the agent does, for people and for models that choose tools.

        Raises:
            ValueError: the name or version is invalid, or already registered; the schema is no
                valid JSON Schema or refers to another document; the declarations of all agents
                take more than 256 KiB.
            TypeError: the name or version is not a string, the schema is neither a type nor a
                mapping, or the decorated object is not a function.
            ModuleNotFoundError: the schema is a JSON Schema, and jsonschema is not installed.
        """
        if callable(name):
            raise TypeError('write @runtime.agent("name"), with the name of the agent')
        check.a_text("name", name)
        check.a_text("version", version, none=True)
        check.a_flag("default", default)
        check.a_text("description", description, none=True)
        declared = None if input_schema is None else read_schema(input_schema)
        parse_agent(name if version is None else f"{name}@{version}")

        def register(function: F) -> F:
            check.a_function("an agent", function, streams=True)
            own = getattr(function, "input_schema", None) if declared is None else None
            schema = declared if own is None else read_schema(own)
            self._core.agents.add(
                name, version, function, default, schema=schema, description=description
            )
            return function

        return register

    def rotate(self, job_id: str, credential: Credential) -> None:
        """Send a credential's new value to the session that submitted its job, which is running.

        The session receives a ``credential_rotated`` status; observers receive the event without
        the value, live and replayed (§9.8). The provisioner revokes the old value.

        Args:
            job_id: the job.
            credential: the id of one of the job's credentials, with the new value.

        Raises:
            JobNotFound: no running job has that id and that credential.
        """
        check.a_text("job_id", job_id)
        check.an_instance("credential", credential, Credential, "a Credential", secret=True)
        job = self._core.jobs.get(job_id)
        if job is None or job.ended or credential.id not in job.credentials:
            raise JobNotFound("no running job has that credential")
        job.rotate(credential)

    # ----------------------------------------------------------------------- hosting

    @property
    def target(self) -> str:
        """``runtime://`` and the name, which identify the runtime in messages and checkpoints."""
        return f"runtime://{self._name}"

    @property
    def open(self) -> bool:
        """Whether every client is accepted: ``auth`` is ``None`` (§6.1)."""
        return self._gate.open

    async def connect(self) -> Transport:
        """Open a new link inside this process, so that a runtime is a valid target of a client.

        Raises:
            ConnectFailed: the runtime was closed.
        """
        await self._core.begin()
        near, far = memory_pair(max_frame=self._max_frame)
        connection = self._core.links.connection(far, Arrival(secure=True))
        # An empty context: context variables of the client must not reach the runtime.
        contextvars.Context().run(self._core.tasks.spawn, connection.run(), name="link")
        return near

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        path: str = "/arcp",
        ssl: SSLContext | None = None,
        allowed_hosts: Iterable[str] = (),
        probes: bool = False,
    ) -> Server:
        """Listen for WebSockets: ``async with runtime.serve() as server`` (§4).

        Leaving the block stops listening and closes its connections. Sessions and jobs continue.

        A connection to a loopback address is refused with HTTP 403 unless its ``Host`` is a
        loopback name (``localhost``, ``127.0.0.1``, ``[::1]``) or one of ``allowed_hosts``. So a
        web page cannot reach the runtime through a DNS name that points to this machine. A
        connection to another address may name any host. If ``allowed_hosts`` is given, it may name
        only these hosts, a loopback name or an IP address. Without ``auth``, requests from pages of
        other sites are refused as well. `Limits` bounds the number of connections and how long they
        may stay without a session.

        Args:
            host: an address of this machine; the default is reachable from this machine only.
            port: 0 selects a free port; see ``server.port`` and ``server.url``.
            path: the URL's path.
            ssl: serves ``wss`` instead of ``ws``.
            allowed_hosts: further host names under which clients connect, such as the name of a
                proxy on this machine; without scheme and port.
            probes: also answer ``/healthz`` (the process answers), ``/readyz`` (200 while sessions
                and jobs are accepted, else 503) and ``/metrics`` (counts in the OpenMetrics text
                format). They need no token.

        Raises:
            ValueError: an argument has an invalid value.
            TypeError: an argument has a wrong type.
        """
        check.a_text("host", host)
        check.a_flag("probes", probes)
        check.a_number("port", port, least=0)
        _check_path(path)
        check.an_instance("ssl", ssl, SSLContext, "an SSLContext", none=True)
        return Server(
            self._sockets(allowed_hosts),
            host=host,
            port=port,
            path=path,
            ssl=ssl,
            on_enter=self._core.begin,
            counts=self._core.counts if probes else None,
        )

    def add_routes(
        self, app: web.Application, path: str = "/arcp", *, allowed_hosts: Iterable[str] = ()
    ) -> None:
        """Serve WebSockets under a path of an existing aiohttp application.

        The application's shutdown closes the connections; sessions and jobs continue. Hosts and
        origins are checked as by `serve`, and the same limits apply to WebSockets. Other
        connections belong to the application: aiohttp neither limits their number nor sets a
        deadline.

        Args:
            app: the application; not started yet.
            path: the URL's path.
            allowed_hosts: as for `serve`.
        """
        check.an_instance("app", app, web.Application, "an aiohttp.web.Application")
        _check_path(path)
        sockets = self._sockets(allowed_hosts)
        app.router.add_get(path, sockets.handle)
        app.on_shutdown.append(sockets.close)

    def asgi(self, *, allowed_hosts: Iterable[str] = ()) -> AsgiRuntime:
        """The runtime's WebSocket endpoint as an ASGI application.

        Run it with a server such as uvicorn or hypercorn, or add it to your application: with
        Starlette, ``WebSocketRoute("/arcp", runtime.asgi())``. (Below ``Mount("/arcp", …)``, the
        address of the endpoint ends with a slash, ``/arcp/``.) Hosts and origins are checked as by
        `serve`, and the same limits apply to WebSockets, from the accepted request on. Connections
        without a complete request belong to the server, as do the queues of received messages.

        The lifespan of the server, SIGINT and SIGTERM close the connections; sessions and jobs
        continue until `close`. A request that is no WebSocket is answered with HTTP 426.

        Args:
            allowed_hosts: as for `serve`.
        """
        return AsgiRuntime(self._sockets(allowed_hosts), on_start=self._core.begin)

    async def serve_stdio(self, *, stdin: int | None = None, stdout: int | None = None) -> None:
        """Serve the parent process over stdin and stdout until it closes them (§4).

        Requests that the parent wrote before it closed them are answered. While the runtime serves,
        output that this process prints goes to stderr.

        Args:
            stdin: a file descriptor to read from instead.
            stdout: a file descriptor to write to instead.
        """
        check.a_number("stdin", stdin, least=0, none=True)
        check.a_number("stdout", stdout, least=0, none=True)
        await self._core.begin()
        transport = StdioServerTransport(stdin=stdin, stdout=stdout, max_line=self._max_frame)
        await self._core.links.connection(transport, Arrival(secure=True)).run()

    def _sockets(self, allowed_hosts: Iterable[str]) -> WebSockets:
        return WebSockets(
            self._serve,
            limits=self._core.limits,
            max_frame=self._max_frame,
            allowed_hosts=AllowedHosts(check.texts("allowed_hosts", allowed_hosts)),
            any_origin=not self._gate.open,
            wrong_tokens=self._core.wrong_tokens,
        )

    @property
    def _max_frame(self) -> int:
        return max(self._core.limits.frame_bytes, self._core.limits.event_bytes + _ENVELOPE)

    async def _serve(self, transport: Transport, arrival: Arrival) -> Connection:
        await self._core.begin()
        return self._core.links.connection(transport, arrival)

    # ---------------------------------------------------------------------- lifetime

    async def __aenter__(self) -> Runtime:
        await self._core.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, *, timeout: float = 0.0) -> None:
        """Shut down: refuse new jobs, end running ones and send their outcomes, close all links.

        A job that is still running after ``timeout`` seconds ends with INTERNAL_ERROR, retryable.
        The links of servers are closed too, but a server listens until its own block is left.
        Idempotent.
        """
        check.seconds("timeout", timeout)
        await self._core.close(timeout)


def _check_path(path: str) -> None:
    check.a_text("path", path)
    if not path.startswith("/"):
        raise ValueError(f"path must begin with /, unlike {path!r:.60}")
