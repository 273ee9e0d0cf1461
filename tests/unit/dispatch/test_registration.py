"""The end of a registration."""

from __future__ import annotations

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.registration import HandlerRegistration
from arcp_client.events import Event
from tests.unit.dispatch.kit import Hub


async def test_a_registration_ends_once_however_often_it_is_disposed_of() -> None:
    """Its name may belong to a later registration by then."""
    ended: list[HandlerRegistration] = []

    def handler(event: Event) -> None: ...

    registration = HandlerRegistration(
        handler,
        EventFilter(),
        barrier=True,
        gate=Hub().back_pressure,
        failed=lambda registration, event, error: None,
        ended=ended.append,
    )
    registration.dispose()
    registration.dispose()
    assert ended == [registration]
