"""The end of a registration."""

from __future__ import annotations

import pytest

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.registration import HandlerRegistration
from arcp_client.errors import LocalProtocolError
from arcp_client.events import Event
from tests.unit.dispatch.kit import Hub, Tape, log, turns


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


async def test_a_registration_that_is_disposed_of_in_another_loop_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub, tape = Hub(), Tape()
    registration = hub.subscribe(tape.free)

    def refuse() -> None:
        raise LocalProtocolError("another loop")

    with monkeypatch.context() as patched:
        patched.setattr(hub.back_pressure, "check_loop", refuse)
        with pytest.raises(LocalProtocolError, match="another loop"):
            registration.dispose()
    hub.publish(log(1))
    await turns()
    assert tape.ends == [1]
    registration.dispose()
    hub.publish(log(2))
    await turns()
    assert tape.ends == [1]
