"""A client of the tasks extension, made of the official SDK's interface for extensions."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from mcp import types
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from pydantic import ConfigDict

EXTENSION = "io.modelcontextprotocol/tasks"


class Created(types.Result):
    """What a call gets in place of its result."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None
    created_at: str
    last_updated_at: str
    poll_interval_ms: int | None = None


class Task(types.Result):
    model_config = ConfigDict(extra="allow")
    task_id: str
    status: str
    status_message: str | None = None
    ttl_ms: int | None
    created_at: str
    last_updated_at: str
    result: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class Acknowledged(types.Result):
    model_config = ConfigDict(extra="allow")


class _Params(types.RequestParams):
    task_id: str


class _UpdateParams(_Params):
    input_responses: dict[str, Any]


class Get(types.Request[_Params, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _Params


class Cancel(types.Request[_Params, Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _Params


class Update(types.Request[_UpdateParams, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class Notice(Task):
    """The params of ``notifications/tasks``."""


class Tasks(ClientExtension):
    """Finishes calls that have become tasks by polling; `begun` has those of ``allow_claimed``."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Notice] = asyncio.Queue()

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self._resolve)]

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [
            NotificationBinding(
                method="notifications/tasks", params_type=Notice, handler=self._hear
            )
        ]

    async def _hear(self, notice: Notice) -> None:
        self.heard.put_nowait(notice)

    async def _resolve(self, created: Created, context: ClaimContext) -> types.CallToolResult:
        task = await ended(context.session, created.task_id)
        assert task.result is not None
        return types.CallToolResult.model_validate(task.result, by_name=False)


async def get(session: Any, task_id: str) -> Task:
    request = Get(params=_Params(task_id=task_id))
    return await session.send_request(request, Task)  # type: ignore[no-any-return]


async def cancel(session: Any, task_id: str) -> Acknowledged:
    request = Cancel(params=_Params(task_id=task_id))
    return await session.send_request(request, Acknowledged)  # type: ignore[no-any-return]


async def update(session: Any, task_id: str, **responses: Any) -> Acknowledged:
    params = _UpdateParams(task_id=task_id, input_responses=responses)
    return await session.send_request(Update(params=params), Acknowledged)  # type: ignore[no-any-return]


async def until(session: Any, task_id: str, *statuses: str) -> Task:
    """Poll until the task has one of these statuses."""
    while (task := await get(session, task_id)).status not in statuses:
        await asyncio.sleep(0.01)  # a poll, not a wait: the client has nothing else
    return task


async def ended(session: Any, task_id: str) -> Task:
    return await until(session, task_id, "completed", "failed", "cancelled")
