"""The result of one prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arcp_client.acp import schema

__all__ = ["Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one prompt.

    Attributes:
        stop_reason: as the agent reports it: ``end_turn``, ``max_tokens``, ``max_turn_requests``,
            ``refusal``, ``cancelled``, or any other value.
        cancel_requested: whether this client requested the cancellation, whatever the agent
            reports.
        usage: tokens of the turn, if the agent reports them (an unstable part of ACP).
        number: the number of the prompt in the session, from 1; equals ``turn`` of its updates.
        meta: the agent's ``_meta``.
    """

    stop_reason: str
    cancel_requested: bool
    usage: schema.Usage | None
    number: int
    meta: dict[str, Any] | None = None
