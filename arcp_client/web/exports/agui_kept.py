"""Keeps the newest events of the runs of one job, within a number of bytes, for any reader.

An event of the job is kept as what it became in its run. A message, which depends on nothing else,
is kept as it was received (`Unencoded`), until a front end reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ag_ui.core import BaseEvent, RunFinishedEvent, RunStartedEvent

from arcp_client._feeds.kept_events import Unencoded

__all__ = ["KeptRuns", "Made", "RunPlace"]

MEMORY = 1 << 20
"""Bytes of events that are kept for each job."""
_FIELDS = 128
"""Bytes that the JSON of an event of a run has besides its values, about."""
_CURSOR = re.compile(r"([0-9A-Za-z_.:-]{1,80}|~)-([0-9]{1,15})\.([0-9]{1,9})", re.ASCII)


class RunPlace(NamedTuple):
    """A place in the runs.

    Attributes:
        n: the number of an event of the job.
        k: the ordinal of an AG-UI event among those that it became.
    """

    n: int
    k: int


class Made:
    """The AG-UI events that one event of the job became.

    Args:
        mark: the id of the event of the job, if it fits a header of HTTP; else ``~``.
        events: the AG-UI events.
        size: the bytes of the event of the job.
    """

    def __init__(self, mark: str, events: Sequence[BaseEvent], size: int) -> None:
        self.mark = mark
        self.events = events
        self.size = size + _FIELDS
        self._encoded: dict[int, bytes] = {}

    def cursor(self, n: int, k: int) -> str:
        """The id of one of them in the stream; ``n`` is the number of the event of the job."""
        return f"{self.mark}-{n}.{k}"

    def data(self, k: int, encode: Callable[[BaseEvent], bytes]) -> bytes:
        """One of them as JSON. The first and the last event of a run have the ids of the reader."""
        event = self.events[k]
        if isinstance(event, RunStartedEvent | RunFinishedEvent):
            return encode(event)
        found = self._encoded.get(k)
        if found is None:
            found = self._encoded[k] = encode(event)
        return found


class KeptRuns:
    """The newest events of a job, numbered from 0, with what they became; at most `MEMORY` bytes.

    Args:
        make: returns what an event of the job became that is kept as it was received.

    Attributes:
        first: the number of the oldest event that is kept.
        size: about how many bytes they have.
    """

    def __init__(self, make: Callable[[int, Unencoded], Made]) -> None:
        self._make = make
        self._kept: list[Made | Unencoded] = []
        self.first = 0
        self.size = 0

    def append(self, made: Made | Unencoded) -> None:
        """Add the next event of the job; the newest one is kept in any case."""
        self._kept.append(made)
        self.size += _size(made)
        if self.size > MEMORY:
            self._forget()

    def _forget(self) -> None:
        """Drop an eighth of the memory at once, as removing from the head of a list is slow."""
        dropped = 0
        while self.size > MEMORY * 7 // 8 and dropped < len(self._kept) - 1:
            self.size -= _size(self._kept[dropped])
            dropped += 1
        del self._kept[:dropped]
        self.first += dropped

    def made(self, n: int) -> Made:
        """What the event of the job with this number became; it must be kept."""
        made = self._kept[n - self.first]
        if isinstance(made, Unencoded):
            made = self._kept[n - self.first] = self._make(n, made)
        return made

    def find(self, cursor: str) -> RunPlace | None:
        """The place of the AG-UI event that has this id in the stream, if it is kept."""
        found = _CURSOR.fullmatch(cursor)
        if found is None:
            return None
        mark, n, k = found[1], int(found[2]), int(found[3])
        if not self.first <= n < self.first + len(self._kept):
            return None
        made = self.made(n)
        return RunPlace(n, k) if made.mark == mark and k < len(made.events) else None


def _size(made: Made | Unencoded) -> int:
    return made.size if isinstance(made, Made) else len(made.envelope) + _FIELDS
