"""Translates the updates of an ACP session into events of an ARCP job."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import msgspec

from arcp_client.acp import schema
from arcp_client.acp._base import Base, Update
from arcp_client.acp._kinds import OTHER
from arcp_client.acp._session.state import AcpState
from arcp_client.acp.turn import Turn
from arcp_client.models import LogLevel
from arcp_client.runtime import JobContext

__all__ = ["Bridge", "as_values"]

_ENDED = ("completed", "failed")
_STATED = ("state_update", "user_message")
_LEVELS: dict[str, LogLevel] = {"info": "info", "warning": "warn", "error": "error"}


class Bridge:
    """Emits the updates of one session as events of one job.

    ================================ ==========================================================
    agent_message_chunk              ``result_chunk``; content other than text: ``artifact_ref``
                                     or ``x-vendor.acp.update``
    agent_thought_chunk              ``thought``; content other than text:
                                     ``x-vendor.acp.update``
    tool_call, tool_call_update      ``tool_call`` once, ``status`` while it runs, ``tool_result``
                                     once
    plan                             ``progress`` (entries done of all), ``status`` with the
                                     entry in progress
    usage_update                     ``metric``: ``acp.context.used``, and ``cost.acp`` with the
                                     increase of the cost, which is charged to the job's budget;
                                     an exhausted budget cancels the turn
    current_mode_update              ``status``
    notice                           ``log``
    state_update, user_message       nothing: the job and its messages say so
    every other update               ``x-vendor.acp.update``, unchanged
    ================================ ==========================================================

    Updates of version 2 of the protocol for which version 1 has a kind are emitted as that kind.

    Args:
        job: the job.
        state: the state of the session.
        exact: emit also, before the events above, each update that they do not carry completely,
            as ``x-vendor.acp.update``: so the job has every update of the agent, unchanged.
    """

    def __init__(self, job: JobContext, state: AcpState, *, exact: bool = False) -> None:
        self._job = job
        self._state = state
        self._exact = exact
        self._called: set[str] = set()
        self._ended: set[str] = set()
        self._cost: dict[str, Decimal] = {}
        self.spoke = False
        self.spent = asyncio.Event()  # the budget counter of the job is exhausted

    async def __call__(self, update: Update) -> None:
        """Emit one update. Replayed history is skipped."""
        if update.replay:
            self._count(update)
            return
        if update.__struct_config__.tag in _STATED:
            return
        if self._exact:
            then, raw = _spoken(update), _raw(update)
            if then is None or raw != _plain(update):
                await self._job.emit(OTHER, _present(update=raw, then=then))
        match update:
            case schema.AgentMessageChunk(content=schema.TextContent(text=text)):
                if text:
                    self.spoke = True
                    await self._job.chunk(text)
            case schema.AgentMessageChunk(content=schema.ResourceLink() as link):
                await self._job.artifact(link.uri, link.mime_type or "", link.size)
            case schema.AgentThoughtChunk(content=schema.TextContent(text=text)):
                await self._job.thought(text)
            case schema.ToolCall() | schema.ToolCallUpdate():
                await self._tool(update.tool_call_id)
            case schema.Plan():
                await self._plan(update)
            case schema.UsageUpdate():
                await self._usage(update)
            case schema.CurrentModeUpdate(current_mode_id=mode):
                await self._job.status("mode", mode)
            case schema.Notice():
                await self._job.log(update.title, _LEVELS.get(update.severity or "", "info"))
            case _ if not self._exact:
                await self._job.emit(OTHER, {"update": _raw(update)})

    async def end(self, turn: Turn) -> None:
        """Emit the usage and the stop reason of a turn."""
        usage = turn.usage
        if usage is not None:
            for name in ("input", "output", "total"):
                count = getattr(usage, f"{name}_tokens")
                await self._job.metric(f"acp.tokens.{name}", count, unit="tokens")
        if turn.stop_reason != "end_turn":
            await self._job.status("stopped", turn.stop_reason)

    async def _tool(self, call_id: str) -> None:
        call = self._state.tool_calls[call_id]
        if call_id not in self._called:
            self._called.add(call_id)
            args = {"title": call.title, "kind": call.kind, "input": call.raw_input}
            await self._job.tool_call(call.name or call.kind or "tool", args, call_id)
        if call.status in _ENDED:
            if call_id not in self._ended:
                self._ended.add(call_id)
                await self._tool_result(call)
        elif call.status is not None:
            await self._job.status(f"tool.{call.status}", call.title)

    async def _tool_result(self, call: schema.ToolCall) -> None:
        content = [as_values(part) for part in call.content]
        if call.status == "failed":
            details = {"content": content, "output": call.raw_output}
            error = {"code": "TOOL_FAILED", "message": call.title, "details": details}
            await self._job.tool_result(call.tool_call_id, error=error)
        else:
            result = {"content": content, "output": call.raw_output}
            await self._job.tool_result(call.tool_call_id, result)

    async def _plan(self, plan: schema.Plan) -> None:
        done = sum(entry.status == "completed" for entry in plan.entries)
        now = next((e.content for e in plan.entries if e.status == "in_progress"), None)
        await self._job.progress(done, len(plan.entries), "entries", now)
        await self._job.status("plan", now)

    async def _usage(self, update: schema.UsageUpdate) -> None:
        await self._job.metric("acp.context.used", update.used, unit="tokens")
        added = self._count(update)
        if added and update.cost is not None:
            await self._job.metric("cost.acp", added, unit=update.cost.currency)
            if any(left <= 0 for left in self._job.budget.values()):
                self.spent.set()

    def _count(self, update: Update) -> Decimal:
        """Return the increase of the session's cost, which the agent reports as a total."""
        if not isinstance(update, schema.UsageUpdate) or update.cost is None:
            return Decimal(0)
        currency = update.cost.currency
        total = Decimal(str(update.cost.amount))
        added = total - self._cost.get(currency, Decimal(0))
        self._cost[currency] = total
        return max(added, Decimal(0))


def _raw(update: Update) -> Any:
    """Return an update as received, or in the terms of version 1 if it is of version 2."""
    return msgspec.to_builtins(update) if len(update.__dict__.get("at", ())) > 2 else update.raw


def _spoken(update: Update) -> str | None:
    """Return the kind of the event that carries the text of an update, if there is one."""
    match update:
        case schema.AgentMessageChunk(content=schema.TextContent(text=text)) if text:
            return "result_chunk"
        case schema.AgentThoughtChunk(content=schema.TextContent()):
            return "thought"
    return None


def _plain(update: Any) -> Any:
    """Return an update of the same text that has nothing else."""
    content = {"type": "text", "text": update.content.text}
    return {"sessionUpdate": update.__struct_config__.tag, "content": content}


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def as_values(value: Any) -> Any:
    """Convert a value of the protocol to JSON values."""
    return msgspec.to_builtins(value) if isinstance(value, Base) else getattr(value, "raw", None)
