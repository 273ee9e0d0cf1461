"""A token in, sessions of browsers out: compared in constant time, and slowly if it is wrong."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict

from pydantic import SecretStr

from arcp_client.web.problems import Problem

__all__ = ["LIFETIME", "Logins"]

LIFETIME = 12 * 3600.0
"""Seconds that a login is good for."""
_MOST = 256
_WAITING = 8
_FIRST = 0.1
_LONGEST = 2.0
_FORGOTTEN = 60.0
"""Seconds after the last wrong token from which on the next one counts as the first."""


class Logins:
    """Who may use the dashboard.

    What a browser keeps is a random value, of which only a digest is kept here; the token itself is
    in no cookie. A wrong token is answered after a delay that grows to two seconds, and only a few
    are examined at a time: so no more than four or so can be tried in a second, and nobody who has
    the right one waits.

    Args:
        token: what has to be known.
    """

    def __init__(self, token: SecretStr) -> None:
        value = token.get_secret_value()
        if not value.strip():
            raise ValueError("the token of a dashboard is not empty")
        self._digest = _digest(value)
        self._sessions: OrderedDict[bytes, float] = OrderedDict()
        self._waiting = 0
        self._wrong = 0
        self._wrong_at = 0.0

    def __repr__(self) -> str:
        return f"<Logins {len(self._sessions)}>"

    async def login(self, token: str) -> str:
        """A new session's value, for a cookie.

        Raises:
            Problem: the token is wrong, or too many are being tried.
        """
        await self.check(token)
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = time.monotonic() + LIFETIME
        if len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        return value

    async def check(self, token: str) -> None:
        """Compare a token.

        Raises:
            Problem: it is wrong, or too many are being tried.
        """
        if self._waiting >= _WAITING:
            raise Problem(
                429,
                "TOO_MANY_LOGINS",
                "too many wrong tokens are being tried",
                "try again in some seconds",
                headers={"Retry-After": "5"},
            )
        if hmac.compare_digest(_digest(token), self._digest):
            return  # it says nothing about whoever tries the wrong ones
        now = asyncio.get_running_loop().time()
        if now - self._wrong_at > _FORGOTTEN:
            self._wrong = 0
        self._wrong_at = now
        self._waiting += 1
        try:
            await asyncio.sleep(min(_FIRST * 2**self._wrong, _LONGEST))
            self._wrong = min(self._wrong + 1, 8)
        finally:
            self._waiting -= 1
        raise Problem(401, "WRONG_TOKEN", "the token is not right", "ask whoever started it")

    def knows(self, value: str | None) -> bool:
        """Whether a cookie's value is that of a session."""
        if not value:
            return False
        until = self._sessions.get(_digest(value))
        return until is not None and time.monotonic() < until

    def logout(self, value: str | None) -> None:
        """End a session."""
        if value:
            self._sessions.pop(_digest(value), None)


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
