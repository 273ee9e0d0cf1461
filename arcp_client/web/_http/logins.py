"""Checks the token of a dashboard and keeps the sessions of browsers that have logged in.

Tokens are compared in constant time, and the answer to a wrong token is delayed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict

from pydantic import SecretStr

from arcp_client._security import WrongTokens
from arcp_client.web._http.problems import Problem

__all__ = ["LIFETIME", "Logins"]

LIFETIME = 12 * 3600.0
"""Seconds for which a login is valid."""
_MOST = 256


class Logins:
    """The token of a dashboard and the sessions that were opened with it.

    A browser stores a random session id in a cookie, and never the token. The server keeps only a
    digest of the id. Answers to wrong tokens are delayed by address (`WrongTokens`).

    Args:
        token: the token that users log in with.
    """

    def __init__(self, token: SecretStr) -> None:
        value = token.get_secret_value()
        if not value.strip():
            raise ValueError("the token of a dashboard must not be empty")
        self._digest = _digest(value)
        self._sessions: OrderedDict[bytes, float] = OrderedDict()
        self._wrong = WrongTokens()

    def __repr__(self) -> str:
        return f"<Logins {len(self._sessions)}>"

    async def login(self, token: str, address: str = "") -> str:
        """Open a session and return its id, for a cookie; ``address`` is the client's.

        Raises:
            Problem: the token is wrong, or the address has sent too many wrong ones.
        """
        await self.check(token, address)
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = time.monotonic() + LIFETIME
        if len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        return value

    async def check(self, token: str, address: str = "") -> None:
        """Check a token that a client at this address sent.

        Raises:
            Problem: the token is wrong, or the address has sent too many wrong ones.
        """
        if self._wrong.full(address):
            raise Problem(
                429,
                "TOO_MANY_LOGINS",
                "this address has sent too many wrong tokens",
                "try again in some seconds",
                headers={"Retry-After": "5"},
            )
        if hmac.compare_digest(_digest(token), self._digest):
            return
        await self._wrong.delay(address)
        raise Problem(401, "WRONG_TOKEN", "the token is wrong", "ask the operator for the token")

    def knows(self, value: str | None) -> bool:
        """Whether the value of a cookie is the id of a valid session."""
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
