"""The Python runtime, ``agentruntimecontrolprotocol`` on PyPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from arcp_client._dialects._bound_jobs import BoundJobs
from arcp_client._dialects._stored_outcomes import StoredOutcomes
from arcp_client._dialects._uncorrelated import Uncorrelated
from arcp_client._dialects._unnumbered import Unnumbered
from arcp_client._protocol.peer import Incoming
from arcp_client._wire.messages import Bye
from arcp_client._wire.messages import Request as Message
from arcp_client._wire.names import text_of

__all__ = ["Python"]


class Python(StoredOutcomes, Unnumbered, Uncorrelated, BoundJobs):
    """Repeats the session id in the payload of its welcome.

    It ends a subscription neither with its link nor with its session, and it closes the link, or
    over stdio ends, on a frame that is too long for its reader.
    """

    name: ClassVar[str] = "python"
    exact_sizes: ClassVar[bool] = False
    numbers_apart: ClassVar[Literal["", "own", "submitter"]] = "own"
    renames: ClassVar[bool] = True
    keeps_dead_subscriptions: ClassVar[bool] = True
    overtaken_histories: ClassVar[bool] = True
    doubts_acceptances: ClassVar[bool] = False
    accepts_acks: ClassVar[bool] = False  # they free what histories of watchers need
    max_frame: ClassVar[int | None] = 2**20
    max_line: ClassVar[int | None] = 2**16

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        token = text_of(welcome.get("resume_token")) or ""
        return "session_id" in welcome and token.startswith("rtk_")

    def counts_apart(self, frame: Incoming) -> bool:
        return super().counts_apart(frame) and not self.is_stored(frame)

    def goodbye(self) -> Message | None:
        return Bye()

    @property
    def confirms_goodbye(self) -> bool:
        return False
