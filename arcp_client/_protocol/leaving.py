"""Jobs that are watched no longer in, the same until their runtime has read so (§7.6).

There is no answer to `job.unsubscribe`, and the link may be gone when it is said. So it is said on
every link until the answer to a ping behind it comes. Until then the job's events still come, which
nobody wants; and it cannot be watched anew, since those would be taken for the new ones.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOST", "Leaving"]

MOST: Final = 256
"""How many jobs are remembered."""


class Leaving:
    """The jobs of one session that are being left.

    Attributes:
        marks: each with the ping behind what was said; looked at for each event, so a plain dict.
    """

    def __init__(self) -> None:
        self.marks: Final[dict[str, str | None]] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self.marks

    def add(self, job_id: str) -> None:
        """It is watched no longer; nothing was said yet."""
        self.marks.pop(job_id, None)
        self.marks[job_id] = None
        if len(self.marks) > MOST:
            del self.marks[next(iter(self.marks))]

    @property
    def unsaid(self) -> list[str]:
        """What the runtime is to be told."""
        return [job_id for job_id, mark in self.marks.items() if mark is None]

    def said(self, job_ids: list[str], mark: str | None) -> None:
        """It was told; the pong that names this mark says that it has read it.

        Without a mark nobody will ever know, and it is taken to have.
        """
        for job_id in job_ids:
            if mark is None:
                del self.marks[job_id]
            else:
                self.marks[job_id] = mark

    def awaits(self, mark: object) -> bool:
        """Whether a pong says so: then it must not overtake what came before it."""
        return isinstance(mark, str) and mark in self.marks.values()

    def read(self, mark: object) -> bool:
        """A pong came; whether it was one of these. One that names no mark may be any."""
        done = [
            job_id for job_id, of in self.marks.items() if of is not None and mark in (of, None, "")
        ]
        for job_id in done:
            del self.marks[job_id]
        return bool(done) and bool(mark)

    def lost(self) -> None:
        """The link is gone: nobody knows what was read."""
        self.marks.update(dict.fromkeys(self.marks))

    def clear(self) -> None:
        """A new session: there are no subscriptions in it."""
        self.marks.clear()
