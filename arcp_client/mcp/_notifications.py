"""Sends the events of a job as progress and log notifications of an MCP request."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, get_args

from mcp import types
from mcp.server.context import ServerRequestContext

from arcp_client import events

__all__ = ["LogLevels", "Notifier"]

_META_LEVEL = "io.modelcontextprotocol/logLevel"
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""From debug to emergency."""
_LEVEL_OF: dict[str, types.LoggingLevel] = {
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "error": "error",
}
_MOST_CONNECTIONS = 4096
_SINCE_OPT_IN = "2026"
"""From the versions of this year on, a request says which log level it wants, if any."""


class LogLevels:
    """The least level of log notifications, of each connection that has set one."""

    def __init__(self) -> None:
        self._set: OrderedDict[object, types.LoggingLevel] = OrderedDict()

    def set(self, connection: object, level: types.LoggingLevel) -> None:
        """Set the level of a connection."""
        self._set[connection] = level
        self._set.move_to_end(connection)
        if len(self._set) > _MOST_CONNECTIONS:
            self._set.popitem(last=False)

    def wanted(self, ctx: ServerRequestContext[Any], connection: object) -> int:
        """Return the position of the least level that a request wants."""
        if ctx.protocol_version >= _SINCE_OPT_IN:
            asked = (ctx.meta or {}).get(_META_LEVEL)
            return _LEVELS.index(asked) if asked in _LEVELS else len(_LEVELS)
        return _LEVELS.index(self._set.get(connection, "info"))


class Notifier:
    """The notifications of one request.

    The progress of MCP must increase with each notification: progress of the agent that does not is
    sent as a log line. Until an agent reports progress of its own, the bytes of the result that
    have arrived are the progress.

    Args:
        ctx: the request.
        logger: the name of the log lines' source.
        least: the position of the least log level.
    """

    def __init__(self, ctx: ServerRequestContext[Any], logger: str, least: int) -> None:
        self._ctx = ctx
        self._logger = logger
        self._least = least
        self._last = -1.0
        self._own_progress = False
        self._received = 0

    async def send(self, event: events.Event) -> None:
        """Send what an event says; an event of a kind that MCP has no place for sends nothing."""
        match event:
            case events.Progress():
                await self._progress(event)
            case events.ResultChunk():
                await self._chunk(event)
            case events.Log(level=level, message=message):
                await self.log(_LEVEL_OF.get(level, "info"), message)
            case events.Status(phase=phase, message=message):
                await self.log("info", f"{phase}: {message}" if message else phase)
            case events.Thought(text=text):
                await self.log("debug", text)
            case events.Question(text=text):
                await self.log("notice", f"the agent asks: {text}")
            case events.Gap(first=first, last=last, reason=reason):
                await self.log(
                    "warning",
                    f"events {first} to {'?' if last is None else last} missing: {reason}",
                )
            case _:
                pass

    async def log(self, level: types.LoggingLevel, data: Any) -> None:
        """Send a log line, if the client wants this level."""
        if _LEVELS.index(level) < self._least:
            return
        line = types.LoggingMessageNotificationParams(level=level, data=data, logger=self._logger)
        await self._ctx.session.send_notification(
            types.LoggingMessageNotification(params=line), related_request_id=self._ctx.request_id
        )

    async def _progress(self, event: events.Progress) -> None:
        total = event.total
        text = event.message
        if text is None and event.units:
            text = f"{event.current}{'' if total is None else f' of {total}'} {event.units}"
        self._own_progress = True
        if event.current > self._last:
            self._last = float(event.current)
            await self._ctx.session.report_progress(
                float(event.current), None if total is None else float(total), text
            )
        else:
            of = "" if total is None else f" of {total}"
            await self.log("info", text or f"{event.current}{of}")

    async def _chunk(self, event: events.ResultChunk) -> None:
        await self.log(
            "info",
            {
                "result_chunk": event.chunk_seq,
                "data": event.data,
                "encoding": event.encoding,
                "more": event.more,
            },
        )
        size = len(event.data.encode("utf-8", "replace"))
        self._received += size * 3 // 4 if event.encoding == "base64" else size
        if not self._own_progress and self._received > self._last:
            self._last = float(self._received)
            await self._ctx.session.report_progress(
                self._last, None, f"{self._received} bytes of the result"
            )
