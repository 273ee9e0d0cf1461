"""A gap that no consumer takes is logged as a WARNING (S4)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import operators as ops

from arcp_client import Order, events
from arcp_client._dispatch.event_filter import EventFilter
from arcp_client.rx import concat_map_async
from tests.unit.dispatch.kit import SESSION, Hub, gap, log, turns
from tests.unit.dispatch.test_streams import Streams, done


def of_job(seq: int, job: str = "job_1") -> events.Gap:
    return events.Gap(seq=seq, session_id=SESSION, job_id=job, first=seq, last=seq)


async def ignore(_: Any) -> None: ...


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and "are missing" in record.getMessage()
    ]


def forgotten(hub: Hub) -> None:
    hub.events()
    gc.collect()


BLIND: dict[str, Callable[[Hub], Any]] = {
    "nothing": lambda hub: None,
    "on Log": lambda hub: hub.on(events.Log)(ignore),
    "subscribe Log": lambda hub: hub.subscribe(ignore, events.Log),
    "on Log, by job": lambda hub: hub.on(events.Log, order=Order.JOB)(ignore),
    "on a vendor's kind": lambda hub: hub.on("x-vendor.kind")(ignore),
    "on Gap of another job": lambda hub: hub.on(events.Gap, job="job_2")(ignore),
    "a disposed one": lambda hub: hub.subscribe(ignore, events.Gap).dispose(),
    "a frozen one": lambda hub: hub.subscribe(ignore, events.Gap).freeze(),  # type: ignore[attr-defined]
    "an iterator that is gone": forgotten,
    "an observer that has left": lambda hub: hub.notifications.subscribe(print).dispose(),
}
SEEING: dict[str, Callable[[Hub], Any]] = {
    "on everything": lambda hub: hub.on()(ignore),
    "on Event": lambda hub: hub.on(events.Event)(ignore),
    "on Gap": lambda hub: hub.on(events.Gap)(ignore),
    "on Log and Gap": lambda hub: hub.on(events.Log, events.Gap)(ignore),
    "on Gap of the job": lambda hub: hub.on(events.Gap, job="job_1")(ignore),
    "subscribe": lambda hub: hub.subscribe(ignore, events.Gap, order=Order.JOB),
    "an iterator": lambda hub: hub.events(),
    "an iterator over Log": lambda hub: hub.events(events.Log),
    "an observer": lambda hub: hub.notifications.subscribe(lambda _: None),
    "an operator": lambda hub: hub.notifications.pipe(
        ops.filter(lambda event: True), concat_map_async(ignore)
    ).subscribe(),
}


@pytest.mark.parametrize("consumer", BLIND.values(), ids=BLIND)
async def test_s4_a_gap_that_no_consumer_takes_is_logged(
    consumer: Callable[[Hub], Any], caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub()
    kept = consumer(hub)
    hub.publish(log(1), of_job(2), log(3))
    await turns()
    assert len(warnings(caplog)) == 1, kept
    assert "events 2 to 2 of job job_1 are missing (lost)" in warnings(caplog)[0]
    assert "events.Gap" in warnings(caplog)[0]


@pytest.mark.parametrize("consumer", SEEING.values(), ids=SEEING)
async def test_s4_a_gap_that_a_consumer_takes_is_not_logged(
    consumer: Callable[[Hub], Any], caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub()
    kept = consumer(hub)
    hub.publish(log(1), of_job(2), log(3))
    await turns()
    assert warnings(caplog) == [], kept


@pytest.mark.parametrize(
    ("lost", "logged"),
    [(gap(2), 0), (of_job(2), 0), (of_job(2, "job_2"), 1)],
    ids=["of the session", "of its job", "of another job"],
)
async def test_s4_an_iterator_over_a_job_takes_its_gaps_and_those_of_the_session(
    lost: events.Gap, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = Streams()
    world.hub.fan_out.attach(world.streams)
    stream = world.make("job_1")
    iterator = stream.iterate(EventFilter())
    world.hub.publish(log(1), lost)
    assert len(warnings(caplog)) == logged
    del iterator
    gc.collect()
    world.hub.publish(log(3), gap(4), done(5))
    assert len(warnings(caplog)) == logged + 1


async def test_s4_a_gap_whose_end_is_not_known_says_so(caplog: pytest.LogCaptureFixture) -> None:
    hub = Hub()
    hub.publish(events.Gap(session_id=SESSION, first=7, last=None, reason="unknown_end"))
    expected = f"events of session {SESSION} from 7 on are missing (unknown_end)"
    assert expected in warnings(caplog)[0]
