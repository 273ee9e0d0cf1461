"""Detects that a wait would close a cycle of waits, and so would never end.

A handler that waits for a lane may deadlock, because the lane may wait for that handler. The client
(`_dispatch`) and ACP sessions (`acp`) check this before such a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["waits_for"]

T = TypeVar("T")


def waits_for(start: T, goal: T, waiting: Callable[[T], Iterable[T]]) -> bool:
    """Whether ``start`` is ``goal``, or waits for ``goal`` directly or through other nodes.

    Args:
        start: the first node.
        goal: the other node.
        waiting: returns the nodes that a node waits for.
    """
    seen: set[int] = set()
    left = [start]
    while left:
        node = left.pop()
        if node is goal:
            return True
        if id(node) not in seen:
            seen.add(id(node))
            left.extend(waiting(node))
    return False
