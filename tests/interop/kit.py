"""What the tests against other implementations share."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from tenacity import wait_none

from arcp_client import events
from arcp_client.events import Event

__all__ = ["AT_ONCE", "all_of", "kinds"]

AT_ONCE = wait_none()
"""Reconnect without a delay."""


async def all_of(items: AsyncIterable[Any]) -> list[Any]:
    """Everything that an iteration gives until it ends."""
    return [item async for item in items]


def kinds(seen: list[Event]) -> list[str]:
    """The kinds of some events."""
    return [event.kind for event in seen]


def numbers(seen: list[Event]) -> list[float]:
    """The numbers of the progress events among some events."""
    return [event.current for event in seen if isinstance(event, events.Progress)]
