"""Rewrites the lease of a submit for runtimes whose leases name capabilities, without patterns."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arcp_client._protocol.peer import Peer
from arcp_client._protocol.pending import Request
from arcp_client._wire.leases import flattened
from arcp_client._wire.messages import Message

__all__ = ["LeaseNames"]


class LeaseNames(Peer):
    """A runtime that knows names of capabilities where the specification has patterns."""

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        if isinstance(request.payload, msgspec.Raw):
            request.payload = flattened(request.payload)
        yield from super().outgoing(request, now)
