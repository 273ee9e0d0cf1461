"""Holds the hooks that users register on a client: errors, skipped lines, the agent's end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from arcp_client._tasks import pass_on
from arcp_client.errors import HandlerError, LinkLost, RemoteProtocolError

__all__ = ["ClientHooks"]

_log = logging.getLogger("arcp_client.acp")


class ClientHooks:
    """The hooks of one client. A hook that raises is logged and changes nothing."""

    def __init__(self) -> None:
        self.error: list[Callable[[HandlerError], object]] = []
        self.strange: list[Callable[[RemoteProtocolError], object]] = []
        self.closed: list[Callable[[LinkLost | None], object]] = []
        self.notification: dict[str, Callable[[Any], object]] = {}

    def tell(self, hooks: list[Callable[[Any], object]], value: Any) -> None:
        """Call each hook with a value."""
        for hook in hooks:
            try:
                hook(value)
            except BaseException as error:  # noqa: BLE001  # a hook is user code
                pass_on(error)
                _log.exception("a hook failed")
