"""Buffers updates that arrive before their session is attached."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque

from arcp_client._log_fields import log_fields

__all__ = ["EarlyUpdates"]

_log = logging.getLogger("arcp_client.acp")


class EarlyUpdates:
    """The buffered updates, within limits of sessions, updates and bytes. Drops are logged."""

    def __init__(self, sessions: int, updates: int, limit: int) -> None:
        self._sessions = sessions
        self._updates = updates
        self._limit = limit
        self._lines: OrderedDict[str, deque[bytes]] = OrderedDict()
        self._bytes = 0

    def keep(self, session_id: str, line: bytes) -> None:
        """Buffer an update."""
        lines = self._lines.setdefault(session_id, deque())
        lines.append(line)
        self._bytes += len(line)
        if len(lines) > self._updates:
            self._bytes -= len(lines.popleft())
            _log.warning(
                "the oldest update for the unknown session %.64r is dropped",
                session_id,
                extra=log_fields(session=session_id),
            )
        while len(self._lines) > self._sessions or (
            self._bytes > self._limit and len(self._lines) > 1
        ):
            self.drop(next(iter(self._lines)))
        while self._bytes > self._limit and len(lines) > 1:
            self._bytes -= len(lines.popleft())
            _log.warning(
                "the oldest update for the unknown session %.64r is dropped",
                session_id,
                extra=log_fields(session=session_id),
            )

    def claim(self, session_id: str) -> deque[bytes]:
        """Remove and return the updates of a session that was attached."""
        lines = self._lines.pop(session_id, deque())
        self._bytes -= sum(map(len, lines))
        return lines

    def drop(self, session_id: str) -> None:
        """Drop a session's updates, with a warning."""
        lines = self.claim(session_id)
        if lines:
            _log.warning(
                "%d updates for the unknown session %.64r are dropped",
                len(lines),
                session_id,
                extra=log_fields(session=session_id),
            )

    def close(self) -> None:
        """Drop all updates."""
        for session_id in list(self._lines):
            self.drop(session_id)
