"""Issues and checks the tokens that resume a session; keeps their hashes only (§6.3)."""

from __future__ import annotations

import hashlib
import hmac

from arcp_client._wire.ids import new_secret

__all__ = ["ResumeTokens"]


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
