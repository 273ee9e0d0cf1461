"""The server side of a WebSocket (aiohttp.web).

A separate module, so that clients do not import aiohttp's server.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from arcp_client.transports.base import MAX_FRAME

__all__ = ["server_websocket"]


def server_websocket(*, max_frame: int = MAX_FRAME) -> web.WebSocketResponse[Any]:
    """Make an unprepared server WebSocket, with the settings `WebSocketTransport` needs."""
    return web.WebSocketResponse(
        heartbeat=None,
        autoping=False,
        compress=False,
        decode_text=False,
        max_msg_size=max_frame + 1,
    )
