"""The hot Observable without a client: what counts as processed, and who may observe (D4)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from arcp_client.rx import concat_map_async
from tests.unit.dispatch.kit import Hub, Tape, log, turns


async def test_a_drain_waits_for_every_operator() -> None:
    hub, one, two = Hub(), Tape(), Tape()
    for tape in (one, two):
        hub.notifications.pipe(concat_map_async(tape.handle)).subscribe()
    hub.publish(log(1), log(2))
    draining = [asyncio.create_task(hub.notifications.drained()) for _ in range(2)]
    draining[1].cancel()
    for tape, seq in ((one, 1), (one, 2), (two, 1)):
        tape.let_go(seq)
        await turns()
        assert not draining[0].done()
    two.let_go(2)
    await turns()
    assert draining[0].done()
    await hub.notifications.drained()


@pytest.mark.parametrize("on_next", [3, "on_next", object()])
async def test_an_observer_that_cannot_be_called_is_refused(on_next: Any) -> None:
    hub = Hub()
    with pytest.raises(TypeError, match="on_next"):
        hub.notifications.subscribe(cast(Any, on_next))
    hub.publish(log(1))
    assert hub.processed == 1
