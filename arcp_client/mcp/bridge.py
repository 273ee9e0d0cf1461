"""The MCP server whose tools are the agents of a runtime."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from mcp import MCPError, types
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from arcp_client import _arguments as check
from arcp_client._tasks import TaskOwner
from arcp_client.client import Client
from arcp_client.errors import ArcpError, JobError, PermissionDenied
from arcp_client.job import Job, JobHandle
from arcp_client.mcp import _answers as answers
from arcp_client.mcp._notifications import LogLevels, Notifier
from arcp_client.mcp._tasks import EXTENSION, TaskParams, Tasks, UpdateParams
from arcp_client.mcp._tools import (
    JOB_CANCEL,
    JOB_RESULT,
    JOB_STATUS,
    JOB_TOOLS,
    AgentTool,
    agent_tools,
)
from arcp_client.mcp._watches import Watches
from arcp_client.mcp.submits import Submits
from arcp_client.models import Lease
from arcp_client.projection import ENDED
from arcp_client.version import __version__

__all__ = ["BridgeServer", "server"]

_log = logging.getLogger("arcp_client.mcp")

WAIT = 50.0
"""Seconds: shorter than the 60 s after which many MCP clients give up a call."""
TASK_AFTER = 1.0
"""Seconds after which a call of a client with tasks becomes a task."""
TASK_TTL = 86_400.0
MOST_RESULT = 256 * 1024
KEY = "arcp-client/idempotencyKey"
"""The member of ``_meta`` of a call that has the idempotency key of its submit."""
_KEY_HEADER = "idempotency-key"
_MOST_KEY = 256
_NOTICE = 1.0
"""How long a cancelled call waits for the notice that the client cancelled it."""
_INVALID_PARAMS = -32602
_SESSION_HEADER = "mcp-session-id"
_INSTRUCTIONS = (
    "Each tool runs an agent as a job of a runtime. If a job does not end within the call, the"
    f" answer has its job_id and the job continues: call {JOB_RESULT} with the job_id to wait for"
    f" the result, {JOB_STATUS} to see how far it is, {JOB_CANCEL} to end it."
)

_framed: ContextVar[bool] = ContextVar("framed", default=False)
"""Whether the connection that begins has frames, over which the client can send cancellations."""


class _Serving:
    """The lifespan of one server run: one stream, or all requests of an HTTP application."""

    def __init__(self, framed: bool) -> None:
        self.framed = framed


class _OpenCall:
    """A call of an agent's tool that has not ended."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()


@asynccontextmanager
async def _serving(_server: Server[_Serving]) -> AsyncIterator[_Serving]:
    yield _Serving(_framed.get())


class BridgeServer(Server[_Serving]):
    """An MCP server whose tools are the agents of a runtime; made by `server`.

    It is a server of the official SDK: ``run`` serves a pair of streams, `http_app` an ASGI
    application. The caller connects and closes the client.

    A client that cancels a call cancels its job. A connection that merely ends does not: the job
    continues, and its result can be fetched with its id.
    """

    def __init__(
        self,
        client: Client,
        *,
        agents: Sequence[str] | None,
        lease: Lease | Mapping[str, Sequence[str]] | None,
        max_runtime: float | None,
        wait: float | None,
        task_after: float,
        task_ttl: float,
        submits: Submits | None,
        name: str,
    ) -> None:
        super().__init__(
            name,
            version=__version__,
            instructions=_INSTRUCTIONS,
            lifespan=_serving,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,  # type: ignore[arg-type]  # a task is a mapping
            on_subscriptions_listen=self._listen,
        )
        # Not by the constructor, which warns that the newest MCP has replaced this request.
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.middleware.append(self._notice_cancellations)
        self._client = client
        self._agents = agents
        self._submit_options: dict[str, Any] = {"lease": lease, "max_runtime": max_runtime}
        self._wait = wait
        self._submits = submits
        self._tasks = TaskOwner("arcp_client.mcp")
        self._watches = Watches(client, self._tasks)
        self._task_after = task_after
        self._job_tasks = Tasks(
            client,
            self._tasks,
            self._watches,
            outcome=self._outcome,
            cancel=lambda job_id: self._cancel_job(job_id, "cancelled over MCP"),
            ttl=task_ttl,
        )
        self.extensions[EXTENSION] = {}
        self.add_request_handler("tasks/get", TaskParams, self._job_tasks.get)
        self.add_request_handler("tasks/update", UpdateParams, self._job_tasks.update)
        self.add_request_handler("tasks/cancel", TaskParams, self._job_tasks.cancel)
        self._levels = LogLevels()
        self._calls: dict[object, _OpenCall] = {}
        self._cancelling: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def run(self, *arguments: Any, **options: Any) -> None:
        """Serve one connection until its streams end; see ``mcp.server.Server.run``."""
        token = _framed.set(True)
        try:
            await super().run(*arguments, **options)
        finally:
            _framed.reset(token)

    def stop(self) -> None:
        """Say that calls which end from now on end with the server: their jobs continue."""
        self._stopping = True

    async def close(self, *, timeout: float = 2.0) -> None:
        """Wait until cancellations have reached the runtime, then end all tasks. Idempotent.

        Args:
            timeout: seconds to wait at most.
        """
        check.seconds("timeout", timeout)
        self.stop()
        if self._cancelling:
            await asyncio.wait(set(self._cancelling), timeout=timeout)
        await self._tasks.close()

    # ------------------------------------------------------------------------- tools

    def _tools(self) -> dict[str, AgentTool]:
        return agent_tools(self._client.session.agents, self._agents)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools().get(name)
        return None if tool is None else tool.tool.input_schema

    async def _list_tools(
        self, _ctx: ServerRequestContext[_Serving], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[*(each.tool for each in self._tools().values()), *JOB_TOOLS]
        )

    async def _listen(
        self,
        ctx: ServerRequestContext[_Serving],
        params: types.SubscriptionsListenRequestParams,
    ) -> types.SubscriptionsListenResult:
        return await self._job_tasks.listen(ctx, params)

    async def _call_tool(
        self, ctx: ServerRequestContext[_Serving], params: types.CallToolRequestParams
    ) -> types.CallToolResult | dict[str, Any]:
        given = params.arguments or {}
        own = {JOB_STATUS: self._status, JOB_RESULT: self._result, JOB_CANCEL: self._cancel}
        if (job_tool := own.get(params.name)) is not None:
            job_id = given.get("job_id")
            if not isinstance(job_id, str) or not job_id:
                raise MCPError(code=_INVALID_PARAMS, message="job_id: a text is required")
            try:
                return await job_tool(ctx, job_id, given)
            except ArcpError as error:
                return answers.refused(error, job_id)
        try:
            tool = self._tools().get(params.name)
        except ArcpError as error:
            return answers.refused(error)
        if tool is None:
            raise MCPError(code=_INVALID_PARAMS, message=f"Unknown tool: {params.name:.80}")
        return await self._run_agent(ctx, tool, tool.input_of(params.arguments))

    # ------------------------------------------------------------------------ agents

    async def _run_agent(
        self, ctx: ServerRequestContext[_Serving], tool: AgentTool, input: Any
    ) -> types.CallToolResult | dict[str, Any]:
        submit_key = _idempotency_key(ctx)
        key, call = self._key(ctx, ctx.request_id), _OpenCall()
        self._calls[key] = call
        submitting = self._tasks.spawn(self._submit(tool.agent, input, submit_key), name="submit")
        answer: types.CallToolResult | dict[str, Any]
        try:
            # A submit that was sent may become a job: it is not cancelled with the call.
            job = await asyncio.shield(submitting)
            if not isinstance(job, Job):
                answer = answers.refused(job)
            elif self._job_tasks.offered(ctx):
                answer = await self._as_task(ctx, job)
            else:
                answer = await self._follow(ctx, job, tool.name)
        except asyncio.CancelledError:
            task = self._tasks.spawn(self._abandoned(ctx, key, call, submitting), name="cancel")
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)
            raise
        except BaseException:
            self._calls.pop(key, None)
            raise
        self._calls.pop(key, None)
        return answer

    async def _as_task(
        self, ctx: ServerRequestContext[_Serving], job: Job
    ) -> types.CallToolResult | dict[str, Any]:
        """The result of a job that ends soon; otherwise the job continues as a task."""
        try:
            async with asyncio.timeout(self._task_after):
                return await self._outcome(job)
        except TimeoutError:
            return await self._job_tasks.created(ctx, job.id)
        except ArcpError as error:
            return answers.refused(error, job.id)

    async def _submit(self, agent: str, input: Any, key: str) -> Job | ArcpError:
        submit = {
            "agent": agent,
            "input": input,
            "idempotency_key": key,
            **{name: each for name, each in self._submit_options.items() if each is not None},
        }
        try:
            job = await self._client.submit(**submit)
        except ArcpError as error:
            return error
        if self._submits is not None:
            lease = submit.get("lease")
            kept = {**submit, "lease": lease.root} if isinstance(lease, Lease) else submit
            await self._submits.keep(job.id, kept)
        return job

    async def _follow(
        self, ctx: ServerRequestContext[_Serving], job: Job, name: str
    ) -> types.CallToolResult:
        """Send the events of a job until it ends, or until the call has waited long enough."""
        notifier = self._notifier(ctx, name)
        await notifier.log("info", {"job_id": job.id, "status": "accepted"})
        try:
            async with asyncio.timeout(self._wait):
                async for event in job:
                    await notifier.send(event)
                return await self._outcome(job)
        except TimeoutError:
            return answers.still_running(job)
        except ArcpError as error:
            return answers.refused(error, job.id)

    async def _outcome(self, job: JobHandle, offset: int = 0) -> types.CallToolResult:
        try:
            result = await job.result()
        except JobError as error:
            return answers.failed(job, error)
        return answers.finished(job, result, offset=offset, most=MOST_RESULT)

    def _notifier(self, ctx: ServerRequestContext[_Serving], name: str) -> Notifier:
        return Notifier(ctx, name, self._levels.wanted(ctx, self._connection(ctx)))

    # ---------------------------------------------------------------- jobs by their id

    async def _status(
        self, _ctx: ServerRequestContext[_Serving], job_id: str, _given: Mapping[str, Any]
    ) -> types.CallToolResult:
        async with self._watches.job(job_id) as job:
            return answers.status(job)

    async def _result(
        self, ctx: ServerRequestContext[_Serving], job_id: str, given: Mapping[str, Any]
    ) -> types.CallToolResult:
        offset, wait = given.get("offset", 0), given.get("wait", self._wait)
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise MCPError(code=_INVALID_PARAMS, message="offset: it must be an integer from 0 on")
        if wait is not None and (
            isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0
        ):
            raise MCPError(code=_INVALID_PARAMS, message="wait: it must be a number from 0 on")
        if self._wait is not None and wait is not None:
            wait = min(wait, self._wait)
        async with self._watches.job(job_id) as job:
            notifier = self._notifier(ctx, job.agent or job_id)
            live = self._client.subscribe(notifier.send, job=job_id, barrier=False)
            try:
                async with asyncio.timeout(wait):
                    return await self._outcome(job, offset)
            except TimeoutError:
                return answers.still_running(job)
            finally:
                live.dispose()

    async def _cancel(
        self, _ctx: ServerRequestContext[_Serving], job_id: str, given: Mapping[str, Any]
    ) -> types.CallToolResult:
        reason = given.get("reason")
        text = reason if isinstance(reason, str) and reason else "cancelled over MCP"
        async with self._watches.job(job_id) as job:
            if job.status in ENDED:
                return answers.status(job)
            await self._cancel_job(job_id, text)
            with contextlib.suppress(TimeoutError, JobError):
                async with asyncio.timeout(self._wait):
                    await job.result()
            return answers.status(job)

    async def _cancel_job(self, job_id: str, reason: str) -> None:
        try:
            await self._client.cancel_job(job_id, reason)
        except PermissionDenied:
            kept = None if self._submits is None else await self._submits.find(job_id)
            if kept is None:
                raise
            # Repeating the submit makes this session a submitter of the job.
            again = await self._client.submit(**kept)
            await again.cancel(reason)  # also if it is a new job: the runtime forgot the key
            if again.id != job_id:
                raise

    # ------------------------------------------------------------------ cancellations

    async def _abandoned(
        self,
        ctx: ServerRequestContext[_Serving],
        key: object,
        call: _OpenCall,
        submitting: asyncio.Task[Job | ArcpError],
    ) -> None:
        """Cancel the job of a call that has ended, if the client cancelled the call."""
        try:
            if not await self._is_cancelled(ctx, call):
                return
            job = await submitting
            if isinstance(job, Job):
                await job.cancel("cancelled by the MCP client")
        except ArcpError as error:
            _log.warning("the job of a cancelled call was not cancelled: %s", error)
        finally:
            if self._calls.get(key) is call:
                del self._calls[key]

    async def _is_cancelled(self, ctx: ServerRequestContext[_Serving], call: _OpenCall) -> bool:
        if not ctx.lifespan_context.framed and ctx.protocol_version >= "2026":
            # Without frames, a client cancels by closing the response; so does a server that ends.
            return not self._stopping
        try:
            async with asyncio.timeout(_NOTICE):
                await call.cancelled.wait()
        except TimeoutError:
            return False  # the connection ended
        return True

    async def _notice_cancellations(
        self, ctx: ServerRequestContext[_Serving, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.method == "notifications/cancelled":
            call = self._calls.get(self._key(ctx, (ctx.params or {}).get("requestId")))
            if call is not None:
                call.cancelled.set()
        return await call_next(ctx)

    async def _set_level(
        self, ctx: ServerRequestContext[_Serving], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._levels.set(self._connection(ctx), params.level)
        return types.EmptyResult()

    def _key(self, ctx: ServerRequestContext[_Serving], request_id: Any) -> object:
        return self._connection(ctx), str(request_id)

    def _connection(self, ctx: ServerRequestContext[_Serving]) -> object:
        headers = getattr(ctx.request, "headers", None)
        session = None if headers is None else headers.get(_SESSION_HEADER)
        return id(ctx.lifespan_context), session


def _idempotency_key(ctx: ServerRequestContext[Any]) -> str:
    """The key of a call's submit: that of the client, or a new one."""
    headers = getattr(ctx.request, "headers", None)
    given = (ctx.meta or {}).get(KEY)
    if given is None and headers is not None:
        given = headers.get(_KEY_HEADER)
    if given is None:
        return f"mcp-{secrets.token_hex(12)}"
    if not isinstance(given, str) or not 0 < len(given) <= _MOST_KEY:
        raise MCPError(
            code=_INVALID_PARAMS, message=f"{KEY}: a text of 1 to {_MOST_KEY} characters"
        )
    return given


def server(
    client: Client,
    *,
    agents: Iterable[str] | None = None,
    lease: Lease | Mapping[str, Sequence[str]] | None = None,
    max_runtime: float | None = None,
    wait: float | None = WAIT,
    task_after: float = TASK_AFTER,
    task_ttl: float = TASK_TTL,
    submits: Submits | None = None,
    name: str = "arcp-client",
) -> BridgeServer:
    """Make an MCP server whose tools are the agents of the client's runtime.

    Each agent is a tool with the description and the input schema that it declares; an agent
    without a schema, or with one that is not of an object, takes its input as the argument
    ``input``. While a job runs, its progress becomes progress notifications, and its log lines,
    statuses and result chunks become log notifications. A cancelled call cancels its job.

    The structured content of an answer has ``job_id``, ``status`` and, for a job that succeeded,
    ``result`` with its type. A job that does not end within ``wait`` seconds continues, and the
    answer says so; the tools ``job_status``, ``job_result`` and ``job_cancel`` take its id, also
    those of another process with a token of the same principal.

    A client that has the extension ``io.modelcontextprotocol/tasks`` gets a task in place of the
    result of a job that takes longer than ``task_after``. The id of the task is that of the job.

    The member ``arcp-client/idempotencyKey`` of a call's ``_meta``, or the header
    ``Idempotency-Key``, is the key of the submit: the same call again has the same job, and another
    call under the key is refused with ``DUPLICATE_KEY``.

    Args:
        client: a connected client. The caller closes it, after the server.
        agents: the agents to offer, as name or name@version; by default all of the runtime.
        lease: the lease that each job asks for (§9).
        max_runtime: seconds after which the runtime ends a job.
        wait: seconds that a call waits for its job; ``None`` for no limit. MCP clients often give
            up after 60 seconds.
        task_after: seconds that a call waits for its job before it becomes a task.
        task_ttl: the seconds after the newest event for which a task is kept, as it is stated;
            state what the runtime keeps of ended jobs.
        submits: keeps the submits, with which another process can cancel the jobs; without it, only
            this one can. `FileSubmits` keeps them in files.
        name: the name of the server.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a time is negative.
    """
    check.an_instance("client", client, Client, "a Client")
    check.seconds("max_runtime", max_runtime, above=True, none=True)
    check.seconds("wait", wait, none=True)
    check.seconds("task_after", task_after)
    check.seconds("task_ttl", task_ttl)
    check.an_instance("submits", submits, Submits, "a Submits", none=True)
    check.a_text("name", name)
    return BridgeServer(
        client,
        agents=None if agents is None else check.texts("agents", agents),
        lease=lease,
        max_runtime=max_runtime,
        wait=wait,
        task_after=task_after,
        task_ttl=task_ttl,
        submits=submits,
        name=name,
    )
