"""Maps bearer tokens to principals (§6.1)."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping

from arcp_client import _arguments as check
from arcp_client._wire.messages import Auth
from arcp_client.errors import Unauthenticated

__all__ = ["ANYBODY", "Authentication", "Authenticator", "Gate"]

_log = logging.getLogger("arcp_client.runtime")

ANYBODY = "anonymous"
"""The only principal of a runtime without authentication."""

Authenticator = Callable[[str], Awaitable[str | None]]
Authentication = Mapping[str, str] | Authenticator | None


class Gate:
    """Authenticates clients.

    Args:
        auth: ``None`` accepts every client; a mapping gives the principal of each token; an async
            callable receives the token and returns the principal, or ``None`` to refuse it.
    """

    def __init__(self, auth: Authentication) -> None:
        if isinstance(auth, Mapping):
            for token, principal in auth.items():
                check.an_instance("a token of auth", token, str, "a text", secret=True)
                check.a_text("a principal of auth", principal)
                if not token:
                    raise ValueError("auth maps non-empty tokens to principals")
        self._auth = auth

    @property
    def open(self) -> bool:
        """Whether every client is accepted."""
        return self._auth is None

    async def principal(self, auth: Auth) -> str:
        """Return the principal of a token.

        Raises:
            Unauthenticated: the token is missing or unknown.
        """
        if self._auth is None:
            return ANYBODY
        token = auth.token.get_secret_value()
        if auth.scheme != "bearer" or not token:
            raise Unauthenticated("a bearer token is required")
        if isinstance(self._auth, Mapping):
            name = self._look_up(self._auth, token)
        else:
            name = await self._auth(token)
        if not name:  # an empty principal is reserved for runtimes without authentication
            raise Unauthenticated("the token was refused")
        return name

    @staticmethod
    def _look_up(tokens: Mapping[str, str], token: str) -> str | None:
        # Compare with every entry, so that the time does not depend on which one matches.
        found = None
        given = token.encode("utf-8", "surrogatepass")
        for known, name in tokens.items():
            if hmac.compare_digest(known.encode("utf-8", "surrogatepass"), given):
                found = name
        return found
