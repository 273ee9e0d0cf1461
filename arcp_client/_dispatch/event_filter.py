"""Builds event filters from the kinds that users name."""

from __future__ import annotations

from arcp_client.events import KINDS, Event, Unknown

__all__ = ["EventFilter", "Kind"]

Kind = type[Event] | str
"""An event class, or the name of a vendor kind, which arrives as `Unknown`."""


class EventFilter:
    """Which events a consumer wants.

    Args:
        kinds: event classes and names of vendor kinds; none means every event.
        job_id: only the events of this job.

    Raises:
        TypeError: something that is neither, or a name of a kind that has a class.
    """

    def __init__(self, kinds: tuple[Kind, ...] = (), job_id: str | None = None) -> None:
        classes: list[type[Event]] = []
        names: set[str] = set()
        for kind in kinds:
            if isinstance(kind, type):
                if not issubclass(kind, Event):
                    raise TypeError(f"a kind is an event class, and {kind.__name__} is none")
                classes.append(kind)
            elif kind and isinstance(kind, str):
                known = KINDS.get(kind)
                if known is not None:
                    raise TypeError(f"use events.{known.__name__} for the kind {kind!r}")
                names.add(kind)
            else:
                raise TypeError(
                    f"a kind is an event class or the name of a vendor kind, not {kind!r}"
                )
        self._classes = tuple(classes) if kinds else (Event,)
        self._names = frozenset(names)
        self.job_id = job_id
        self.by_class: dict[type[Event], bool] = _ByClass(self)

    def admits(self, cls: type[Event]) -> bool:
        """Whether events of this class can match at all."""
        return issubclass(cls, self._classes) or (bool(self._names) and issubclass(cls, Unknown))

    @property
    def everything(self) -> bool:
        """Whether every event is wanted."""
        return self.exact and Event in self._classes

    @property
    def exact(self) -> bool:
        """Whether the class of an event decides alone."""
        return self.job_id is None and not self._names

    def matches(self, event: Event) -> bool:
        """Whether this event is wanted."""
        if self.job_id is not None and event.job_id != self.job_id:
            return False
        return isinstance(event, self._classes) or (
            isinstance(event, Unknown) and event.kind in self._names
        )


class _ByClass(dict[type[Event], bool]):
    """Whether events of a class can match, worked out once a class."""

    def __init__(self, event_filter: EventFilter) -> None:
        super().__init__()
        self._event_filter = event_filter

    def __missing__(self, cls: type[Event]) -> bool:
        admitted = self[cls] = self._event_filter.admits(cls)
        return admitted
