"""Restores the numbers of a job's outcome exactly as the agent wrote them.

The client returns an outcome with ``int`` and ``float``, which may change digits; the event that
ended the job still has the original digits.

See rule W1 in docs/explanation/rules.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from arcp_client import ArcpError, Result, events
from arcp_client import _digits as digits
from arcp_client.errors import JobFailed

__all__ = ["exact_error", "exact_result"]


def exact_result(result: Result, end: events.Event | None) -> Result:
    """The result, with `Digits` for numbers of its value that ``float`` changed."""
    if not isinstance(end, events.Completed) or not _equal(end.value, result.value):
        return result
    return replace(result, value=digits.value_of(end, "value"))


def exact_error(error: ArcpError, end: events.Event | None) -> ArcpError:
    """The same error, with `Digits` for numbers of its details that ``float`` changed."""
    if isinstance(error, JobFailed) and isinstance(end, events.Failed):
        same = _equal(end.details, error.details)
        error.details = digits.value_of(end, "details") if same else error.details
    return error


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except RecursionError:  # nested too deeply to compare
        return False
