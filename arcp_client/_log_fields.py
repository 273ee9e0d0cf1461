"""Makes the fields of log records that name the session, the job and the event of a record."""

from __future__ import annotations

from typing import Any

__all__ = ["log_fields"]

_LONGEST = 128
"""Limit of characters, because peers choose some of the ids."""


def log_fields(
    *, session: str | None = None, job: str | None = None, seq: int | None = None
) -> dict[str, Any]:
    """Make the ``extra`` of a log call: the attributes `session`, `job` and `seq` of its record.

    A field that is not known is left out. ``logging.Formatter(defaults=…)`` fills it in.

    Args:
        session: the id of the session.
        job: the id of the job.
        seq: the ``event_seq`` of the event; that of the first one, if the record is about several.
    """
    fields: dict[str, Any] = {}
    if session:
        fields["session"] = session[:_LONGEST]
    if job:
        fields["job"] = job[:_LONGEST]
    if seq is not None:
        fields["seq"] = seq
    return fields
