"""Emits `tool_call` and `tool_result` around a block, if the lease allows the tool (§9.3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from arcp_client._wire import names
from arcp_client.errors import JobFailed, LocalProtocolError, PermissionDenied
from arcp_client.runtime._dialogue.inbox import Steering

__all__ = ["Tool"]


class _Context(Protocol):
    @property
    def steered(self) -> Steering: ...

    def authorize(self, capability: str, target: str) -> None: ...

    async def tool_call(self, tool: str, args: Any = None, call_id: str | None = None) -> str: ...

    async def tool_result(
        self, call_id: str, result: Any = None, error: Mapping[str, Any] | None = None
    ) -> None: ...


class Tool:
    """One tool call, as an async context manager.

    Attributes:
        call_id: identifies the call in both events; set when the block is entered.
        result: the result of the tool; set it in the block.
        error: the error of the tool, with ``code`` and ``message``; set it in place of `result` if
            the block does not raise.
    """

    def __init__(self, context: _Context, name: str, args: Any) -> None:
        self._context = context
        self._name = name
        self._args = args
        self.call_id = ""
        self.result: Any = None
        self.error: Mapping[str, Any] | None = None

    @property
    def steered(self) -> Steering:
        """Set while a message with the mode ``steer`` waits: a long call can end early."""
        return self._context.steered

    async def __aenter__(self) -> Tool:
        self.call_id = await self._context.tool_call(self._name, self._args)
        try:
            self._context.authorize("tool.call", self._name)
        except (PermissionDenied, JobFailed) as refused:
            await self._context.tool_result(
                self.call_id, error=_error(refused.code, refused.message)
            )
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if raised is None:
            await self._context.tool_result(self.call_id, self.result, self.error)
            return
        if isinstance(raised, PermissionDenied | JobFailed):
            error = _error(raised.code, raised.message)
        elif isinstance(raised, asyncio.CancelledError):
            error = _error(names.CODE_CANCELLED, "interrupted")
        else:
            # The exception's text may hold paths and secrets; an agent can set ``error`` itself.
            error = dict(self.error or _error(names.INTERNAL_ERROR, "the tool failed"))
        # The job may have ended in the meantime; the exception of the block is more important.
        with contextlib.suppress(LocalProtocolError):
            await self._context.tool_result(self.call_id, error=error)


def _error(code: str, message: str) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "retryable": code in names.RETRYABLE_BY_DEFAULT,
    }
