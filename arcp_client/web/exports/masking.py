"""Masks the secrets in the events of a job before they are exported."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import TypeAdapter

from arcp_client import Event, JobHandle, events
from arcp_client import _digits as digits
from arcp_client._feeds import frames
from arcp_client.transcripts import Scrubber

__all__ = ["Masking", "masked"]

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_TEXTS = frozenset({events.Log, events.ResultChunk, events.Status, events.Thought})
"""Events without fractions, whose numbers every decoder reads alike."""


class Masking:
    """Masks the secrets in the events of one job, the credentials of its lease included.

    Args:
        job: the job.

    Attributes:
        scrubber: masks the secrets that are known so far.
    """

    def __init__(self, job: JobHandle) -> None:
        self._job = job
        self._values = [credential.value for credential in job.credentials.values()]
        self.scrubber = Scrubber(self._values)

    def __call__(self, event: Event) -> tuple[Event, dict[str, Any]]:
        """The event with its secrets masked, and its fields with the digits of their numbers."""
        if isinstance(event, events.Status):  # it may rotate a credential (§9.8)
            found = [each.value for each in self._job.credentials.values()]
            new = [value for value in found if value not in self._values]
            if new:
                self._values += new
                self.scrubber = Scrubber(self._values)
        return masked(event, self.scrubber)


def masked(event: Event, scrubber: Scrubber) -> tuple[Event, dict[str, Any]]:
    """The event with its secrets masked, and its fields with the digits of their numbers."""
    clean = frames.unmasked(event, scrubber) if type(event) in _TEXTS else None
    if clean is not None:
        return event, msgspec.json.decode(clean)
    fields = _well_formed(frames.decoded(frames.plain(event, scrubber)))
    values = digits.plain(fields)
    try:
        return _EVENT.validate_python(values), fields
    except ValueError:  # the mask does not fit the type of its field
        unknown = events.Unknown(
            kind=event.kind, id=event.id, ts=event.ts, job_id=event.job_id, body=values
        )
        return unknown, {"body": fields}


def _well_formed(value: Any) -> Any:
    """The value with a replacement for lone surrogates, which AG-UI's classes refuse."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_well_formed(each) for each in value]
    if isinstance(value, dict):
        return {_well_formed(name): _well_formed(each) for name, each in value.items()}
    return value
