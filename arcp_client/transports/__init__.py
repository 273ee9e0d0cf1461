"""Transports move frames: over WebSockets (aiohttp), pipes of child processes, or in memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcp_client.transports.base import MAX_FRAME, Connector, LineTransport, Transport
    from arcp_client.transports.memory import MemoryTransport, memory_pair
    from arcp_client.transports.stdio import StdioConnector, StdioServerTransport, StdioTransport
    from arcp_client.transports.websocket import WebSocketConnector, WebSocketTransport
    from arcp_client.transports.websocket_server import server_websocket

# Modules are imported on first use of a name: child processes do not need aiohttp, and clients do
# not need the server side.
_HOME_OF = {
    "MAX_FRAME": "base",
    "Connector": "base",
    "LineTransport": "base",
    "MemoryTransport": "memory",
    "StdioConnector": "stdio",
    "StdioServerTransport": "stdio",
    "StdioTransport": "stdio",
    "Transport": "base",
    "WebSocketConnector": "websocket",
    "WebSocketTransport": "websocket",
    "memory_pair": "memory",
    "server_websocket": "websocket_server",
}

__all__ = [
    "MAX_FRAME",
    "Connector",
    "LineTransport",
    "MemoryTransport",
    "StdioConnector",
    "StdioServerTransport",
    "StdioTransport",
    "Transport",
    "WebSocketConnector",
    "WebSocketTransport",
    "memory_pair",
    "server_websocket",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
