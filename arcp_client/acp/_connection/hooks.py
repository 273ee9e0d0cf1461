"""The hooks that users register on a client: errors, skipped lines, the agent's exit."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from arcp_client._tasks import pass_on
from arcp_client.errors import HandlerError, LinkLost, RemoteProtocolError

__all__ = ["ClientHooks", "Hook"]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.acp")


class Hook(Generic[T]):
    """A function that runs in the context of its registration (rule D19)."""

    def __init__(self, function: Callable[[T], object]) -> None:
        self._function = function
        self._context = contextvars.copy_context()

    def __call__(self, value: T) -> None:
        self._context.copy().run(self._function, value)


class ClientHooks:
    """The hooks of one client. An exception that a hook raises is logged, nothing else."""

    def __init__(self) -> None:
        self.error: list[Hook[HandlerError]] = []
        self.strange: list[Hook[RemoteProtocolError]] = []
        self.closed: list[Hook[LinkLost | None]] = []
        self.notification: dict[str, Hook[Any]] = {}

    def tell(self, hooks: list[Hook[Any]], value: Any) -> None:
        """Call each hook with a value."""
        for hook in hooks:
            try:
                hook(value)
            except BaseException as error:  # noqa: BLE001  # a hook is user code
                pass_on(error)
                _log.exception("a hook failed")
