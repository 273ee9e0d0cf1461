"""The result of one prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arcp_client.acp import schema

__all__ = ["Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """How one prompt ended.

    Attributes:
        stop_reason: the agent's word: ``end_turn``, ``max_tokens``, ``max_turn_requests``,
            ``refusal``, ``cancelled``, or any other, as it came.
        cancel_requested: this client asked for the end, whatever the agent reports.
        usage: tokens of the turn, if the agent reports them (unstable).
        number: which prompt of the session it was, counted from 1; the ``turn`` of its updates.
        meta: the agent's ``_meta``.
    """

    stop_reason: str
    cancel_requested: bool
    usage: schema.Usage | None
    number: int
    meta: dict[str, Any] | None = None
