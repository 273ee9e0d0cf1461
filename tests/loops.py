"""Runs the tests on the event loop that ``ARCP_LOOP`` names: ``plain``, ``eager`` or ``uvloop``.

``eager`` starts tasks eagerly (`asyncio.eager_task_factory`, Python 3.12 and newer), on every loop
of asyncio's and in virtual time; ``uvloop`` replaces each loop that is not one of virtual time.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

MARKED = (
    "tests/unit/acp/http/test_http2.py",
    "tests/unit/acp/session/test_order.py",
    "tests/unit/link/test_defects.py",
    "tests/unit/protocol/test_heartbeat.py",
    "tests/unit/rx/test_errors.py",
    "tests/unit/test_connection_limits.py",
    "tests/unit/test_tasks.py",
    "tests/unit/test_user_code.py",
    "tests/unit/transports/test_conformance.py",
    "tests/unit/transports/test_stdio.py",
)
"""What is marked ``loops``: where tasks and TLS begin, transports are asked, user code is run."""

LOOP = os.environ.get("ARCP_LOOP", "plain")


def select() -> None:
    """Make it the loop of this process; for ``pytest_configure``."""
    match LOOP:
        case "plain":
            return
        case "eager" if sys.version_info >= (3, 12):
            _start_tasks_eagerly()
        case "uvloop" if importlib.util.find_spec("uvloop") is not None:
            _replace_loops()
        case "eager" | "uvloop":
            raise pytest.UsageError(f"ARCP_LOOP={LOOP}: this Python has no such loop")
        case _:
            raise pytest.UsageError(f"ARCP_LOOP is plain, eager or uvloop, not {LOOP!r}")


def _start_tasks_eagerly() -> None:
    initialise: Callable[..., None] = asyncio.BaseEventLoop.__init__

    def eager(self: asyncio.BaseEventLoop, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        self.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]

    asyncio.BaseEventLoop.__init__ = eager  # type: ignore[method-assign]


def _replace_loops() -> None:
    import uvloop

    asyncio.new_event_loop = uvloop.new_event_loop
    asyncio.events.new_event_loop = uvloop.new_event_loop  # where Runner and run() look it up
