"""A bearer token in, a principal out; resume tokens, of which only hashes are kept (§6.1, §6.3)."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping

from arcp_client import _arguments as check
from arcp_client._wire.ids import new_secret
from arcp_client._wire.messages import Auth
from arcp_client.errors import Unauthenticated

__all__ = ["ANYBODY", "Authentication", "Authenticator", "Gate", "ResumeTokens"]

_log = logging.getLogger("arcp_client.runtime")

ANYBODY = "anonymous"
"""The one principal of a runtime that asks for no token."""

Authenticator = Callable[[str], Awaitable[str | None]]
Authentication = Mapping[str, str] | Authenticator | None


class Gate:
    """Knows who may come in.

    Args:
        auth: ``None`` lets anybody in; a mapping names the principal of each token; an async
            callable is given the token and returns the principal, or ``None`` to refuse it.
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
        """Whether anybody may come in."""
        return self._auth is None

    async def principal(self, auth: Auth) -> str:
        """Who presents the token.

        Raises:
            Unauthenticated: nobody known does.
        """
        if self._auth is None:
            return ANYBODY
        token = auth.token.get_secret_value()
        if auth.scheme != "bearer" or not token:
            raise Unauthenticated("a bearer token is needed")
        if isinstance(self._auth, Mapping):
            name = self._look_up(self._auth, token)
        else:
            name = await self._auth(token)
        if not name:  # an empty principal would be everybody's
            raise Unauthenticated("the token was refused")
        return name

    @staticmethod
    def _look_up(tokens: Mapping[str, str], token: str) -> str | None:
        # Every entry is looked at, so that the time does not depend on which one fits.
        found = None
        given = token.encode("utf-8", "surrogatepass")
        for known, name in tokens.items():
            if hmac.compare_digest(known.encode("utf-8", "surrogatepass"), given):
                found = name
        return found


class ResumeTokens:
    """The tokens that resume one session, as hashes: one, or two while a welcome may be lost.

    A token rotates at every welcome (§6.3). Until the client has shown that it read the welcome,
    by sending anything after it, the token it presented stays valid beside the new one: a
    connection that breaks just then must not cost the session.
    """

    def __init__(self, hashes: list[bytes] | None = None) -> None:
        self.hashes: list[bytes] = hashes or []

    def rotate(self, presented: str | None = None) -> str:
        """A new token. The presented one stays valid until `settle`; all others end."""
        token = new_secret("rt")
        kept = [] if presented is None else [_hash(presented)]
        self.hashes = [*kept, _hash(token)]
        return token

    def settle(self) -> bool:
        """Only the newest token is valid from now on; whether that changed anything."""
        if len(self.hashes) < 2:
            return False
        del self.hashes[:-1]
        return True

    def valid(self, token: str) -> bool:
        """Whether the token resumes the session. Takes the same time whatever the answer."""
        given = _hash(token)
        found = False
        for known in self.hashes:
            found |= hmac.compare_digest(known, given)
        return found


def _hash(token: str) -> bytes:
    # Tokens are 256 random bits, so a plain hash is as good as a slow one.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
