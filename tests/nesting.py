"""Values nested to a given depth, and how deep this Python's C code follows them.

The limit is about 990 on Python 3.11, 1,500 on 3.12.1 and 10,000 on 3.13; 100,000 exceeds all.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def nested(depth: int, inner: Any = 1) -> Any:
    """``inner`` in ``depth`` lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


def too_deep() -> int:
    """The least depth that JSON cannot be written to here, whatever the caller's own depth is."""
    fits, exceeds = 1, 100_000
    while exceeds - fits > 1:
        depth = (fits + exceeds) // 2
        try:
            json.dumps(nested(depth))
            fits = depth
        except RecursionError:
            exceeds = depth
    return max(exceeds, sys.getrecursionlimit())


def near_the_limit() -> range:
    """Depths on both sides of the limit of this Python."""
    return range(too_deep() - 50, too_deep() + 10, 3)
