"""Which events a filter selects."""

from __future__ import annotations

import pytest

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client.events import Event, Log, Progress, Unknown


def unknown(kind: str, job_id: str = "job_1") -> Unknown:
    return Unknown(kind=kind, job_id=job_id)


@pytest.mark.parametrize(
    ("kinds", "event", "matches"),
    [
        ((), Log(job_id="job_1"), True),
        ((Log,), Log(job_id="job_1"), True),
        ((Log,), Progress(job_id="job_1"), False),
        (("x-vendor.a",), unknown("x-vendor.a"), True),
        (("x-vendor.a",), unknown("x-vendor.b"), False),
        (("x-vendor.a",), Log(job_id="job_1"), False),
        ((Log, "x-vendor.a"), Log(job_id="job_1"), True),
        ((Log, "x-vendor.a"), unknown("x-vendor.b"), False),
        ((Unknown,), unknown("x-vendor.b"), True),
    ],
)
def test_a_filter_selects_by_class_and_by_the_name_of_a_vendor_kind(
    kinds: tuple[type[Event] | str, ...], event: Event, matches: bool
) -> None:
    assert EventFilter(kinds).matches(event) is matches
    assert EventFilter(kinds, "job_1").matches(event) is matches
    assert EventFilter(kinds, "job_2").matches(event) is False
