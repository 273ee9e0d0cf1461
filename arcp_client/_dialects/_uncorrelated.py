"""Sends one request at a time to runtimes whose refusals do not name their request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from arcp_client._dialects._dialect import Deviation
from arcp_client._protocol.peer import Peer
from arcp_client._protocol.pending import Request
from arcp_client._wire import names
from arcp_client._wire.messages import Message

__all__ = ["REFUSALS", "Uncorrelated"]

REFUSALS: Final = Deviation(
    "refusals",
    "§12",
    "an error does not name the request that it refuses",
    "sends one request at a time, except for pings",
)


class Uncorrelated(Peer):
    """A runtime whose refusals do not name their request. Its pongs do name their ping."""

    def sendable(self) -> list[Request]:
        waiting = self.view.pending.waiting()
        chosen = [request for request in waiting if request.kind == names.PING]
        if not self.view.pending.asked():
            chosen += [request for request in waiting if request.kind != names.PING][:1]
        return chosen

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        yield from super().outgoing(request, now)
        if request.kind == names.CANCEL:
            # The end of the job may be the only answer to a cancel. If a pong arrives before a
            # refusal, the runtime has accepted the cancel.
            self.view.barriers.set(lambda now: self.view.cancel_read(request, now), now)

    def refuses_submit(self, code: object) -> bool:
        return True  # no job ends before it was accepted
