"""A client of the Agent Client Protocol (ACP): starts an agent and handles its updates in order.

::

    async with AcpClient(["opencode", "acp"], on_permission=ask, fs=LocalFiles(".")) as agent:
        session = await agent.new_session()

        @session.on(updates.AgentMessageChunk)
        async def show(chunk): ...

        turn = await session.prompt("explain this repository")

Each session has one inbox: handlers run one after another, in the order of the updates. In the
picture, the *lane* is the queue in which the updates and requests of one session wait.
`AcpSession.prompt` returns when the handlers of all updates before its answer have ended. `host`
turns an ACP agent into an agent of an `arcp_client.runtime`, so that clients can watch its jobs and
resume after a lost connection. `serve` is the other direction: it serves an agent of a runtime to
an editor, over ACP. Each session of the editor is then one job of the runtime, or one job for each
prompt.

::

    agent process ─▶ _connection.reader ─▶ lane ─┬─▶ _session.inbox ─▶ handlers, iterators
          ▲                   │                  └─▶ agent_requests ─▶ services
          │                   │ refusals                   │ answers
          └── _connection.send_queue ◀─────────────────────┘
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcp_client.acp import schema, updates
    from arcp_client.acp._http.connector import HttpConnector
    from arcp_client.acp.client import AcpClient
    from arcp_client.acp.errors import (
        AgentRefused,
        AuthRequired,
        CallCancelled,
        HttpRefused,
        MethodUnknown,
        NotFound,
        Refusal,
    )
    from arcp_client.acp.host import host, lease_policy
    from arcp_client.acp.limits import AcpLimits
    from arcp_client.acp.services.files import FileSystem, LocalFiles
    from arcp_client.acp.services.permissions import PermissionRequest, allow_list, deny
    from arcp_client.acp.services.terminals import LocalTerminals, Terminals
    from arcp_client.acp.serving import serve
    from arcp_client.acp.session import AcpSession
    from arcp_client.acp.turn import Turn

# Like the top-level package: modules are imported on first use of a name.
_HOME_OF = {
    "AcpClient": "client",
    "AcpSession": "session",
    "AgentRefused": "errors",
    "AuthRequired": "errors",
    "CallCancelled": "errors",
    "FileSystem": "services.files",
    "HttpConnector": "_http.connector",
    "HttpRefused": "errors",
    "AcpLimits": "limits",
    "LocalFiles": "services.files",
    "LocalTerminals": "services.terminals",
    "MethodUnknown": "errors",
    "NotFound": "errors",
    "PermissionRequest": "services.permissions",
    "Refusal": "errors",
    "Terminals": "services.terminals",
    "Turn": "turn",
    "allow_list": "services.permissions",
    "deny": "services.permissions",
    "host": "host",
    "lease_policy": "host",
    "serve": "serving",
}
_MODULES = ("schema", "updates")

__all__ = [
    "AcpClient",
    "AcpLimits",
    "AcpSession",
    "AgentRefused",
    "AuthRequired",
    "CallCancelled",
    "FileSystem",
    "HttpConnector",
    "HttpRefused",
    "LocalFiles",
    "LocalTerminals",
    "MethodUnknown",
    "NotFound",
    "PermissionRequest",
    "Refusal",
    "Terminals",
    "Turn",
    "allow_list",
    "deny",
    "host",
    "lease_policy",
    "schema",
    "serve",
    "updates",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f".{name}", __name__)
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
