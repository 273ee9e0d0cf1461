"""The ground rules of `tests/conftest.py` catch what they are there to catch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = """
import asyncio
import logging

from hypothesis import given, settings, strategies as st

kept = []


async def forever():
    await asyncio.sleep(1000)


async def failing():
    raise ValueError("nobody awaits this")


async def test_bad_task_left():
    kept.append(asyncio.create_task(forever()))


class TestClass:
    async def test_bad_task_left_in_a_class(self):
        kept.append(asyncio.create_task(forever()))


@settings(max_examples=1)
@given(st.booleans())
async def test_bad_task_left_under_given(_):
    kept.append(asyncio.create_task(forever()))


async def test_bad_never_retrieved():
    asyncio.create_task(failing())
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_bad_coroutine_never_awaited():
    forever()


def test_bad_log():
    logging.getLogger("asyncio").error("something is wrong")


def test_good_log_expected(asyncio_errors):
    logging.getLogger("asyncio").error("as expected")
    asyncio_errors.clear()


async def test_good_task_cancelled_and_not_awaited():
    task = asyncio.create_task(forever())
    await asyncio.sleep(0)
    task.cancel()
"""


def test_each_offence_fails_its_test_and_nothing_else_does(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    for name in ("alone.py", "conftest.py", "loops.py", "places.py", "tracing.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "tests" / "test_suite.py").write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL
    )
    reports = [line.split() for line in done.stdout.splitlines() if "::test_" in line]
    failed = {words[1] for words in reports if words[0] in {"ERROR", "FAILED"}}
    names = {words[1] for words in reports}
    assert failed == {name for name in names if "test_bad_" in name}, done.stdout
    assert len(names) == 8, done.stdout
