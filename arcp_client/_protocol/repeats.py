"""Frames in, "this came before" out, where the number does not tell: histories bring copies (§7.6).

Where numbers are true, a copy is known by its envelope id among those of its job's events that were
delivered. Where they are not, by its envelope id among all that came. If the runtime renames what
it sends again, a copy is known by its content, which has a time in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from arcp_client._protocol.sequence import Copies, TolerantSequence
from arcp_client._wire.codec import BadFrame, ControlFrame, EventFrame, fingerprint

__all__ = ["Repeats"]

REMEMBERED: Final = 65536
"""Envelope ids, and contents, remembered of one job."""
LATER: Final = 4 * REMEMBERED
"""How many are remembered of all jobs that have ended and are told again."""
LATER_JOBS: Final = 256
"""How many such jobs there are."""


class Repeats:
    """What a session remembers of events that may come again.

    Attributes:
        tolerant: the present order, where numbers cannot be trusted; it knows every envelope id.
        ids: envelope ids by job, where every event of the job must be looked at; also of one that
            has ended, as long as another history of it may come.
        found: how many repeats were found by these.
    """

    def __init__(self) -> None:
        self.tolerant: TolerantSequence[Any] | None = None
        self.found = 0
        self._copies: Copies | None = None
        self._by_content = False
        self._to_come: dict[str, int] = {}
        self._asked: set[str] = set()
        self._later: OrderedDict[str, None] = OrderedDict()
        self.ids: Final[dict[str | None, OrderedDict[str, None]]] = {}

    def restore(self, job_id: str, ids: Iterable[str]) -> None:
        """These events of an open job were processed in an earlier life of the client.

        The job is remembered even if there are none: that life may have subscribed to it.
        """
        self.ids[job_id] = OrderedDict.fromkeys(ids)

    def remembers(self, job_id: str) -> bool:
        """Whether events of the job may come again under numbers that do not show it."""
        return self.tolerant is not None or job_id in self.ids

    def begun(self, *, renamed: bool, resumed: bool) -> None:
        """A session opened or went on; ``renamed``: copies come under other ids.

        A history that was on its way when the link was lost may come with a resume.
        """
        if self.tolerant is not None:
            for job_id in [job_id for job_id in self.ids if job_id not in self._later]:
                self.tolerant.seen |= dict.fromkeys((job_id, id) for id in self.ids.pop(job_id))
        self._by_content = renamed and self.tolerant is None
        if renamed and self.tolerant is not None and self._copies is None:
            self._copies = Copies()
        elif resumed and self._copies is not None:
            self._copies.resumed()

    def remember(self, job_id: str) -> None:
        """A history of the job may come: from now on its events are known by their ids."""
        if self.tolerant is None:
            self.ids.setdefault(job_id, OrderedDict())

    def opened(self, job_id: str, *, history: bool) -> None:
        """A subscription is asked for."""
        self.remember(job_id)
        if not history:
            return
        if job_id in self.ids or self._copies is not None:
            self._asked.add(job_id)
            self._to_come[job_id] = self._to_come.get(job_id, 0) + 1
        if self._copies is not None:
            self._copies.opened(job_id)

    def closed(self, job_id: str) -> None:
        """A subscription was confirmed or refused: no history is on its way."""
        self._asked.discard(job_id)
        if job_id in self._later and not self._to_come.get(job_id):
            self.forget(job_id)
        if self._copies is not None:
            self._copies.closed(job_id)

    def restarted(self) -> None:
        """A new session: no history that was asked for in the one before comes in it."""
        self._to_come.clear()
        self._asked.clear()
        if self._copies is not None:
            self._copies.closed()

    def may_come(self, job_id: str) -> bool:
        """Whether a history of the job that was asked for has not come to its end."""
        return job_id in self._to_come or job_id in self._later

    def ended(self, job_id: str) -> None:
        """The end of a job came, for the first time or once more: one history less is to come.

        A subscription whose answer was lost is sent again, and both may be answered with all of
        the job: the first time by the replay, and the second time nothing of it is new.
        """
        to_come = self._to_come.get(job_id, 0) - 1
        if to_come <= 0 and job_id not in self._asked:
            self.forget(job_id)
            return
        self._to_come[job_id] = max(0, to_come)
        self._later[job_id] = None
        while len(self._later) > 1 and (
            len(self._later) > LATER_JOBS or sum(map(self._size, self._later)) > LATER
        ):
            self.forget(next(iter(self._later)))

    def _size(self, job_id: str) -> int:
        copies = self._copies.size(job_id) if self._copies is not None else 0
        return len(self.ids.get(job_id, ())) + copies

    def forget(self, job_id: str) -> None:
        """Nothing more comes of a job, or it is to be told anew."""
        self._later.pop(job_id, None)
        self._to_come.pop(job_id, None)
        self._asked.discard(job_id)
        self.ids.pop(job_id, None)
        if self._copies is not None:
            self._copies.forget(job_id)

    def delivered(self, frame: EventFrame | BadFrame) -> bool:
        """Whether an event of a job that is remembered was delivered before; else it is now."""
        known = self.ids.get(frame.job_id)
        if known is None or not frame.id:
            return False
        marks = [frame.id]
        if self._by_content and not isinstance(frame, BadFrame):
            content = fingerprint(frame)
            marks += [content] if content is not None else []
        again = not known.keys().isdisjoint(marks)
        self.found += again
        known.update(dict.fromkeys(marks))
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return again

    def came(self, frame: EventFrame | ControlFrame | BadFrame, cursor: int) -> bool:
        """Whether a frame came before, where numbers are not to be trusted; it is remembered.

        Never for terminals: one runtime sends a stored one again under its old id, on request.
        """
        if self.tolerant is None or isinstance(frame, ControlFrame):
            return False
        if self.tolerant.is_repeat(frame.job_id, frame.id):
            return True
        if isinstance(frame, BadFrame):
            # Without an id there is only the number to go by: better than a gap at every replay.
            seq = frame.event_seq
            return not frame.id and seq is not None and seq <= cursor
        if self._copies is None or frame.job_id is None:
            return False
        content = fingerprint(frame)
        return content is not None and self._copies.came(frame.job_id, content)
