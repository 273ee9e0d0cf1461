"""The blocking client does what the asynchronous one does."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcp_client.sync import (
    Client,
    Closed,
    Connecting,
    Event,
    Job,
    JobHandle,
    JobView,
    Live,
    MemoryStore,
    Portal,
    Runtime,
    Timeouts,
    errors,
    events,
)
from tests.unit.sync.conftest import Gate
from tests.unit.web.kit import Parser, Timeline


def test_a_job_is_submitted_followed_and_awaited(client: Client) -> None:
    job = client.submit("say", 3)
    assert [event.current for event in job.events(events.Progress)] == [0, 1, 2]
    assert job.result().value == 3
    assert (job.status, job.agent) == ("success", "say")
    assert client.state == Live(resumed=False)
    assert client.session.runtime.name == "unit"
    assert not client.resumed
    assert client.stats().received == 4


def test_errors_have_their_classes_remedies_and_a_short_traceback(client: Client) -> None:
    with pytest.raises(errors.JobFailed) as failed:
        client.submit("fail").result()
    assert failed.value.help_url in "".join(failed.value.__notes__)
    files = [entry.path.name for entry in failed.traceback]
    assert files[0] == "test_client.py"
    assert len(files) < 10, files
    assert not isinstance(failed.value.__context__, BaseException)
    with pytest.raises(errors.AgentNotFound):
        client.submit("nothing")
    with pytest.raises(TypeError, match="must be a number|finite number of seconds"):
        client.submit("echo", timeout="soon")  # type: ignore[arg-type]


def test_the_properties_of_a_job_are_those_of_the_runtime(client: Client) -> None:
    parent = client.submit("stuck")
    job = client.submit("stuck", lease={}, parent=parent)
    assert parent.children == [job.id]
    assert "model.use" in parent.lease.root
    assert job.lease.root == {}
    assert job.lease_constraints == parent.lease_constraints
    assert job.budget == {}
    assert job.credentials == {}
    assert job.children == []
    assert job.progress is None
    assert job.trace_id is not None
    assert (job.verdict.kind, parent.verdict.kind) == ("working", "waiting_for_job")
    assert "stuck" in repr(job)
    for one in (job, parent):
        one.cancel("enough")
        with pytest.raises(errors.JobCancelled):
            one.result()


def test_the_same_job_has_the_same_handle(client: Client) -> None:
    job = client.submit("stuck", idempotency_key="key")
    assert client.submit("stuck", idempotency_key="key") is job
    assert client.job(job.id) is job
    assert client.open_jobs() == [job]
    assert isinstance(job, Job)
    assert client.job("job_unknown") is None
    client.cancel_job(job.id)
    with pytest.raises(errors.JobCancelled):
        job.result()
    assert client.open_jobs() == []


def test_jobs_are_listed_and_watched(client: Client, portal: Portal, runtime: Runtime) -> None:
    job = client.submit("stuck")
    assert [summary.job_id for summary in client.jobs(status=["running"])] == [job.id]
    with pytest.raises(ValueError, match="each status"):
        next(client.jobs(status=["nonsense"]))  # type: ignore[list-item]
    with Client(runtime, portal=portal) as other:
        view = other.watch(job.id, history=True)
        assert isinstance(view, JobView)
        assert next(view.events(events.Status)).phase == "stuck"
        view.unsubscribe()
        with pytest.raises(errors.JobLost):
            view.result()
    job.cancel()


def test_chunks_are_iterated_over_and_saved(client: Client, tmp_path: Path) -> None:
    parts = ["one ", "two ", "three"]
    job = client.submit("text", parts)
    assert b"".join(job.chunks()) == b"one two three"
    assert job.save(tmp_path / "result.txt") == 13
    assert (tmp_path / "result.txt").read_text() == "one two three"
    left = job.chunks()
    assert next(left) == b"one "
    left.close()


def test_a_result_has_a_limit_of_time_and_the_job_goes_on(client: Client, gate: Gate) -> None:
    job = client.submit("gated", 7)
    with pytest.raises(TimeoutError, match=f"the end of job {job.id} did not come within 0"):
        job.result(timeout=0)
    gate.open()
    assert job.result(timeout=60).value == 7


def test_a_client_waits_for_its_link_and_drains_its_handlers(client: Client) -> None:
    seen: list[Event] = []
    client.on()(seen.append)
    client.connected()
    client.connected(timeout=60)
    client.submit("say", 2).result()
    client.drain()
    assert isinstance(seen[-1], events.Completed)
    assert client.ping() >= 0


def test_after_the_end_the_outcome_is_still_known_and_calls_are_refused(
    runtime: Runtime, portal: Portal
) -> None:
    client = Client(runtime, portal=portal)
    assert client.state == Connecting(0)
    with client:
        job = client.submit("text", ["a", "b"])
        open_job = client.submit("stuck")
        job.result()
    assert client.state == Closed(None)
    assert job.result().value == "ab"
    assert list(job.chunks())[:2] == [b"a", b"b"]
    assert isinstance(list(job)[-1], events.Completed)
    for call in (open_job.result, client.ping, client.connect, lambda: client.submit("echo")):
        with pytest.raises(errors.ClientClosed):
            call()  # type: ignore[operator]
    client.close()
    client.detach()


def test_the_same_holds_when_the_thread_has_ended() -> None:
    runtime = Runtime()

    @runtime.agent("text")
    async def text(input: Any, job: Any) -> Any:
        for part in input:
            yield part

    with Client(runtime) as client:
        job = client.submit("text", ["a", "b"])
        assert job.result().value == "ab"
        assert "arcp_client.sync" in {thread.name for thread in threading.enumerate()}
    assert "arcp_client.sync" not in {thread.name for thread in threading.enumerate()}
    assert job.result().value == "ab"
    assert list(job.chunks())[:2] == [b"a", b"b"]
    assert isinstance(list(job)[-1], events.Completed)
    for call in (client.ping, client.connect, lambda: client.submit("text", [])):
        with pytest.raises(errors.ClientClosed):
            call()  # type: ignore[operator]
    assert client.job(job.id) is job
    client.close()


def test_a_client_that_was_not_connected_says_so() -> None:
    client = Client(Runtime())
    with pytest.raises(errors.LocalProtocolError, match="call connect"):
        client.submit("echo")
    client.close()
    assert client.state == Closed(None)


def test_registering_and_closing_need_no_thread() -> None:
    client = Client(Runtime())
    client.on()(print)
    client.events()
    assert client.open_jobs() == []
    client.close()
    assert "arcp_client.sync" not in {thread.name for thread in threading.enumerate()}
    assert client.state == Closed(None)
    with pytest.raises(errors.ClientClosed):
        client.connect()


def test_a_failed_connect_leaves_no_thread() -> None:
    client = Client("ws://127.0.0.1:1/arcp", timeouts=Timeouts(open=0.01))
    with pytest.raises(errors.ConnectFailed):
        client.connect()
    assert isinstance(client.state, Closed)


def test_a_token_may_come_from_an_async_function(portal: Portal) -> None:
    runtime = Runtime(auth={"secret": "me"})

    async def token() -> str:
        await asyncio.sleep(0)
        return "secret"

    with Client(runtime, token=token, portal=portal) as client:
        assert client.state == Live(resumed=False)
    with pytest.raises(errors.Unauthenticated):
        Client(runtime, token="wrong", portal=portal).connect()


def test_a_block_that_raises_detaches_from_a_store(portal: Portal, runtime: Runtime) -> None:
    store = MemoryStore()
    with pytest.raises(ZeroDivisionError), Client(runtime, store=store, portal=portal) as client:
        raise ZeroDivisionError
    assert isinstance(client.state, Closed)


def test_detach_keeps_the_session_for_the_next_client(
    portal: Portal, runtime: Runtime, gate: Gate
) -> None:
    store = MemoryStore()
    with Client(runtime, store=store, portal=portal) as client:
        job = client.submit("gated", 1)
        client.detach()
    with Client(runtime, store=store, portal=portal) as client:
        assert client.resumed
        [again] = client.open_jobs()
        assert again.id == job.id
        gate.open()
        assert again.result().value == 1


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="portal must be a Portal of arcp_client.sync"):
        Client(Runtime(), portal=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="target must be"):
        Client(7)  # type: ignore[arg-type]


# ------------------------------------------------------------------ where blocking is refused


REFUSED: list[Callable[[Client, JobHandle], Any]] = [
    lambda client, job: client.ping(),
    lambda client, job: client.submit("echo"),
    lambda client, job: client.close(),
    lambda client, job: job.result(),
    lambda client, job: next(iter(job)),
    lambda client, job: next(job.chunks()),
    lambda client, job: next(client.jobs()),
]


def test_a_running_loop_is_told_to_use_the_asynchronous_client(client: Client) -> None:
    job = client.submit("stuck")
    iterator = iter(job)

    def register(client: Client, job: JobHandle) -> None:
        client.on()(print)

    async def main() -> None:
        for call in (*REFUSED, lambda client, job: next(iterator), register):
            with pytest.raises(errors.LocalProtocolError, match="use arcp_client.Client here"):
                call(client, job)
        await asyncio.to_thread(client.ping)
        with pytest.raises(errors.LocalProtocolError, match="this thread runs an event loop"):
            Client(Runtime()).connect()

    asyncio.run(main())
    assert isinstance(next(iterator), Event)
    job.cancel()


def test_a_blocking_call_on_the_loop_thread_is_refused_and_a_plain_one_works(
    client: Client,
) -> None:
    refused: list[str] = []

    @client.on(events.Status)
    def handler(event: events.Status) -> None:
        assert event.job_id is not None
        job = client.job(event.job_id)
        assert job is not None
        for call in REFUSED:
            with pytest.raises(errors.WouldDeadlock) as error:
                call(client, job)
            refused.append(str(error.value))
        assert client.stats().queued >= 0
        assert client.session.features
        client.on(events.Log)(print)

    failures: list[errors.HandlerError] = []
    client.on_error(failures.append)
    job = client.submit("stuck")
    job.cancel()
    with pytest.raises(errors.JobCancelled):
        job.result()
    assert failures == []
    assert len(refused) == len(REFUSED)
    assert all("register the handler with thread=True" in message for message in refused)
    assert not any("\n" in message for message in refused)


# ------------------------------------------------------------------ one that is not closed


def test_a_dropped_client_warns_once_and_its_thread_ends(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = Client(Runtime())
        client.on_slow(lambda registration, lag, seconds: None)
        client.on(thread=True)(lambda event: None)
        client.connect()
        [thread] = [one for one in threading.enumerate() if one.name == "arcp_client.sync"]
        del client
        gc.collect()
        thread.join(10)
        assert not thread.is_alive()
    found = [str(one.message) for one in caught if one.category is ResourceWarning]
    assert len(found) == 1, found
    assert found[0].endswith("was dropped without close()")
    assert len(caplog.messages) == 1


def test_a_client_that_was_never_connected_is_dropped_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client = Client(Runtime())
        client.on()(print)
        del client
        gc.collect()


def test_a_job_is_streamed_to_a_browser_that_reconnects(client: Client, gate: Gate) -> None:
    """As a view of Flask, or of Django under WSGI, does it."""
    job = client.submit("say", 300)
    job.result()
    browser = Parser()
    found = Timeline()
    for data in job.sse():
        for frame in browser.feed(data):
            found.take(frame)
        if found.numbers:
            break
    read = len(found.numbers)
    for data in client.sse(job.id, last_event_id=browser.last):
        for frame in browser.feed(data):
            found.take(frame)
    assert read
    assert found.resets == ["start"]
    assert found.numbers == list(range(1, 302))
    assert found.end == "success"
    with pytest.raises(errors.JobNotFound):
        client.sse("job_nobody_has")


def test_end_streams_ends_a_stream_in_another_thread(client: Client, gate: Gate) -> None:
    job = client.submit("gated")
    begun = threading.Event()
    read: list[bytes] = []

    def view() -> None:
        for data in job.sse():
            read.append(data)
            if b"event: reset" in data:
                begun.set()

    thread = threading.Thread(target=view)
    thread.start()
    assert begun.wait(20)
    client.end_streams()
    thread.join(20)
    assert not thread.is_alive()
    assert b"event: end" not in b"".join(read)
    gate.open()
    job.result()
