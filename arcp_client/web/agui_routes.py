"""Serves agents to front ends that use AG-UI: starts runs, and lets front ends attach to runs.

`add_ag_ui_routes` adds the routes of one agent to an aiohttp application. `RunLog` keeps the runs.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from ag_ui.core import BaseEvent, CustomEvent, ResumeEntry, RunAgentInput
from aiohttp import web
from pydantic import ValidationError

from arcp_client import ArcpError, Client, JobHandle, Lease, errors
from arcp_client import _arguments as check
from arcp_client._feeds import frames
from arcp_client._feeds.registry import TooManyFeeds
from arcp_client._feeds.stream import FrameStream
from arcp_client._tasks import TaskOwner
from arcp_client.web._feeds.event_stream import EventStream, OpenStreams
from arcp_client.web._http import bodies
from arcp_client.web._http.problems import Problem, answer, problem
from arcp_client.web._http.security import Handler, check_type
from arcp_client.web.exports.agui import InterruptId
from arcp_client.web.exports.agui_log import CursorExpired, RunLog, RunView

__all__ = ["add_ag_ui_routes"]

_BODY = 16 << 20
_LOGS = 256
_MEMORY = 256 << 20
_RUNS = 4096
_KEY = 256
_NOT_INPUT = ("state", "resume", "protocolVersion")


def add_ag_ui_routes(
    app: web.Application,
    client: Client,
    agent: str,
    *,
    path: str,
    input: Callable[[RunAgentInput], Any] | None = None,
    lease: Lease | Mapping[str, Sequence[str]] | None = None,
    max_runtime: float | None = None,
) -> None:
    """Serve an agent to front ends that use AG-UI, such as ``HttpAgent`` of ``@ag-ui/client``.

    A run without ``resume`` submits a job. The job belongs to the ``threadId`` and ``runId`` of the
    run: the same request again attaches to the job and submits no second one, also after a restart
    of this process, for as long as the runtime knows the job's idempotency key. A request with
    these ids and another body is refused with ``DUPLICATE_KEY``. The header ``Idempotency-Key``
    replaces the key that is made of the ids. A closed connection leaves the job running; ``POST
    path/cancel`` cancels it.

    A question of the agent ends a run with the outcome ``interrupt``. The run that resumes it sends
    the answer, and continues the job.

    The handlers do not check who sends a request, nor add CORS headers: middlewares of the
    application do. All front ends act with the rights of the client.

    Args:
        app: the application, before it starts.
        client: a connected client. The caller closes it, after the application.
        agent: the agent, as name or name@version.
        path: the URL's path, such as ``/agents/report``.
        input: makes the job's input from a request; its messages are those of the front end,
            without those of the run itself. By default the input is the request as the protocol
            writes it, without ``state``, ``resume`` and ``protocolVersion``:
            ``RunAgentInput.model_validate(input)`` reads it.
        lease: the lease that each job asks for (§9).
        max_runtime: seconds after which the runtime ends a job.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the path does not begin with a slash, or ``max_runtime`` is not positive.
    """
    check.an_instance("app", app, web.Application, "an aiohttp.web.Application")
    check.an_instance("client", client, Client, "a Client")
    check.a_text("agent", agent)
    check.a_text("path", path)
    if not path.startswith("/"):
        raise ValueError(f"path must begin with /, unlike {path!r:.60}")
    check.a_function("input", input, none=True, sync=True)
    check.an_instance("lease", lease, Lease | Mapping, "a Lease or a mapping", none=True)
    check.seconds("max_runtime", max_runtime, above=True, none=True)
    options = {"lease": lease, "max_runtime": max_runtime}
    endpoint = _Endpoint(
        client, agent, input, {name: each for name, each in options.items() if each is not None}
    )
    app.router.add_post(path, _answered(endpoint.run))
    app.router.add_get(path, _answered(endpoint.follow))
    app.router.add_post(f"{path.rstrip('/')}/cancel", _answered(endpoint.cancel))
    OpenStreams.of(app).end_at_shutdown = True
    app.on_shutdown.append(_end_streams)
    app.on_cleanup.append(endpoint.stop)


async def _end_streams(app: web.Application) -> None:
    await OpenStreams.of(app).close()


def _answered(handler: Handler) -> Handler:
    """Answer errors with a `Problem`."""

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Problem as found:
            return answer(found)
        except (ArcpError, TooManyFeeds) as error:
            return answer(problem(error))

    return answered


class _CancelBody(msgspec.Struct, rename="camel"):
    thread_id: str
    run_id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _HttpRun:
    """A run that this process has served.

    Attributes:
        log: the runs of its job.
        body: a digest of the request that began it.
        after: the question that it continues from.
        handled: the questions that the request has answered or abandoned.
        refusals: events that say which of the answers were not taken.
        ask_again: the questions of these answers that are still open.
    """

    log: RunLog
    body: bytes
    after: str = ""
    handled: frozenset[str] = frozenset()
    refusals: tuple[BaseEvent, ...] = ()
    ask_again: tuple[str, ...] = ()


class _Endpoint:
    """The handlers of one agent, and the runs that they serve."""

    def __init__(
        self,
        client: Client,
        agent: str,
        make_input: Callable[[RunAgentInput], Any] | None,
        options: dict[str, Any],
    ) -> None:
        self._client = client
        self._agent = agent
        self._make_input = make_input
        self._options = options
        self._tasks = TaskOwner("arcp_client.web")
        self._runs: OrderedDict[tuple[str, str], _HttpRun] = OrderedDict()
        self._logs: OrderedDict[str, RunLog] = OrderedDict()

    async def stop(self, _app: web.Application) -> None:
        """End all tasks; the jobs continue."""
        for log in self._logs.values():
            log.close()
        await self._tasks.close()

    # ------------------------------------------------------------------ handlers

    async def run(self, request: web.Request) -> web.StreamResponse:
        """``POST path``: begin a run, or attach to it."""
        check_type(request)
        _check_room(request)
        given, body = await _read(request)
        ids = given.thread_id, given.run_id
        if given.resume:
            found = await self._resumed(ids, given.resume)
        else:
            found = await self._begun(ids, given, body, _key(request))
        self._runs[ids] = found
        self._runs.move_to_end(ids)
        while len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return await self._stream(request, ids, found, body["messages"])

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """``GET path?threadId=…&runId=…``: attach to a run that this process has served."""
        _check_room(request)
        ids = request.query.get("threadId", ""), request.query.get("runId", "")
        return await self._stream(request, ids, self._known(ids), [])

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """``POST path/cancel``: cancel the job of a run."""
        check_type(request)
        body = await bodies.read(request, _CancelBody)
        job = self._known((body.thread_id, body.run_id)).log.job
        await self._client.cancel_job(job.id, body.reason)
        return web.Response(
            status=202, body=frames.encoded({"job_id": job.id}), content_type="application/json"
        )

    def _known(self, ids: tuple[str, str]) -> _HttpRun:
        found = self._runs.get(ids)
        if found is None:
            raise Problem(
                404,
                "RUN_NOT_FOUND",
                "this server knows no run with this threadId and runId",
                "send the request that began it again",
            )
        return found

    # ------------------------------------------------------------------ runs

    async def _begun(
        self, ids: tuple[str, str], given: RunAgentInput, body: dict[str, Any], key: str | None
    ) -> _HttpRun:
        """The run that a request begins or has begun."""
        if key is None:
            key = f"ag-ui-{_digest([self._agent, *ids]).hex()[:32]}"
        prefix = f"run-{_digest([self._agent, key]).hex()[:20]}"
        body["messages"], made = _split(body["messages"], prefix)
        content = {name: each for name, each in body.items() if name not in _NOT_INPUT}
        digest = _digest([key, content])
        known = self._runs.get(ids)
        if known is not None and known.log.job.id in self._logs:
            if known.body != digest:
                raise _other_body(ids)
            found = known
        else:
            job = await self._client.submit(
                self._agent,
                self._input(given, body["messages"], content),
                idempotency_key=key,
                **self._options,
            )
            found = _HttpRun(self._log(job, prefix), digest)
        body["messages"] = [*body["messages"], *made]
        return found

    def _input(self, given: RunAgentInput, messages: list[Any], content: dict[str, Any]) -> Any:
        if self._make_input is None:
            return msgspec.Raw(frames.exact(content))
        kept = {message.get("id") for message in messages}
        own = [message for message in given.messages if message.id in kept]
        return self._make_input(given.model_copy(update={"messages": own}))

    async def _resumed(self, ids: tuple[str, str], entries: Sequence[ResumeEntry]) -> _HttpRun:
        """The run that continues from questions."""
        digest = _digest([each.model_dump(mode="json") for each in entries])
        known = self._runs.get(ids)
        if known is not None and known.log.job.id in self._logs:
            if known.body != digest:
                raise _other_body(ids)
            return known
        named = [(_interrupt(each), each) for each in entries]
        jobs = {(each.job_id, each.prefix) for each, _ in named}
        if len(jobs) != 1:
            raise Problem(400, "INVALID_REQUEST", "the interrupts belong to different runs")
        [(job_id, prefix)] = jobs
        log = self._logs.get(job_id)
        if log is None:
            log = self._log(await self._job(job_id), prefix)
        refusals: list[BaseEvent] = []
        again: list[str] = []
        for interrupt, entry in named:
            if not await log.has_question(interrupt.question_id):
                raise errors.QuestionNotFound(f"the job has not asked {interrupt.question_id}")
            if entry.status != "resolved":
                continue
            try:
                await self._client.answer(
                    job_id,
                    interrupt.question_id,
                    entry.payload,
                    idempotency_key=f"ag-ui-{_digest([*ids, interrupt]).hex()[:32]}",
                )
            except (errors.QuestionAnswered, errors.QuestionClosed) as error:
                refusals.append(_refusal(entry, error))
            except (errors.InvalidAnswer, errors.PermissionDenied) as error:
                refusals.append(_refusal(entry, error))
                again.append(interrupt.question_id)
        questions = [each.question_id for each, _ in named]
        after = log.latest(questions)
        return _HttpRun(log, digest, after, frozenset(questions), tuple(refusals), tuple(again))

    async def _job(self, job_id: str) -> JobHandle:
        """A job of this agent by its id."""
        job = self._client.job(job_id) or await self._client.watch(job_id, history=True)
        if job.agent.partition("@")[0] != self._agent.partition("@")[0]:
            raise errors.JobNotFound(f"no job of {self._agent} has the id of the interrupt")
        return job

    def _log(self, job: JobHandle, prefix: str) -> RunLog:
        found = self._logs.get(job.id)
        if found is None:
            self._make_room()
            found = self._logs[job.id] = RunLog(job, prefix)
            self._tasks.spawn(found.read(), name=f"runs of {job.id}")
        self._logs.move_to_end(job.id)
        return found

    def _make_room(self) -> None:
        held = sum(log.size for log in self._logs.values())
        # Those that have ended first, then those that have been unused for longest.
        unused = [each for each in self._logs.items() if not each[1].viewers]
        for job_id, log in sorted(unused, key=lambda each: not each[1].over):
            if len(self._logs) < _LOGS and held < _MEMORY:
                return
            held -= log.size
            log.close()
            del self._logs[job_id]
        if len(self._logs) >= _LOGS:
            raise TooManyFeeds(f"front ends already follow {_LOGS} runs")

    # ------------------------------------------------------------------ streams

    async def _stream(
        self,
        request: web.Request,
        ids: tuple[str, str],
        run: _HttpRun,
        messages: list[dict[str, Any]],
    ) -> web.StreamResponse:
        view = RunView(
            thread_id=ids[0],
            run_id=ids[1],
            after=run.after,
            handled=run.handled,
            refusals=run.refusals,
            conversation=messages,
            ask_again=run.ask_again,
        )
        cursor = request.headers.get("Last-Event-ID")
        try:
            await run.log.prepare(view, cursor)
        except CursorExpired:
            raise Problem(
                410,
                "CURSOR_EXPIRED",
                "the server no longer has the event after which the run continues",
                "send the request without Last-Event-ID",
            ) from None
        _check_room(request)  # others may have opened meanwhile

        async def play(stream: FrameStream, _request: web.Request) -> AsyncGenerator[bytes, None]:
            async with aclosing(run.log.play(stream, view, cursor)) as told:
                async for frame in told:
                    yield frame
            if not view.done:  # an end without its last event must not look like an end
                response.abort()

        response = EventStream(play)
        return response


async def _read(request: web.Request) -> tuple[RunAgentInput, dict[str, Any]]:
    """The body of a request, as its type and as JSON with the digits of its numbers."""
    data = await bodies.read_bytes(request, _BODY)
    try:
        given = RunAgentInput.model_validate_json(data)
        body = frames.decoded(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in first["loc"])
        raise Problem(400, "INVALID_BODY", f"{place or 'the body'}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise Problem(400, "INVALID_JSON", "the body is not JSON") from None
    assert isinstance(body, dict), "checked by RunAgentInput"
    return given, body


def _split(
    messages: list[dict[str, Any]], prefix: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages that are not, and those that are of the runs of a job."""
    own = f"{prefix}:"
    made = [each for each in messages if str(each.get("id", "")).startswith(own)]
    return [each for each in messages if not str(each.get("id", "")).startswith(own)], made


def _key(request: web.Request) -> str | None:
    """The idempotency key in the header of a request."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key) <= _KEY:
        raise Problem(400, "INVALID_KEY", f"Idempotency-Key has 1 to {_KEY} characters")
    return key


def _digest(value: Any) -> bytes:
    return hashlib.sha256(frames.exact(value)).digest()


def _interrupt(entry: ResumeEntry) -> InterruptId:
    found = InterruptId.parse(entry.interrupt_id)
    if found is None:
        raise Problem(404, "QUESTION_NOT_FOUND", "no interrupt of this agent has this interruptId")
    return found


def _refusal(entry: ResumeEntry, error: errors.RequestError) -> CustomEvent:
    """The event that says why an answer was not taken, and whose was."""
    value = {"interruptId": entry.interrupt_id, "code": error.code, "message": error.message}
    if isinstance(error, errors.QuestionAnswered):
        value |= {"by": error.by, "client": error.client, "at": error.at, "value": error.value}
    return CustomEvent(name="arcp.answer_refused", value=value)


def _other_body(ids: tuple[str, str]) -> Problem:
    return Problem(
        409,
        "DUPLICATE_KEY",
        f"the run {ids[1]:.80} was begun with another request",
        "use a new runId for another request",
    )


def _check_room(request: web.Request) -> None:
    if OpenStreams.of(request.app).full:
        raise Problem(
            503, "TOO_MANY_PAGES", "too many streams are open", headers={"Retry-After": "5"}
        )
