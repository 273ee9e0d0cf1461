"""Turns on TCP keepalive, which detects a dead network while neither side sends anything."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

__all__ = ["keep_alive"]

# A dead network is detected after about a minute.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


def keep_alive(sock: Any) -> None:
    """Turn it on for a socket, if there is one and the system can."""
    if sock is None:
        return
    with contextlib.suppress(OSError):
        try:
            _set_keep_alive(sock)
        except TypeError:  # the socket object of uvloop forbids it
            with sock.dup() as same:
                _set_keep_alive(same)


def _set_keep_alive(sock: Any) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)  # some systems lack one of the three
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
