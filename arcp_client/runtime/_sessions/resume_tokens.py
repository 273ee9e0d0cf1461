"""Issues and checks the tokens that resume a session; stores only their hashes (§6.3)."""

from __future__ import annotations

import hashlib
import hmac

from arcp_client._wire.ids import new_secret

__all__ = ["ResumeTokens", "token_hash"]


class ResumeTokens:
    """The hashes of the tokens that resume one session.

    There is one, or two while a welcome is not confirmed. The token rotates at every welcome
    (§6.3). The presented token stays valid beside the new one until the client sends its next
    frame, which proves that it read the welcome. So a connection that breaks in between does not
    lose the session.
    """

    def __init__(self, hashes: list[bytes] | None = None) -> None:
        self.hashes: list[bytes] = hashes or []

    def rotate(self, presented: str | None = None) -> str:
        """Issue a new token. The presented one stays valid until `settle`; all others expire."""
        token = new_secret("rt")
        kept = [] if presented is None else [token_hash(presented)]
        self.hashes = [*kept, token_hash(token)]
        return token

    def settle(self) -> bool:
        """Let only the newest token be valid; return whether that changed anything."""
        if len(self.hashes) < 2:
            return False
        del self.hashes[:-1]
        return True

    def valid(self, token: str) -> bool:
        """Whether the token resumes the session. Takes constant time."""
        given = token_hash(token)
        found = False
        for known in self.hashes:
            found |= hmac.compare_digest(known, given)
        return found


def token_hash(token: str) -> bytes:
    """Return the hash under which a token is stored."""
    # Tokens have 256 random bits, so a fast hash is as safe as a slow one.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
