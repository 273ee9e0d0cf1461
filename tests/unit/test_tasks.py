"""Tasks begin alike under every task factory, and user code's failures are told from the end."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest

from arcp_client._tasks import TaskOwner, in_context, pass_on


def lazily(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
    return asyncio.Task(coro, loop=loop, **kwargs)


def eagerly(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
    options.pop("eager_start", None)  # of uvloop; the factory of Python 3.13.0 refuses it
    return asyncio.eager_task_factory(loop, coro, **options)  # type: ignore[attr-defined]


FACTORIES: dict[str, Any] = {"none": None, "lazy": lazily}
if sys.version_info >= (3, 12):
    FACTORIES["eager"] = eagerly


@pytest.fixture(params=FACTORIES)
async def owner(request: pytest.FixtureRequest) -> Any:
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(FACTORIES[request.param])
    yield TaskOwner("owner")
    loop.set_task_factory(before)


async def test_a_task_begins_after_spawn_has_returned(owner: TaskOwner) -> None:
    order: list[str] = []

    async def work() -> str:
        order.append("begun")
        return "done"

    task = owner.spawn(work(), name="work")
    order.append("spawned")
    assert await task == "done"
    assert order == ["spawned", "begun"]
    assert task.get_name() == "owner:work"


async def test_tasks_begin_in_the_next_turn_in_the_order_of_their_spawning(
    owner: TaskOwner,
) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        order.append(number)

    for number in range(3):
        owner.spawn(work(number))
    await asyncio.sleep(0)
    assert order == [0, 1, 2]
    await owner.close()


async def test_a_task_that_is_cancelled_at_once_never_begins(owner: TaskOwner) -> None:
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)

    task = owner.spawn(work())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not begun
    assert len(owner) == 0


class Panic(BaseException):
    """As exceptions of foreign runtimes derive from BaseException."""


FAILURES = [
    ValueError(),
    Panic(),
    SystemExit(2),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseExceptionGroup("several", [Panic(), ValueError()]),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_what_user_code_raises_is_a_failure(failure: BaseException) -> None:
    pass_on(failure)
    pass_on(failure, asyncio.current_task())


@pytest.mark.parametrize(
    "end", [KeyboardInterrupt(), BaseExceptionGroup("several", [KeyboardInterrupt(), Panic()])]
)
def test_an_interrupt_is_raised_again(end: BaseException) -> None:
    with pytest.raises(type(end)):
        pass_on(end)


async def test_a_cancellation_of_the_task_is_raised_again() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            pass_on(error)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_coroutine_that_is_closed_ends() -> None:
    async def work() -> None:
        task = asyncio.current_task()
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as error:
            pass_on(error, task)
            await asyncio.sleep(0)  # a coroutine that is closed may not wait again

    coro: Coroutine[Any, Any, None] = work()
    coro.send(None)
    await asyncio.create_task(asyncio.sleep(0))
    other = asyncio.create_task(close(coro.close))
    await other


async def close(closing: Callable[[], object]) -> None:
    closing()


SOURCE = Path(__file__).parents[2] / "arcp_client"


async def test_what_must_be_completed_goes_on_without_its_caller(owner: TaskOwner) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    late: list[int] = []

    async def steps() -> int:
        begun.set()
        await go_on.wait()
        return 3

    caller = asyncio.create_task(owner.complete(steps(), late=late.append))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert len(owner) == 1
    go_on.set()
    while len(owner):
        await asyncio.sleep(0)
    assert late == [3]


async def test_what_is_completed_returns_or_raises_to_its_caller(
    owner: TaskOwner, caplog: pytest.LogCaptureFixture
) -> None:
    late: list[int] = []

    async def steps(*, fail: bool) -> int:
        if fail:
            raise ValueError("no")
        return 3

    assert await owner.complete(steps(fail=False), late=late.append) == 3
    with pytest.raises(ValueError, match="no"):
        await owner.complete(steps(fail=True), late=late.append)
    assert late == []
    assert not caplog.records


async def test_a_failure_that_comes_after_its_caller_was_cancelled_is_noted(
    owner: TaskOwner, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def steps() -> None:
        begun.set()
        await go_on.wait()
        raise ValueError("no")

    caller = asyncio.create_task(owner.complete(steps(), name="steps"))
    await begun.wait()
    caller.cancel()
    go_on.set()
    with caplog.at_level("INFO", "arcp_client.tasks"):
        while len(owner):
            await asyncio.sleep(0)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info is not None) == ("INFO", True)


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield str(path.relative_to(SOURCE)), node


async def test_closing_ends_the_tasks_that_a_cancelled_task_starts(owner: TaskOwner) -> None:
    started = asyncio.Event()

    async def heir() -> None:
        await asyncio.Event().wait()

    async def task() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            owner.spawn(heir())

    owner.spawn(task())
    await started.wait()
    assert await owner.close()
    assert len(owner) == 0


async def test_the_end_of_a_task_that_was_released_takes_no_callback(owner: TaskOwner) -> None:
    loop, calls = asyncio.get_running_loop(), 0

    async def work(*, release: bool) -> None:
        await asyncio.sleep(0)
        if release:
            owner.release(asyncio.current_task())  # type: ignore[arg-type]
            assert not len(owner)

    async def calls_of(*, release: bool) -> int:
        nonlocal calls
        calls, call_soon = 0, loop.call_soon

        def counted(*args: Any, **options: Any) -> asyncio.Handle:
            nonlocal calls
            calls += 1
            return call_soon(*args, **options)

        task = owner.spawn(work(release=release))
        loop.call_soon = counted  # type: ignore[method-assign]
        try:
            for _ in range(8):
                await asyncio.sleep(0)
        finally:
            loop.call_soon = call_soon  # type: ignore[method-assign]
        assert task.done()
        return calls

    assert await calls_of(release=True) == await calls_of(release=False) - 1


def test_tasks_are_created_in_one_place() -> None:
    """Elsewhere a task might begin before the caller has gone on."""
    creators = {"create_task", "ensure_future", "eager_task_factory"}
    found = {
        path for path, call in calls() if ast.unparse(call.func).rpartition(".")[2] in creators
    }
    assert found == {"_tasks.py"}


def test_nothing_asks_whether_a_transport_is_one_of_asyncios() -> None:
    """The transports of other loops are no subclasses of asyncio's."""
    asked = [
        (path, ast.unparse(call))
        for path, call in calls()
        if ast.unparse(call.func) in {"isinstance", "issubclass"}
        and re.search(r"asyncio\.\w*(Transport|Server|Handle|Loop)\b", ast.unparse(call))
    ]
    assert asked == []


# ------------------------------------------------------------------ another context

cell: ContextVar[str] = ContextVar("cell", default="nowhere")


def other(value: str) -> Context:
    context = copy_context()
    context.run(cell.set, value)
    return context


async def test_every_step_runs_in_the_other_context_and_in_the_callers_task() -> None:
    seen: list[Any] = []

    async def body() -> str:
        for _ in range(2):
            seen.append((cell.get(), asyncio.current_task()))
            await asyncio.sleep(0)
        cell.set("changed")
        seen.append((cell.get(), await asyncio.create_task(child())))
        return "done"

    async def child() -> str:
        return cell.get()

    context = other("there")
    assert await in_context(context, body()) == "done"
    here = asyncio.current_task()
    assert seen == [("there", here), ("there", here), ("changed", "changed")]
    assert (cell.get(), context[cell]) == ("nowhere", "changed")


async def test_errors_and_cancellations_pass_in_both_directions() -> None:
    caught: list[str] = []

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            caught.append(cell.get())
            raise ValueError from None

    with pytest.raises(ValueError):  # noqa: PT011  it has no text
        async with asyncio.timeout(0):
            await in_context(other("there"), body())
    assert caught == ["there"]


async def test_whatever_can_be_awaited_is_awaited_in_the_other_context() -> None:
    class Waits:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return cell.get()

    assert await in_context(other("there"), Waits()) == "there"
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 1)
    assert await in_context(other("there"), future) == 1
