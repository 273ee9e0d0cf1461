"""A runtime that is not recognised: it is taken at the specification's word."""

from __future__ import annotations

from arcp_client._protocol.peer import Peer

__all__ = ["Unspecified"]

Unspecified = Peer
"""Its frames may overtake one another for half a second, as far as is known."""
