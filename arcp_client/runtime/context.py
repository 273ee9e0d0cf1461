"""The `JobContext` that is passed to agents: emits events and checks permissions (§8.2).

Each emitting call numbers, logs and queues its event synchronously. After that, it may wait until a
slow client has caught up, or until the event log has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar, get_args, overload

from arcp_client import _arguments as check
from arcp_client._tasks import is_elsewhere
from arcp_client._wire import names
from arcp_client._wire.codec import parse, snapshot
from arcp_client._wire.ids import new_prefixed_id
from arcp_client.errors import LocalProtocolError
from arcp_client.models import Budget, Credential, Lease, LogLevel
from arcp_client.runtime._agents.authorizer import Authorizer
from arcp_client.runtime._agents.child import Child, delegated_to
from arcp_client.runtime._agents.throttle import Throttle
from arcp_client.runtime._agents.tool import Tool
from arcp_client.runtime._dialogue.asked import MISSING, Asked
from arcp_client.runtime._dialogue.inbox import JobInbox, Steering
from arcp_client.runtime._jobs.admission import Delegation
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Cancellation
from arcp_client.runtime._jobs.output import JobOutput
from arcp_client.runtime.limits import Limits

__all__ = ["JobContext"]

T = TypeVar("T")

_LEVELS: tuple[str, ...] = get_args(LogLevel)
_OWN_KINDS = frozenset(
    {
        *("result_chunk", "delegate"),
        *(names.QUESTION, names.ANSWERED, names.EXPIRED, names.WITHDRAWN),
        *(names.SENT, names.CONSUMED, names.RETURNED),
    }
)


class JobContext:
    """A running job, as its agent sees it.

    The emitting methods may be called from any task of the agent, also concurrently. They raise
    LocalProtocolError after the job has ended, and from another event loop or thread. Each call
    takes a snapshot of its arguments.
    """

    def __init__(
        self,
        job: ServerJob,
        limits: Limits,
        authority: Authorizer,
        delegate: Callable[[ServerJob, Delegation], Awaitable[ServerJob]],
        ask: Callable[[ServerJob, Asked, float | None], Awaitable[Any]],
        inbox: Callable[[ServerJob], JobInbox],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._job = job
        self._output = JobOutput(job, limits)
        self._authority = authority
        self._delegate = delegate
        self._ask = ask
        self._inbox = inbox
        self._pace = Throttle(job, limits)
        request = job.request
        self._input = None if request is None else request.input

    def __repr__(self) -> str:
        return f"<JobContext {self._job.id} {self._job.agent}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self._job.id

    @property
    def agent(self) -> str:
        """The resolved agent, ``name`` or ``name@version``."""
        return self._job.agent

    @property
    def trace_id(self) -> str:
        """The W3C trace id, to be passed on to tools and sub-agents (§11)."""
        return self._job.trace_id

    @property
    def work_id(self) -> str:
        """The name of the work that this job does: the ``work_id`` of the submit, or the job's id.

        A job that begins interrupted work again has the same ``work_id`` as the interrupted job.
        """
        return self._job.work_id or self._job.id

    @property
    def input(self) -> Any:
        """The input that the client submitted."""
        return self._input

    @property
    def lease(self) -> Lease:
        """The granted lease (§9)."""
        return self._job.grant.lease

    @property
    def budget(self) -> Budget:
        """The remaining amount of each budgeted currency (§9.6)."""
        return dict(self._job.budget.remaining)

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """The credentials provisioned for this job (§9.8), with their current values."""
        return tuple(self._job.credentials.values())

    @property
    def cancelled(self) -> Cancellation:
        """Set when the job must end; its ``reason`` says why.

        An agent that has used this property gets ``Limits.cancel_grace`` seconds to end after a
        cancellation. Other agents are interrupted with ``asyncio.CancelledError`` at once.
        """
        self._job.cooperative = True
        return self._job.cancelled

    def _check_loop(self) -> None:
        """Require the runtime's event loop: elsewhere two events could get the same number."""
        if is_elsewhere(self._loop):
            raise LocalProtocolError(
                "the runtime belongs to another event loop: call it there (from another thread with"
                " asyncio.run_coroutine_threadsafe)"
            )

    # ------------------------------------------------------------------------ events

    async def log(self, message: str, level: LogLevel = "info") -> None:
        """Emit a log line.

        Raises:
            ValueError: the level is not "debug", "info", "warn" or "error". The message is the
                first argument; in the reference SDK it is the second.
        """
        check.a_text("message", message, empty=True)
        if level not in _LEVELS:
            check.a_text("level", level, empty=True)
            raise ValueError(_no_level(message, level))
        await self._emit("log", {"level": level, "message": message})

    async def thought(self, text: str) -> None:
        """Emit a piece of reasoning."""
        check.a_text("text", text, empty=True)
        await self._emit("thought", {"text": text})

    async def status(self, phase: str, message: str | None = None) -> None:
        """Emit that the job has entered a phase."""
        check.a_text("phase", phase)
        check.a_text("message", message, none=True, empty=True)
        await self._emit("status", _present(phase=phase, message=message))

    async def tool_call(self, tool: str, args: Any = None, call_id: str | None = None) -> str:
        """Emit a tool call; return its id for `tool_result`. Does not check permissions."""
        check.a_text("tool", tool)
        check.a_text("call_id", call_id, none=True)
        call_id = call_id or new_prefixed_id("call")
        await self._emit("tool_call", {"tool": tool, "args": args, "call_id": call_id})
        return call_id

    async def tool_result(
        self, call_id: str, result: Any = None, error: Mapping[str, Any] | None = None
    ) -> None:
        """Emit the outcome of a tool call: ``result``, or ``error`` with code and message."""
        check.a_text("call_id", call_id)
        check.a_mapping("error", error, none=True)
        outcome = {"result": result} if error is None else {"error": dict(error)}
        await self._emit("tool_result", {"call_id": call_id, **outcome})

    def tool(self, name: str, args: Any = None) -> Tool:
        """Call a tool under the lease: ``async with job.tool("search", {…}) as call``.

        Emits ``tool_call``, authorizes the call (§9.3), and emits ``tool_result`` at the end of the
        block with ``call.result``, or with an error if the block raised.

        Raises, when the block is entered:
            PermissionDenied: no ``tool.call`` pattern covers the name.
            LeaseExpired: the lease has run out.
            BudgetExhausted: a counter is exhausted.
        """
        check.a_text("name", name)
        return Tool(self, name, args)

    async def metric(
        self,
        name: str,
        value: float | Decimal,
        unit: str | None = None,
        dimensions: Mapping[str, Any] | None = None,
    ) -> None:
        """Emit a measurement. A ``cost.…`` metric in a budgeted currency is charged (§9.6).

        Raises:
            ValueError: the value is not finite, or a cost is negative.
        """
        check.a_text("name", name)
        check.a_text("unit", unit, none=True)
        check.a_mapping("dimensions", dimensions, none=True)
        check.a_real("value", value)
        self._check_loop()
        self._authority.metric(
            _present(name=name, value=value, unit=unit, dimensions=dimensions and dict(dimensions))
        )
        await self._pace.step()

    async def artifact(
        self,
        uri: str,
        content_type: str,
        byte_size: int | None = None,
        sha256: str | None = None,
    ) -> None:
        """Emit a reference to an artifact of the job."""
        check.a_text("uri", uri)
        check.a_text("content_type", content_type)
        check.a_number("byte_size", byte_size, least=0, none=True)
        check.a_text("sha256", sha256, none=True)
        body = _present(uri=uri, content_type=content_type, byte_size=byte_size, sha256=sha256)
        await self._emit("artifact_ref", body)

    async def progress(
        self,
        current: float,
        total: float | None = None,
        units: str | None = None,
        message: str | None = None,
    ) -> None:
        """Emit the progress of the job (§8.2.1).

        Raises:
            ValueError: ``current`` or ``total`` is negative or not finite.
        """
        check.a_text("units", units, none=True)
        check.a_text("message", message, none=True, empty=True)
        check.a_real("current", current, least=0)
        if total is not None:
            check.a_real("total", total, least=0)
        await self._emit(
            "progress", _present(current=current, total=total, units=units, message=message)
        )

    async def emit(self, kind: str, body: Mapping[str, Any]) -> None:
        """Emit an event of any other kind, such as ``x-vendor.acme.scored``.

        Raises:
            ValueError: only the runtime emits events of this kind.
        """
        check.a_text("kind", kind)
        check.a_mapping("body", body)
        if kind in _OWN_KINDS:
            raise ValueError(f"agents cannot emit {kind!r}")
        if kind == "metric":
            self._check_loop()
            self._authority.metric(dict(body))
            await self._pace.step()
        else:
            await self._emit(kind, dict(body))

    async def _emit(self, kind: str, body: dict[str, Any]) -> None:
        self._check_loop()
        self._job.emit(kind, body)
        if self._pace.due():
            await self._pace.wait()

    # --------------------------------------------------------------------- questions

    @overload
    async def ask(
        self,
        question: str,
        *,
        schema: type[T],
        default: Any = ...,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
        key: str | None = None,
    ) -> T: ...
    @overload
    async def ask(
        self,
        question: str,
        *,
        schema: Any = None,
        options: Iterable[Any] = (),
        default: Any = ...,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
        key: str | None = None,
    ) -> Any: ...
    async def ask(
        self,
        question: str,
        *,
        schema: Any = None,
        options: Iterable[Any] = (),
        default: Any = MISSING,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
        key: str | None = None,
    ) -> Any:
        """Ask the people who follow the job, and wait for the answer.

        ::

            if await job.ask("Deploy?", options=["yes", "no"], default="no", timeout=3600) == "yes":
                ...

        The question is an event of the job, and exactly one answer to it is taken. With a durable
        event log it survives the runtime: a later job with the same ``work_id`` that asks the same
        question gets the stored answer at once. See "Extensions of the protocol" in the docs.

        Args:
            question: the text, for people.
            schema: the type of the answer: a pydantic model, a ``Literal``, a dataclass, ``bool``,
                or a JSON Schema as a dict. By default any text is an answer.
            options: the answers to choose from, in place of ``schema``: values, or pairs of a value
                and its label.
            default: the answer that holds if none comes in time.
            timeout: seconds until the question expires; ``Limits.question_time`` by default.
            to: the principals that may answer, which the runtime's policy must let observe the
                job. By default the principal that submitted the job, from any of its clients.
            key: identifies the question within its work. By default the same text, options and
                schema, asked for the same time, are the same question.

        Returns:
            The answer, as an instance of the type in ``schema``.

        Raises:
            QuestionExpired: no answer came in time, and there is no default. If the agent does not
                catch it, the job ends with QUESTION_EXPIRED.
            FeatureNotNegotiated: no client of the principal supports questions.
            TypeError, ValueError: an argument is invalid.
            LocalProtocolError: the job has ended, or its principal has too many open questions.
        """
        check.seconds("timeout", timeout, above=True, none=True)
        asked = Asked.of(question, schema=schema, options=options, default=default, to=to, key=key)
        self._check_loop()
        return await self._ask(self._job, asked, timeout)

    @property
    def inbox(self) -> JobInbox:
        """The messages that clients send to the job: ``async for message in job.inbox()``.

        Each message is a `JobMessage`. The agent takes them one at a time, in their order; those
        that it has not taken when the job ends are returned to their senders by an event.
        """
        self._check_loop()
        return self._inbox(self._job)

    @property
    def steered(self) -> Steering:
        """Set while a message with the mode ``steer`` waits in the inbox.

        Look at it between steps, or wait for it beside a step: ``await job.steered.wait()``. The
        calls of `tool` have it too.
        """
        return self.inbox.steered

    # ------------------------------------------------------------------------ result

    async def chunk(self, data: str | bytes, more: bool = True) -> None:
        """Emit a piece of the result (§8.4); the agent must then return ``None``.

        Text is sent as ``utf8``, bytes as ``base64``. If no piece had ``more=False``, the runtime
        closes the stream with an empty piece.

        Raises:
            JobFailed: the piece or the whole result exceeds its limit; the job fails (§14).
            LocalProtocolError: the stream was closed with ``more=False``.
        """
        if not isinstance(data, str | bytes | bytearray | memoryview):
            raise TypeError(f"a chunk must be str or bytes, not {type(data).__name__}")
        self._check_loop()
        self._output.chunk(data if isinstance(data, str) else bytes(data), more)
        await self._pace.step()

    # --------------------------------------------------------------------- authority

    def authorize(self, capability: str, target: str) -> None:
        """Check that the lease allows an operation, before it is performed (§9.3).

        Args:
            capability: a namespace such as ``fs.read``.
            target: the path, URL, tool, agent or model, in its plain form. A target that two
                programs may interpret differently is never covered (see "What a lease covers").
                Symbolic links are not followed; resolve a path first.

        Raises:
            PermissionDenied: the lease does not cover it.
            LeaseExpired: the lease has expired, which ends the job.
            BudgetExhausted: a counter is exhausted. The agent may continue with operations that
                cost nothing.
        """
        check.a_text("capability", capability)
        check.a_text("target", target, empty=True)
        self._check_loop()
        self._authority.authorize(capability, target)

    async def delegate(
        self,
        agent: str,
        input: Any = None,
        *,
        lease: Lease | Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
        max_runtime: float | None = None,
        delegate_id: str | None = None,
    ) -> Child:
        """Start a job of another agent with a part of this job's lease (§10).

        The client that submitted this job receives the child's acceptance and events, with this job
        as ``parent_job_id``. The child does not use a slot of ``max_concurrent_jobs``, and its
        costs are charged to this job's budget too. If this job is cancelled or fails, the child
        ends too. While the event log cannot be written, the call waits.

        Args:
            agent: the agent, ``name`` or ``name@version``.
            input: the input of the child, any JSON value.
            lease: the lease of the child, a subset of this job's lease; by default the same. The
                child has its own counters only if its lease names ``cost.budget``.
            expires_at: the expiry of the child's lease; by default and at the latest that of this
                job's lease.
            max_runtime: seconds after which the child times out.
            delegate_id: a name for the delegation; generated by default.

        Raises:
            ValueError: the input is not a JSON value; the message has the path and the type.
            PermissionDenied: no ``agent.delegate`` pattern covers the agent.
            LeaseSubsetViolation: the lease exceeds this job's (§9.4).
            AgentNotFound, AgentVersionNotFound: the agent or its version is not registered.
            LeaseExpired, BudgetExhausted: this job's lease has expired, or its budget is exhausted.
        """
        check.a_text("agent", agent)
        check.a_moment("expires_at", expires_at, none=True)
        check.seconds("max_runtime", max_runtime, above=True, none=True)
        check.a_text("delegate_id", delegate_id, none=True)
        if lease is not None and not isinstance(lease, Lease):
            check.a_mapping("lease", lease)
        self._check_loop()
        self._authority.authorize("agent.delegate", delegated_to(agent))
        try:
            given = parse(bytes(snapshot(input)))  # encode and decode, like the input from a client
        except (ValueError, RecursionError) as error:
            raise ValueError(f"input: {error}") from error
        wish = Delegation(agent, given, lease, expires_at, max_runtime, delegate_id)
        child = await self._delegate(self._job, wish)
        await self._pace.step()
        return Child(child)


def _no_level(message: str, level: str) -> str:
    """Explain why `JobContext.log` refuses a level, and show the intended call."""
    if message.lower() in _LEVELS:
        return f"the message is the first argument: job.log({level!r:.60}, {message.lower()!r})"
    near = {"warning": "warn", "critical": "error", "fatal": "error", "trace": "debug"}
    meant = next((each for each in _LEVELS if each == level.lower()), near.get(level.lower()))
    call = f"; write job.log(message, {meant!r})" if meant is not None else ""
    return f"level must be one of {', '.join(_LEVELS)}, not {level!r:.60}{call}"


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
