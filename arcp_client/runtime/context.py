"""The `JobContext` that an agent is called with: it emits events and asks for permissions (§8.2).

An event is numbered, logged and queued in the call itself. Afterwards the call may wait until a
slow client catches up, or until the event log has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, get_args

from arcp_client import _arguments as check
from arcp_client._tasks import is_elsewhere
from arcp_client._wire.codec import parse, snapshot
from arcp_client._wire.ids import new_prefixed_id
from arcp_client.errors import LocalProtocolError
from arcp_client.models import Budget, Credential, Lease, LogLevel
from arcp_client.runtime._agents.authorizer import Authorizer
from arcp_client.runtime._agents.child import Child, delegated_to
from arcp_client.runtime._agents.throttle import Throttle
from arcp_client.runtime._agents.tool import Tool
from arcp_client.runtime._jobs.admission import Delegation
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Cancellation
from arcp_client.runtime._jobs.output import JobOutput
from arcp_client.runtime.limits import Limits

__all__ = ["JobContext"]

_LEVELS: tuple[str, ...] = get_args(LogLevel)
_OWN_KINDS = frozenset({"result_chunk", "delegate"})


class JobContext:
    """One running job, as its agent sees it.

    All emitting methods may be called from any task of the agent, also at the same time. After
    the job has ended, and from another event loop or thread, they raise LocalProtocolError. Values
    are snapshotted in the call.
    """

    def __init__(
        self,
        job: ServerJob,
        limits: Limits,
        authority: Authorizer,
        delegate: Callable[[ServerJob, Delegation], Awaitable[ServerJob]],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._job = job
        self._output = JobOutput(job, limits)
        self._authority = authority
        self._delegate = delegate
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
        """The agent as it was resolved, ``name`` or ``name@version``."""
        return self._job.agent

    @property
    def trace_id(self) -> str:
        """The W3C trace id to hand on to tools and sub-agents (§11)."""
        return self._job.trace_id

    @property
    def input(self) -> Any:
        """What the client submitted."""
        return self._input

    @property
    def lease(self) -> Lease:
        """What the job may do (§9)."""
        return self._job.grant.lease

    @property
    def budget(self) -> Budget:
        """What is left of each budgeted currency, now (§9.6)."""
        return dict(self._job.budget.remaining)

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """The credentials provisioned for this job (§9.8), with their present values."""
        return tuple(self._job.credentials.values())

    @property
    def cancelled(self) -> Cancellation:
        """Set when the job is to end; its ``reason`` says why.

        An agent that looks at it is given ``Limits.cancel_grace`` seconds to end by itself after a
        cancel; one that never does is interrupted with ``asyncio.CancelledError`` at once.
        """
        self._job.cooperative = True
        return self._job.cancelled

    def _check_loop(self) -> None:
        """Events are numbered in the runtime's loop; beside it, two could get one number."""
        if is_elsewhere(self._loop):
            raise LocalProtocolError(
                "the runtime lives in another event loop: call it there (from another thread, with"
                " asyncio.run_coroutine_threadsafe)"
            )

    # ------------------------------------------------------------------------ events

    async def log(self, message: str, level: LogLevel = "info") -> None:
        """Emit a log line.

        Raises:
            ValueError: the level is not "debug", "info", "warn" or "error". The message comes
                first; the reference SDK has them the other way round.
        """
        check.a_text("message", message, empty=True)
        check.a_text("level", level, empty=True)
        if level not in _LEVELS:
            raise ValueError(_no_level(message, level))
        await self._emit("log", {"level": level, "message": message})

    async def thought(self, text: str) -> None:
        """Emit a piece of reasoning."""
        check.a_text("text", text, empty=True)
        await self._emit("thought", {"text": text})

    async def status(self, phase: str, message: str | None = None) -> None:
        """Emit that the job enters a phase."""
        check.a_text("phase", phase)
        check.a_text("message", message, none=True, empty=True)
        await self._emit("status", _present(phase=phase, message=message))

    async def tool_call(self, tool: str, args: Any = None, call_id: str | None = None) -> str:
        """Emit that a tool is called; the id for its `tool_result`. Asks for no permission."""
        check.a_text("tool", tool)
        check.a_text("call_id", call_id, none=True)
        call_id = call_id or new_prefixed_id("call")
        await self._emit("tool_call", {"tool": tool, "args": args, "call_id": call_id})
        return call_id

    async def tool_result(
        self, call_id: str, result: Any = None, error: Mapping[str, Any] | None = None
    ) -> None:
        """Emit what a tool call gave: ``error`` with ``code`` and ``message``, or ``result``."""
        check.a_text("call_id", call_id)
        check.a_mapping("error", error, none=True)
        outcome = {"result": result} if error is None else {"error": dict(error)}
        await self._emit("tool_result", {"call_id": call_id, **outcome})

    def tool(self, name: str, args: Any = None) -> Tool:
        """Call a tool under the lease: ``async with job.tool("search", {…}) as call``.

        Emits ``tool_call``, asks for permission (§9.3), and emits ``tool_result`` at the end of
        the block with ``call.result``, or with an error if the block raised.

        Raises, when the block is entered:
            PermissionDenied: no ``tool.call`` pattern covers the name.
            LeaseExpired: the lease has run out.
            BudgetExhausted: a counter is spent.
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
        """Emit a reference to something the agent made."""
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
        """Emit how far the job is (§8.2.1).

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
            ValueError: the kind is one that only the runtime emits.
        """
        check.a_text("kind", kind)
        check.a_mapping("body", body)
        if kind in _OWN_KINDS:
            raise ValueError(f"{kind!r} is not for agents to emit")
        if kind == "metric":
            self._check_loop()
            self._authority.metric(dict(body))
            await self._pace.step()
        else:
            await self._emit(kind, dict(body))

    async def _emit(self, kind: str, body: dict[str, Any]) -> None:
        self._check_loop()
        self._job.emit(kind, body)
        await self._pace.step()

    # ------------------------------------------------------------------------ result

    async def chunk(self, data: str | bytes, more: bool = True) -> None:
        """Emit a piece of the result (§8.4); the agent then returns nothing.

        Text goes out as ``utf8``, bytes as ``base64``. If no piece had ``more=False``, the runtime
        closes the stream with an empty one.

        Raises:
            JobFailed: the piece or the whole is over the limits; the job ends with it (§14).
            LocalProtocolError: a piece after the last one.
        """
        if not isinstance(data, str | bytes | bytearray | memoryview):
            raise TypeError(f"a chunk is str or bytes, not {type(data).__name__}")
        self._check_loop()
        self._output.chunk(data if isinstance(data, str) else bytes(data), more)
        await self._pace.step()

    # --------------------------------------------------------------------- authority

    def authorize(self, capability: str, target: str) -> None:
        """Ask for permission for one operation, before it is done (§9.3).

        Args:
            capability: a namespace such as ``fs.read``.
            target: the path, URL, tool, agent or model, in its plain form: what two programs may
                read differently is covered by nothing (see "What a lease covers"). Symbolic links
                are not followed; resolve a path first.

        Raises:
            PermissionDenied: the lease does not cover it.
            LeaseExpired: the lease has run out; the job is ended with it.
            BudgetExhausted: a counter is spent. The agent may go on with what costs nothing.
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

        The client that submitted this job gets the child's acceptance and events, with this job as
        ``parent_job_id``. The child takes no slot of ``max_concurrent_jobs``, its costs count
        against this job's budget too, and if this job is cancelled or fails, so is the child.

        Args:
            agent: the agent, ``name`` or ``name@version``.
            input: what it is given.
            lease: what it may do, a subset of what this job may; by default the same. Only a lease
                that names ``cost.budget`` gives it counters of its own.
            expires_at: when its lease ends; by default, and at the latest, with this job's.
            max_runtime: seconds after which it is timed out.
            delegate_id: a name for the delegation, by default a fresh one.

        Raises:
            ValueError: the input is not a JSON value; says what and where.
            PermissionDenied: no ``agent.delegate`` pattern covers the agent.
            LeaseSubsetViolation: the lease goes beyond this job's (§9.4).
            AgentNotFound, AgentVersionNotFound: there is no such agent.
            LeaseExpired, BudgetExhausted: this job may do nothing any more.
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
            given = parse(bytes(snapshot(input)))  # as a client's input arrives
        except (ValueError, RecursionError) as error:
            raise ValueError(f"input: {error}") from error
        wish = Delegation(agent, given, lease, expires_at, max_runtime, delegate_id)
        child = await self._delegate(self._job, wish)
        await self._pace.step()
        return Child(child)


def _no_level(message: str, level: str) -> str:
    """Why `JobContext.log` refuses a level, with the call that is meant."""
    if message.lower() in _LEVELS:
        return f"the message comes first: job.log({level!r:.60}, {message.lower()!r})"
    near = {"warning": "warn", "critical": "error", "fatal": "error", "trace": "debug"}
    meant = next((each for each in _LEVELS if each == level.lower()), near.get(level.lower()))
    call = f"; write job.log(message, {meant!r})" if meant is not None else ""
    return f"level is one of {', '.join(_LEVELS)}, not {level!r:.60}{call}"


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
