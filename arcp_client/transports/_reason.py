"""Converts the last message of a WebSocket to a LinkLost that names the side that closed."""

from __future__ import annotations

from typing import Any

import aiohttp

from arcp_client._wire.unreadable import head_of
from arcp_client.errors import LinkLost
from arcp_client.transports.base import FrameRefused

__all__ = ["reason"]

_NO_CODE = 1005
_ABNORMAL = 1006
_TOO_BIG = 1009


def reason(message: Any, *, peer: str, max_frame: int, largest: int) -> LinkLost:
    """Describe why the link ended, if the peer or the network ended it.

    Args:
        message: the message that ``receive()`` of aiohttp returned: neither data nor ping nor pong.
        peer: the name of the other side.
        max_frame: this side's limit in bytes.
        largest: the size of the largest frame that was sent, in bytes.
    """
    if message.type is aiohttp.WSMsgType.CLOSE:
        return _closed(message, peer, largest)
    if message.type is aiohttp.WSMsgType.ERROR:
        return _failed(message.data, peer, max_frame)
    text = f"the connection to {peer} ended without a close frame"
    return LinkLost(text, close_code=_ABNORMAL)


def _closed(message: Any, peer: str, largest: int) -> LinkLost:
    code = message.data or _NO_CODE  # aiohttp reports it as 0
    said = f" ('{head_of(message.extra.encode())}')" if message.extra else ""
    text = f"{peer} closed the link with code {code}{said}"
    if code == _TOO_BIG:
        text += (
            ": a frame from this side was over the peer's limit"
            f" (the largest sent has {largest} bytes)"
        )
        return FrameRefused(text, close_code=code)
    return LinkLost(text, close_code=code)


def _failed(error: object, peer: str, max_frame: int) -> LinkLost:
    if not isinstance(error, aiohttp.WebSocketError):
        return LinkLost(f"the connection to {peer} ended: {error}", close_code=_ABNORMAL)
    if error.code == _TOO_BIG:
        text = f"{peer} sent a frame over this side's limit of {max_frame} bytes (max_frame)"
    else:
        text = f"{peer} broke the WebSocket protocol (code {error.code}): {error}"
    return LinkLost(text, close_code=error.code)
