"""What holds for every test: no task is left behind, and asyncio has nothing to complain of."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import logging
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import loops, places, tracing
from tests.alone import COVERAGE, ROOT

settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
_default = "ci" if "CI" in os.environ else "dev"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _default))


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def asyncio_errors() -> Iterator[list[str]]:
    """Fail a test after which asyncio has logged an error: "never retrieved", "Unclosed" and kin.

    A test that provokes one on purpose asks for this fixture and clears the list.
    """
    handler = _Errors()
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    try:
        yield handler.messages
        gc.collect(1)  # a forgotten task complains when it is collected
    finally:
        logger.removeHandler(handler)
    assert not handler.messages, f"asyncio logged: {handler.messages}"


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task running. Added to every async test, outermost."""
    before = asyncio.all_tasks()
    yield
    for _ in range(20):  # what was cancelled last may still need a few turns of the loop to end
        left = [t for t in asyncio.all_tasks() - before if t is not asyncio.current_task()]
        if not left:
            return
        await asyncio.sleep(0)
    names = sorted(f"{task.get_name()}: {task.get_coro()}" for task in left)
    pytest.fail(f"tasks left: {names}")


@pytest.fixture(scope="module", autouse=True)
def traced_where_it_matters(request: pytest.FixtureRequest) -> Iterator[None]:
    """Coverage takes a quarter of a second of each process; peers and tools are not the package."""
    where = request.path.relative_to(ROOT).as_posix()
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        if tracing.is_untraced(request.config, where):
            stack.enter_context(tracing.not_measured(request.config))
        if not where.startswith(tracing.TRACED):
            for name in COVERAGE:
                patch.delenv(name, raising=False)
        yield


@pytest.fixture
def untraced(request: pytest.FixtureRequest) -> Iterator[None]:
    """For floods, which take three times as long while coverage looks at every line of them.

    Each line that they run is run by other tests as well.
    """
    with tracing.not_measured(request.config):
        yield


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """For modules whose programs may be forks: see `tests.forks`."""
    if sys.platform != "linux":
        yield
        return
    from tests.forks import execute_child, prepare  # POSIX only

    prepare()  # so that its imports do not count in the time limits of the first test
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "_execute_child", execute_child)
        yield


def pytest_configure(config: pytest.Config) -> None:
    loops.select()
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None and worker["everything"]:
        number = int(worker["workerid"].removeprefix("gw"))
        config.args = places.beginning_elsewhere(number, worker["workercount"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist what it cannot see."""
    node.workerinput["whole"] = tracing.is_whole(node.config)
    options = node.config.option
    node.workerinput["everything"] = (
        node.config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and not options.ignore
        and not options.ignore_glob  # it leaves out nothing that is an argument
    )


def pytest_report_header() -> str:
    return f"event loop: {loops.LOOP}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the files of each folder over the run.

    Processes that run tests side by side take the files in this order. Tests of one folder wait for
    the same things, for replicas or browsers: in the order of their names, all of them would wait
    at one time and compete for the cores at another.
    """
    if not hasattr(config, "workerinput"):
        return
    folders: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted({item.path for item in items}):
        folders[path.relative_to(ROOT / "tests").parts[0]].append(path)
    place = {
        path: (n + 0.5) / len(folder)
        for folder in folders.values()
        for n, path in enumerate(folder)
    }
    # Stable, so that a file's tests keep their order; without ties, since processes must agree.
    items.sort(key=lambda item: (place[item.path], item.path))


def pytest_collection() -> None:
    """Nothing that collecting makes is garbage: to look for it takes a quarter of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    done = yield
    if nextitem is not None and nextitem.path != item.path:
        _freeze()
    return done


def _freeze() -> None:
    """What is there now stays to the end: no collection need look at it again.

    Many tests collect, and look at all that the tests before them have imported and kept.
    """
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.relative_to(ROOT).as_posix() in loops.MARKED:
        item.add_marker("loops")
    if not isinstance(item, pytest.Function):
        return
    given = getattr(item.function, "hypothesis", None)  # @given hides the coroutine function
    if inspect.iscoroutinefunction(given.inner_test if given else item.function):
        item.fixturenames.insert(0, "no_task_left")
