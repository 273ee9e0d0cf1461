"""Knows the token of a dashboard and the browsers that have logged in with it.

Tokens are compared in constant time, and wrong ones are answered slowly.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict

from pydantic import SecretStr

from arcp_client._security import WrongTokens
from arcp_client.web.problems import Problem

__all__ = ["LIFETIME", "Logins"]

LIFETIME = 12 * 3600.0
"""Seconds that a login is good for."""
_MOST = 256


class Logins:
    """Who may use the dashboard.

    What a browser keeps is a random value, of which only a digest is kept here; the token itself is
    in no cookie. Wrong tokens are delayed by address (`WrongTokens`).

    Args:
        token: what has to be known.
    """

    def __init__(self, token: SecretStr) -> None:
        value = token.get_secret_value()
        if not value.strip():
            raise ValueError("the token of a dashboard is not empty")
        self._digest = _digest(value)
        self._sessions: OrderedDict[bytes, float] = OrderedDict()
        self._wrong = WrongTokens()

    def __repr__(self) -> str:
        return f"<Logins {len(self._sessions)}>"

    async def login(self, token: str, address: str = "") -> str:
        """A new session's value, for a cookie; ``address`` is the client's.

        Raises:
            Problem: the token is wrong, or too many are being tried.
        """
        await self.check(token, address)
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = time.monotonic() + LIFETIME
        if len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        return value

    async def check(self, token: str, address: str = "") -> None:
        """Compare a token that a client at this address sent.

        Raises:
            Problem: it is wrong, or too many wrong ones came from there.
        """
        if self._wrong.full(address):
            raise Problem(
                429,
                "TOO_MANY_LOGINS",
                "too many wrong tokens come from this address",
                "try again in some seconds",
                headers={"Retry-After": "5"},
            )
        if hmac.compare_digest(_digest(token), self._digest):
            return
        await self._wrong.delay(address)
        raise Problem(401, "WRONG_TOKEN", "the token is not right", "ask the operator for it")

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
