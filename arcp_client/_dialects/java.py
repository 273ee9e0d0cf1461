"""The Java runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._mixed_history import MixedHistory
from arcp_client._protocol.peer import Next
from arcp_client._wire.codec import BadFrame, EventFrame, fingerprint
from arcp_client._wire.messages import Request as Message
from arcp_client._wire.names import text_of

__all__ = ["Java"]

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_RANDOM_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Java(MixedHistory):
    """Its envelope ids are bare ULIDs, its resume token is a random UUID."""

    name: ClassVar[str] = "java"
    exact_sizes: ClassVar[bool] = False
    repeats_trace: ClassVar[bool] = False

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        token = text_of(welcome.get("resume_token")) or ""
        return bool(_ULID.fullmatch(envelope_id) and _RANDOM_UUID.fullmatch(token))

    def identities(self, frame: EventFrame | BadFrame) -> list[str]:
        # An event gets a new envelope id each time it is sent to a subscriber.
        marks = super().identities(frame)
        content = None if isinstance(frame, BadFrame) else fingerprint(frame)
        return marks if content is None or not marks else [*marks, content]

    def resume_refused(self) -> Next:
        return Next.AGAIN  # it is refused while the runtime believes in the old link

    def goodbye(self) -> Message | None:
        return None  # any message would cancel the jobs
