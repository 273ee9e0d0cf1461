"""Blocking iterators: batches from the loop thread, and what counts as processed."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from typing import Any

import pytest
from reactivex import operators as ops

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.streams import Iteration
from arcp_client.rx import concat_map_async
from arcp_client.sync import Client, Event, Portal, Runtime, errors, events
from arcp_client.sync import iterators as module
from arcp_client.testing.clock import VirtualClock
from tests.unit.sync.conftest import Gate

SMALL = 2


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", SMALL)


def numbers(found: list[Event]) -> list[int]:
    return [event.current for event in found if isinstance(event, events.Progress)]


@pytest.mark.usefixtures("small_batches")
def test_batches_make_no_difference(client: Client) -> None:
    job = client.submit("say", 7)
    found = list(job)
    assert numbers(found) == list(range(7))
    assert isinstance(found[-1], events.Completed)
    assert list(job) == found


def test_iterators_in_several_threads_each_get_every_event_in_order(client: Client) -> None:
    iterators = [client.events(events.Progress) for _ in range(4)]
    seen: list[list[int]] = [[] for _ in iterators]

    def read(at: int) -> None:
        for event in iterators[at]:
            seen[at].append(event.current)
            if event.current == 299:
                break

    threads = [threading.Thread(target=read, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    client.submit("say", 300)
    for thread in threads:
        thread.join()
    assert seen == [list(range(300))] * 4


def test_an_event_counts_as_processed_when_the_next_one_is_requested(
    client: Client, portal: Portal
) -> None:
    iterator = client.events(events.Progress)
    client.submit("say", 3).result()
    next(iterator)
    assert client.stats().queued == 3
    next(iterator)
    portal.call(iterator._progress._look)  # as the timer does
    assert client.stats().queued == 2
    next(iterator)
    portal.call(iterator._progress._look)
    assert client.stats().queued == 1


@pytest.mark.usefixtures("small_batches")
def test_leaving_a_loop_unregisters_its_iterator(client: Client, portal: Portal) -> None:
    job = client.submit("gated", 1)
    for _ in job:
        break
    left = client.events()
    assert len(portal.call(iterations)) == 1
    del left
    assert portal.call(iterations) == []
    client.cancel_job(job.id)


def iterations() -> list[Any]:
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Iteration) and one.open]


def test_an_iterator_may_be_read_before_the_client_connects() -> None:
    runtime = Runtime()

    @runtime.agent("say")
    async def say(input: Any, job: Any) -> None:
        await job.log(input)

    client = Client(runtime)
    iterator = client.events(events.Log)
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(next(iterator).message))
    thread.start()
    with client:
        client.submit("say", "hello").result()
        thread.join()
    assert seen == ["hello"]


def test_close_ends_an_iterator_that_another_thread_waits_for(client: Client) -> None:
    iterator = client.events()
    ended = threading.Event()

    def read() -> None:
        assert list(iterator) == []
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    iterator.close()
    iterator.close()
    thread.join()
    assert ended.is_set()
    assert list(iterator) == []


def test_a_closed_iterator_forgets_the_rest_of_its_batch(client: Client) -> None:
    job = client.submit("say", 5)
    job.result()
    iterator = iter(job)
    next(iterator)
    iterator.close()
    assert list(iterator) == []


def test_the_end_of_the_client_is_an_error(portal: Portal, runtime: Runtime) -> None:
    with Client(runtime, portal=portal) as client:
        iterator = client.events()
        job = client.submit("stuck")
        of_job = iter(job)
        assert next(of_job).kind == "status"
    with pytest.raises(errors.ClientClosed):
        list(iterator)
    with pytest.raises(errors.ClientClosed):
        next(of_job)


@pytest.mark.usefixtures("small_batches")
def test_an_interrupted_iterator_loses_nothing(client: Client, gate: Gate) -> None:
    job = client.submit("gated", 1)
    iterator = iter(job)
    assert next(iterator).kind == "log"

    async def interrupting(*args: int) -> list[Any]:
        signal.pthread_kill(main, signal.SIGINT)
        return await take(*args)

    main = threading.main_thread().ident
    assert main == threading.get_ident()
    take = iterator._progress.take
    iterator._progress = _Replaced(iterator._progress, interrupting)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    iterator._progress = iterator._progress.real  # type: ignore[attr-defined]
    gate.open()
    assert [event.kind for event in iterator][:1] == ["log"]
    assert job.result().value == 1


class _Replaced:
    """The progress of an iterator with another way to take."""

    def __init__(self, real: Any, take: Any) -> None:
        self.real = real
        self.take = take

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_observers_are_called_on_the_loop_thread_in_order(client: Client, portal: Portal) -> None:
    seen: list[int] = []
    inside: set[bool] = set()
    ended = threading.Event()

    def see(event: Event) -> None:
        assert isinstance(event, events.Progress)
        inside.add(portal.inside)
        seen.append(event.current)

    def is_progress(event: Event) -> bool:
        return isinstance(event, events.Progress)

    subscription = client.notifications.pipe(ops.filter(is_progress)).subscribe(see)
    job = client.submit("gated", 1)
    job.notifications.subscribe(on_completed=ended.set)
    client.submit("say", 3).result()
    subscription.dispose()
    client.submit("say", 3).result()
    assert seen == [0, 1, 2]
    assert inside == {True}
    job.cancel()
    assert ended.wait(60)
    with pytest.raises(TypeError, match="coroutine function"):
        client.notifications.subscribe(asyncio.sleep)  # type: ignore[arg-type]


def test_a_pipeline_of_async_steps_is_subscribed_to_on_the_loop_thread(
    client: Client, portal: Portal
) -> None:
    saved: list[Any] = []

    async def save(event: Event) -> None:
        await asyncio.sleep(0)
        saved.append(event.kind)

    portal.call(client.notifications.pipe(concat_map_async(save)).subscribe)
    client.submit("say", 2).result()
    client.drain()
    assert saved.count("progress") == 2


def test_states_begin_with_the_present_one(portal: Portal, runtime: Runtime) -> None:
    seen: list[str] = []
    hooked: list[str] = []
    client = Client(runtime, portal=portal)
    client.on_state(lambda state: hooked.append(type(state).__name__))
    with client:
        client.states.subscribe(lambda state: seen.append(type(state).__name__))
    assert seen == ["Live", "Closed"]
    assert hooked[:2] == ["Connecting", "Live"]


async def test_the_loop_looks_after_50_ms_until_the_reader_stands_still(
    clock: VirtualClock,
) -> None:
    source: Iteration[Event] = Iteration(EventFilter())
    progress = module._Progress(source)
    source.extend([events.Log(seq=number) for number in range(5)], 0.0)
    assert len(await progress.take(9)) == 5
    progress.given = 3
    await clock.advance(0.04)
    assert source.outstanding == 5
    await clock.advance(0.02)
    assert source.outstanding == 3
    assert not progress.unwatched
    await clock.advance(0.05)
    assert progress.unwatched  # nothing has changed, so no timer is left
    progress.given = 4
    progress.watch()  # what the reading thread asks for
    await clock.advance(0.05)
    assert source.outstanding == 2
