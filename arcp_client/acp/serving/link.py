"""The JSON-RPC link to an editor: its requests and notifications, and calls of the editor.

Requests start in the order in which they arrive, each in a task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from arcp_client._budget import ByteBudget
from arcp_client._deadline import Deadline
from arcp_client._tasks import TaskOwner
from arcp_client.acp._connection.agent_requests import AgentRequests, Route
from arcp_client.acp._connection.jsonrpc import JsonRpcPeer
from arcp_client.acp._connection.messages import Id
from arcp_client.acp._decode import Misshapen, as_value
from arcp_client.acp.limits import AcpLimits
from arcp_client.errors import ArcpError, LinkLost, RemoteProtocolError
from arcp_client.transports import Transport

__all__ = ["EditorLink"]

_log = logging.getLogger("arcp_client.acp")

Notify = Callable[[Any], Awaitable[None]]


class EditorLink:
    """The link to one editor.

    Args:
        transport: the transport; its creator closes it.
        routes: the served requests.
        notifications: the handled notifications; each runs in a task, in their order.
        limits: the limits.

    Attributes:
        lost: set when the editor has disconnected.
    """

    def __init__(
        self,
        transport: Transport,
        routes: Mapping[str, Route],
        notifications: Mapping[str, Notify],
        limits: AcpLimits,
    ) -> None:
        self.inboxes: dict[str, Callable[[bytes], bool]] = {}
        self.owner = TaskOwner("arcp_client.acp.serving")
        self.gone = asyncio.Event()
        self._notifications = notifications
        self._held = ByteBudget(limits.requests)
        answers = ByteBudget(limits.answers)
        self.peer = JsonRpcPeer(transport, self, self.owner, answers)
        self._requests = AgentRequests(
            routes,
            post=self.peer.post,
            session=lambda _: None,
            limit=limits.open_requests,
            held=self._held,
            answers=answers,
            failed=self._failed,
            who="this agent",
        )

    def start(self) -> None:
        """Start reading."""
        self.peer.start()

    async def call(self, method: str, params: Any) -> Any:
        """Send a request to the editor and wait for its answer, without a time limit.

        Raises:
            AgentRefused: the editor answered with an error.
            RemoteProtocolError: the answer cannot be read.
            LinkLost: the editor has disconnected.
        """
        raw = await self.peer.call(method, params, timeout=None)
        try:
            return as_value(raw or b"null")
        except Misshapen as error:
            text = f"the result of {method} cannot be read: {error}"
            raise RemoteProtocolError(text, size=len(raw)) from error

    async def update(self, session_id: str, update: Any) -> None:
        """Send an update; waits while the editor does not read.

        Raises:
            LinkLost: the editor has disconnected.
        """
        await self.peer.notify("session/update", {"sessionId": session_id, "update": update})

    async def close(self) -> None:
        """End all requests and calls."""
        self.peer.fail(LinkLost("the link to the editor was closed here"))
        await self._requests.close(Deadline(1.0))
        await self.owner.close(deadline=Deadline(1.0))

    # ------------------------------------------------------------------ what the reader hands on

    def early_update(self, session_id: str, line: bytes) -> None:
        """Skip an update: editors send none."""
        _log.warning("skipped an update that the editor sent")

    async def room(self) -> None:
        """Return at once: no update waits."""

    def request(self, id_: Id, method: str, params: bytes) -> None:
        """Serve a request of the editor."""
        self._requests.take(id_, method, params)

    @property
    def crowded(self) -> bool:
        """Whether the open requests exceed their limit in bytes."""
        return self._held.over

    async def served(self) -> None:
        """Wait until the open requests are within their limit."""
        await self._held.room()

    def notification(self, method: str, params: bytes) -> None:
        """Handle a notification of the editor."""
        value = as_value(params or b"{}")
        if method == "$/cancel_request":
            self._requests.cancel(value.get("requestId") if isinstance(value, dict) else None)
        elif method in self._notifications:
            self.owner.spawn(self._notify(method, value), name=method)
        else:
            _log.debug("the notification %.64r of the editor is not handled", method)

    async def _notify(self, method: str, value: Any) -> None:
        try:
            await self._notifications[method](value)
        except ArcpError as error:  # there is no answer that could have it
            _log.warning("%s failed: %s", method, error)

    def strange(self, error: RemoteProtocolError) -> None:
        """Report a line that could not be parsed and was skipped."""
        _log.warning("skipped a line of the editor: %s %s", error, error.head)

    def lost(self, error: LinkLost) -> None:
        """Note that the editor has disconnected."""
        self._requests.forget()
        self.gone.set()

    def _failed(self, name: str, error: BaseException) -> None:
        _log.error("%s failed", name, exc_info=error)
