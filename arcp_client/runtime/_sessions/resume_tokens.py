"""Issues and checks the tokens that resume a session; stores only their hashes (§6.3)."""

from __future__ import annotations

import hashlib
import hmac

from arcp_client._wire.ids import new_secret

__all__ = ["ResumeTokens", "token_hash"]

_LATER = 2


class ResumeTokens:
    """The hashes of the tokens that resume one session.

    There is one, or a few while a welcome is not confirmed. The token rotates at every welcome
    (§6.3). The presented token stays valid beside the new one until the client sends its next
    frame, which proves that it read the welcome. So a connection that breaks in between does not
    lose the session. Tokens that were issued after the presented one stay valid, too: a resume of a
    lost connection may be handled after a later one, whose welcome the client has read.
    """

    def __init__(self, hashes: list[bytes] | None = None) -> None:
        self.hashes: list[bytes] = hashes or []

    def rotate(self, presented: str | None = None) -> str:
        """Issue a new token.

        The presented one, and at most two that were issued after it, stay valid until `settle`.
        """
        token = new_secret("rt")
        kept: list[bytes] = []
        if presented is not None:
            given = token_hash(presented)
            later = self.hashes[self.hashes.index(given) + 1 :] if given in self.hashes else []
            kept = [given, *later[-_LATER:]]
        self.hashes = [*kept, token_hash(token)]
        return token

    def withdraw(self, token: str) -> None:
        """Forget a token that was issued and not sent."""
        given = token_hash(token)
        if len(self.hashes) > 1 and given in self.hashes:
            self.hashes.remove(given)

    def settle(self, read: bytes) -> bool:
        """Let older tokens than one that the client has read expire; return whether any has.

        Args:
            read: the hash of the token.
        """
        if len(self.hashes) < 2 or read not in self.hashes[1:]:
            return False
        del self.hashes[: self.hashes.index(read)]
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
