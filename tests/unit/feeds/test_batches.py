"""Events are read in batches, or one by one; each of them once, and in order."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.streams import Iteration
from arcp_client._feeds.batches import TOGETHER, batches
from arcp_client.events import Completed, Event, Log


def logs(count: int) -> list[Event]:
    return [Log(message=str(n)) for n in range(count)]


@given(
    count=st.integers(0, 3 * TOGETHER),
    past=st.integers(0, 3 * TOGETHER),
    batched=st.none() | st.integers(0, 4),
)
async def test_every_event_is_read_once_and_in_order(
    count: int, past: int, batched: int | None
) -> None:
    iterator: Iteration[Event] = Iteration(EventFilter(), until_terminal=True)
    expected = [*logs(count), Completed()]
    iterator.prepend(expected[:past])
    iterator.extend(expected[past:], 0.0)
    iterator.end(None)
    found: list[list[Event]] = []

    def together() -> bool:
        return batched is None or len(found) < batched

    async for batch in batches(iterator, together):
        found.append(batch)  # noqa: PERF401  `together` counts them
    assert [event for batch in found for event in batch] == expected
    assert all(len(batch) <= TOGETHER for batch in found)
    if batched is not None:
        assert all(len(batch) == 1 for batch in found[batched:])
    assert not iterator.outstanding


async def test_a_batch_counts_as_processed_once_the_next_one_is_requested() -> None:
    iterator: Iteration[Event] = Iteration(EventFilter())
    iterator.extend(logs(TOGETHER + 1), 0.0)
    reading = batches(iterator)
    await anext(reading)
    assert iterator.outstanding == TOGETHER + 1
    await anext(reading)
    assert iterator.outstanding == 1
    await reading.aclose()
    assert iterator.outstanding == 0


async def test_any_other_iterator_is_read_event_by_event() -> None:
    async def told() -> AsyncIterator[Event]:
        for event in logs(3):
            yield event

    assert [batch async for batch in batches(told())] == [[event] for event in logs(3)]
