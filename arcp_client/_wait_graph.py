"""Detects that a wait would close a cycle of waits, and so would never end.

The client's lanes (`_dispatch`) and the lanes of ACP sessions (`acp`) use it before a handler waits
for a lane that may wait for that handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["waits_for"]

T = TypeVar("T")


def waits_for(start: T, goal: T, waiting: Callable[[T], Iterable[T]]) -> bool:
    """Whether ``start`` is ``goal``, or waits for it directly or through others.

    Args:
        start: the first node.
        goal: the other node.
        waiting: the nodes that a node waits for.
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
