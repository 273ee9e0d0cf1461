"""Selects events by class, vendor kind and job."""

from __future__ import annotations

from arcp_client.events import KINDS, Event, Unknown

__all__ = ["EventFilter", "Kind"]

Kind = type[Event] | str
"""An event class, or the name of a vendor kind, which arrives as `Unknown`."""


class EventFilter:
    """A filter on the kinds and the job of events.

    Args:
        kinds: event classes and names of vendor kinds; empty for every event.
        job_id: only the events of this job.

    Raises:
        TypeError: a kind is neither an event class nor a name, or is the name of a kind that has an
            event class.
    """

    def __init__(self, kinds: tuple[Kind, ...] = (), job_id: str | None = None) -> None:
        classes: list[type[Event]] = []
        names: set[str] = set()
        for kind in kinds:
            if isinstance(kind, type):
                if not issubclass(kind, Event):
                    raise TypeError(f"a kind must be an event class, and {kind.__name__} is not")
                classes.append(kind)
            elif kind and isinstance(kind, str):
                known = KINDS.get(kind)
                if known is not None:
                    raise TypeError(f"use events.{known.__name__} for the kind {kind!r}")
                names.add(kind)
            else:
                raise TypeError(
                    f"a kind must be an event class or the name of a vendor kind, not {kind!r}"
                )
        self._classes = tuple(classes) if kinds else (Event,)
        self._names = frozenset(names)
        self.job_id = job_id
        self.by_class: dict[type[Event], bool] = _ByClass(self)

    def admits(self, cls: type[Event]) -> bool:
        """Whether events of this class can match."""
        return issubclass(cls, self._classes) or (bool(self._names) and issubclass(cls, Unknown))

    @property
    def everything(self) -> bool:
        """Whether every event matches."""
        return self.exact and Event in self._classes

    @property
    def exact(self) -> bool:
        """Whether the class of an event alone decides if the event matches."""
        return self.job_id is None and not self._names

    def matches(self, event: Event) -> bool:
        """Whether this event matches."""
        if self.job_id is not None and event.job_id != self.job_id:
            return False
        return isinstance(event, self._classes) or (
            isinstance(event, Unknown) and event.kind in self._names
        )


class _ByClass(dict[type[Event], bool]):
    """Caches for each class whether its events can match."""

    def __init__(self, event_filter: EventFilter) -> None:
        self._event_filter = event_filter

    def __missing__(self, cls: type[Event]) -> bool:
        admitted = self[cls] = self._event_filter.admits(cls)
        return admitted
