"""Links: WebSocket (aiohttp), stdio (child processes), memory. Frames in, frames out."""

from __future__ import annotations

from arcp_client.transports.base import MAX_FRAME, Connector, Transport
from arcp_client.transports.memory import MemoryTransport, memory_pair
from arcp_client.transports.stdio import StdioConnector, StdioServerTransport, StdioTransport
from arcp_client.transports.websocket import (
    WebSocketConnector,
    WebSocketTransport,
    server_websocket,
)

__all__ = [
    "MAX_FRAME",
    "Connector",
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
