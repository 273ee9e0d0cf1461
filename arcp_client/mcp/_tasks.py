"""Serves jobs as tasks of MCP: the extension ``io.modelcontextprotocol/tasks`` of July 2026.

A task is a job, and its id is that of the job. So a task can be polled in any process with a token
of the same principal.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY

from arcp_client import errors, events
from arcp_client._tasks import TaskOwner
from arcp_client.client import Client
from arcp_client.errors import ArcpError
from arcp_client.job import JobHandle
from arcp_client.mcp._elicitation import answer_of, form
from arcp_client.mcp._watches import Watches
from arcp_client.models import OpenQuestion
from arcp_client.projection import ENDED

__all__ = ["EXTENSION", "Tasks"]

EXTENSION = "io.modelcontextprotocol/tasks"
ANSWERS = "arcp-client/answers"
"""The member of ``_meta`` that says which answers were not taken, and whose were."""
POLL = 1.0
"""Seconds: how often clients are asked to poll."""
_MOST = 1024
_MOST_HEARD = 64
_FIRST_EVENT = 1.0
_SINCE = "2026"
_INVALID_PARAMS = -32602
_INTERNAL = -32603
_NOT_FOUND = -32601
_MISSING_CAPABILITY = -32021
_SHOWN = events.Status, events.Progress, events.Question, events.Answered, events.Expired
_SHOWN_TOO = events.Withdrawn, events.Completed, events.Failed

Context = ServerRequestContext[Any]


class TaskParams(types.RequestParams):
    """The params of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str


class UpdateParams(TaskParams):
    """The params of ``tasks/update``."""

    input_responses: dict[str, dict[str, Any]]


class _Notice(types.Notification[dict[str, Any], Literal["notifications/tasks"]]):
    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class _TaskRecord:
    """What is known of a job that is a task, besides the state in its handle.

    Attributes:
        job: the job, once it is followed.
        error: why it cannot be followed.
        created: when the job began, as far as known.
        updated: the time of its newest event.
        message: what the job does.
        begun: set when an event has arrived, or none will.
        ready: set when the job is followed, or cannot be.
        listeners: events that are set at each change that a client sees.
    """

    def __init__(self, created: datetime | None) -> None:
        self.job: JobHandle | None = None
        self.error: ArcpError | None = None
        self.created = created
        self.updated = created
        self.message: str | None = None
        self.ready = asyncio.Event()
        self.begun = asyncio.Event()
        self.listeners: set[asyncio.Event] = set()

    def add(self, event: events.Event) -> None:
        if event.ts is not None:
            self.created = self.created or event.ts
            self.updated = max(self.updated or event.ts, event.ts)
        self.begun.set()
        if isinstance(event, events.Status):
            self.message = f"{event.phase}: {event.message}" if event.message else event.phase
        elif isinstance(event, events.Progress):
            total = "" if event.total is None else f" of {event.total}"
            told = f"{event.current}{total} {event.units or ''}".rstrip()
            self.message = event.message or told
        if isinstance(event, (*_SHOWN, *_SHOWN_TOO)):
            self.wake()

    def wake(self) -> None:
        for listener in self.listeners:
            listener.set()


class Tasks:
    """The tasks of one bridge.

    Args:
        client: the client.
        owner: owns the tasks that follow jobs.
        watches: follows jobs of other sessions.
        outcome: makes the result of a call of a job that has ended.
        cancel: cancels a job by its id.
        ttl: seconds after its newest event for which a task is kept, as it is stated.
    """

    def __init__(
        self,
        client: Client,
        owner: TaskOwner,
        watches: Watches,
        *,
        outcome: Callable[[JobHandle], Awaitable[types.CallToolResult]],
        cancel: Callable[[str], Awaitable[None]],
        ttl: float,
    ) -> None:
        self._client = client
        self._owner = owner
        self._watches = watches
        self._outcome = outcome
        self._cancel = cancel
        self._ttl = ttl
        self._records: OrderedDict[str, _TaskRecord] = OrderedDict()
        self._refused: OrderedDict[str, int] = OrderedDict()
        self._declined: OrderedDict[str, None] = OrderedDict()

    def offered(self, ctx: Context) -> bool:
        """Whether the client of a request takes tasks."""
        declared = ctx.session.client_capabilities
        extensions = None if declared is None else declared.extensions
        return ctx.protocol_version >= _SINCE and EXTENSION in (extensions or {})

    async def created(self, ctx: Context, job_id: str) -> dict[str, Any]:
        """The result of a call whose job continues as a task."""
        record = await self._record(job_id, datetime.now(UTC))
        task = await self._task(ctx, job_id, record)
        # A task begins without payload: the client polls for it.
        seed = {name: each for name, each in task.items() if name in _FIELDS}
        return {"resultType": "task", **seed}

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """``tasks/get``."""
        self._check(ctx)
        return await self._task(ctx, params.task_id, await self._record(params.task_id))

    async def update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        """``tasks/update``: answer open questions; each is answered once."""
        self._check(ctx)
        await self._record(params.task_id)
        open_now = {self._key(each): each for each in await self._questions(params.task_id)}
        refused: dict[str, Any] = {}
        for key, response in params.input_responses.items():
            question = open_now.get(key)
            if response.get("action", "accept") != "accept":
                _remember(self._declined, key)
                continue
            if question is None:
                refused[key] = {"code": "QUESTION_CLOSED", "message": "it is not open any more"}
                continue
            try:
                value = answer_of(question, response.get("content"))
                # The same answer again, after a lost link, is the same answer.
                await self._client.answer(
                    params.task_id, question.question_id, value, idempotency_key=f"mcp-{key}"
                )
            except (errors.QuestionAnswered, errors.DuplicateKey) as error:
                refused[key] = _refusal(error)
            except errors.QuestionClosed as error:
                refused[key] = _refusal(error)
            except (errors.InvalidAnswer, errors.PermissionDenied, ValueError) as error:
                # The question is open; MCP wants another key for another request.
                _count(self._refused, question.question_id)
                text = getattr(error, "message", "") or str(error)
                raise MCPError(code=_INVALID_PARAMS, message=f"{key}: {text}") from None
            except ArcpError as error:
                raise _failed(error) from None
        return {"_meta": {ANSWERS: refused}} if refused else {}

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """``tasks/cancel``: cancel the job."""
        self._check(ctx)
        record = await self._record(params.task_id)
        if record.job is not None and record.job.status not in ENDED:
            try:
                await self._cancel(params.task_id)
            except ArcpError as error:
                raise _failed(error) from None
        return {}

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """``subscriptions/listen`` with ``taskIds``: send each change until all have ended."""
        asked = (params.notifications.model_extra or {}).get("taskIds") or []
        if asked:
            self._check(ctx)
        if not isinstance(asked, list) or len(asked) > _MOST_HEARD:
            raise MCPError(code=_INVALID_PARAMS, message=f"taskIds: at most {_MOST_HEARD} texts")
        records = {str(each): await self._record(str(each)) for each in asked}
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        wake = asyncio.Event()
        for record in records.values():
            record.listeners.add(wake)
        try:
            honored = types.SubscriptionFilter.model_validate({"taskIds": [*records]})
            acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
                notifications=honored, _meta=meta
            )
            await ctx.session.send_notification(
                types.SubscriptionsAcknowledgedNotification(params=acknowledged),
                related_request_id=ctx.request_id,
            )
            sent: dict[str, Any] = {}
            while records.keys() - {each for each, told in sent.items() if _over(told)}:
                wake.clear()
                for job_id, record in records.items():
                    task = await self._task(ctx, job_id, record)
                    if sent.get(job_id) != task:
                        sent[job_id] = task
                        notice = _Notice(params={**task, "_meta": meta})
                        await ctx.session.send_notification(
                            notice,  # type: ignore[arg-type]  # of an extension
                            related_request_id=ctx.request_id,
                        )
                if all(_over(told) for told in sent.values()):
                    break
                await wake.wait()
        finally:
            for record in records.values():
                record.listeners.discard(wake)
        return types.SubscriptionsListenResult(_meta=meta)

    # ------------------------------------------------------------------

    def _check(self, ctx: Context) -> None:
        if ctx.protocol_version < _SINCE:
            raise MCPError(code=_NOT_FOUND, message="Method not found")
        if not self.offered(ctx):
            raise MCPError(
                code=_MISSING_CAPABILITY,
                message="Missing required client capability",
                data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
            )

    async def _record(self, job_id: str, created: datetime | None = None) -> _TaskRecord:
        found = self._records.get(job_id)
        if found is None:
            found = self._records[job_id] = _TaskRecord(created)
            self._owner.spawn(self._follow(job_id, found), name=f"task {job_id}")
            if len(self._records) > _MOST:
                self._forget()
        self._records.move_to_end(job_id)
        await found.ready.wait()
        if found.error is not None:
            self._records.pop(job_id, None)
            if isinstance(found.error, errors.JobNotFound | errors.PermissionDenied):
                raise MCPError(
                    code=_INVALID_PARAMS, message=f"Task not found: {job_id:.80}"
                ) from None
            raise _failed(found.error)
        return found

    def _forget(self) -> None:
        """Forget the task that has been unused for longest; one that has ended if there is one."""
        ended = (
            job_id
            for job_id, record in self._records.items()
            if record.job is None or record.job.status in ENDED
        )
        self._records.pop(next(ended, next(iter(self._records))))

    async def _follow(self, job_id: str, record: _TaskRecord) -> None:
        try:
            async with self._watches.job(job_id) as job:
                record.job = job
                if job.status in ENDED:
                    record.begun.set()
                record.ready.set()
                async for event in job:
                    record.add(event)
        except ArcpError as error:
            if record.job is None:
                record.error = error
        finally:
            record.ready.set()
            record.begun.set()
            record.wake()

    async def _questions(self, job_id: str) -> list[OpenQuestion]:
        try:
            found = [each async for each in self._client.questions() if each.job_id == job_id]
        except errors.FeatureNotNegotiated:
            return []
        except ArcpError as error:
            raise _failed(error) from None
        return [each for each in found if self._key(each) not in self._declined]

    def _key(self, question: OpenQuestion) -> str:
        """The key of the request that asks a question; another one after a refused answer."""
        refused = self._refused.get(question.question_id, 0)
        return f"{question.question_id}:{refused}" if refused else question.question_id

    async def _task(self, ctx: Context, job_id: str, record: _TaskRecord) -> dict[str, Any]:
        """The task as ``tasks/get`` answers it."""
        job = record.job
        assert job is not None, "it is ready"
        if not record.begun.is_set():  # the history of the job says when it began
            try:
                async with asyncio.timeout(_FIRST_EVENT):
                    await record.begun.wait()
            except TimeoutError:
                pass
        now = datetime.now(UTC)
        record.created = record.created or now
        updated = record.updated or record.created
        status = job.status
        facts: dict[str, Any] = {}
        message = record.message
        if status in ENDED:
            result = await self._outcome(job)
            if status == "cancelled":
                shown = "cancelled"
            else:
                shown = "completed"
                facts["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            message = None if status == "success" else f"the job ended: {status}"
        else:
            shown = "working"
            questions = [each for each in await self._questions(job_id) if each.may_answer]
            if questions and _elicits(ctx):
                shown = "input_required"
                facts["inputRequests"] = {
                    self._key(each): {"method": "elicitation/create", "params": form(each)}
                    for each in questions
                }
            if questions:
                message = f"the agent asks: {questions[0].text}"
        newest = updated if status in ENDED else max(updated, now)
        ttl = (newest - record.created).total_seconds() + self._ttl
        task = {
            "taskId": job_id,
            "status": shown,
            "createdAt": _written(record.created),
            "lastUpdatedAt": _written(updated),
            "ttlMs": int(-(-ttl // 60) * 60_000),
            "pollIntervalMs": int(POLL * 1000),
            **facts,
        }
        return task if message is None else {**task, "statusMessage": message}


_FIELDS = frozenset(
    {"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
)


def _over(task: dict[str, Any]) -> bool:
    return task["status"] in ("completed", "failed", "cancelled")


def _elicits(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    return declared is not None and declared.elicitation is not None


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refusal(error: errors.RequestError) -> dict[str, Any]:
    facts: dict[str, Any] = {"code": error.code, "message": error.message}
    if isinstance(error, errors.QuestionAnswered):
        facts |= {"by": error.by, "client": error.client, "at": error.at, "value": error.value}
    return facts


def _failed(error: ArcpError) -> MCPError:
    return MCPError(code=_INTERNAL, message=str(error))


def _remember(kept: OrderedDict[str, None], key: str) -> None:
    kept[key] = None
    if len(kept) > _MOST:
        kept.popitem(last=False)


def _count(kept: OrderedDict[str, int], key: str) -> None:
    kept[key] = kept.get(key, 0) + 1
    if len(kept) > _MOST:
        kept.popitem(last=False)
