"""The end of a registration."""

from __future__ import annotations

import asyncio
from typing import Any

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


def drains() -> list[asyncio.Task[Any]]:
    """The tasks that call handlers."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("arcp_client.rx")]


async def test_one_task_calls_the_handler_for_events_that_come_one_by_one() -> None:
    """To start a task takes longer than most handlers."""
    hub, tasks = Hub(), []
    registration = hub.subscribe(lambda event: tasks.append(asyncio.current_task()))
    for seq in range(1, 5):
        hub.publish(log(seq))
        await turns()
    assert len(set(tasks)) == 1
    assert len(tasks) == 4
    assert drains() == tasks[:1]
    registration.dispose()
    await turns()
    assert drains() == []


@pytest.mark.parametrize("soon", [True, False])
async def test_a_task_that_is_cancelled_while_it_has_no_event_is_replaced(soon: bool) -> None:
    """A shutdown of the loop cancels all tasks; no handler was interrupted."""
    hub, tape = Hub(), Tape()
    hub.subscribe(tape.free)
    hub.publish(log(1))
    await turns()
    (first,) = drains()
    first.cancel()
    if not soon:
        await turns()
        assert drains() == []
    hub.publish(log(2))
    hub.publish(log(3))
    await turns()
    (second,) = drains()
    assert second is not first
    assert not first.cancelled()
    assert tape.ends == [1, 2, 3]
    hub.publish(log(4))
    await turns()
    assert drains() == [second]


async def test_a_task_that_is_cancelled_before_it_gets_its_event_ends_the_registration() -> None:
    """As if its handler had been interrupted: the event stays unprocessed."""
    hub, tape = Hub(), Tape()
    hub.subscribe(tape.free)
    hub.publish(log(1))
    await turns()
    (task,) = drains()
    hub.publish(log(2))
    task.cancel()
    await turns()
    assert task.cancelled()
    assert tape.ends == [1]
    assert drains() == []


async def test_a_registration_that_is_frozen_before_its_first_event_calls_no_handler() -> None:
    hub, tape = Hub(), Tape()
    registration = hub.subscribe(tape.free)
    assert isinstance(registration, HandlerRegistration)
    registration.freeze()
    hub.publish(log(1))
    await turns()
    assert tape.starts == []
    assert registration.lag == 1
    assert drains() == []


async def test_a_handler_that_closes_its_client_leaves_no_task_behind() -> None:
    hub = Hub()

    async def handle(event: Event) -> None:
        assert hub.exempt_caller() is not None
        if event.seq == 1:
            hub.close()

    hub.subscribe(handle)
    hub.publish(log(1))
    await turns()
    assert drains() == []


async def test_a_handler_whose_call_has_ended_before_its_client_leaves_no_task_behind() -> None:
    hub = Hub()

    async def handle(event: Event) -> None:
        assert hub.exempt_caller() is not None

    hub.subscribe(handle)
    hub.publish(log(1))
    await turns()
    assert len(drains()) == 1
    hub.close()
    await turns()
    assert drains() == []
