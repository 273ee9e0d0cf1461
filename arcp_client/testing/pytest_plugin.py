"""Pytest fixtures: a runtime, a client of it, and scripted runtimes, each closed after its test.

It must be activated in ``conftest.py``::

    pytest_plugins = ["arcp_client.testing.pytest_plugin"]

It needs the extra ``testing``: pytest and pytest-asyncio, in either of its modes. Each fixture has
the scope of a test function.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

try:
    import pytest_asyncio
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in {"pytest", "pytest_asyncio"}:
        raise
    raise ModuleNotFoundError(
        "arcp_client.testing.pytest_plugin needs the extra testing:"
        " pip install 'arcp-client[testing]'",
        name=missing.name,
    ) from missing

from arcp_client.client import Client
from arcp_client.runtime import Runtime
from arcp_client.testing.scripted import ScriptedRuntime

__all__ = ["arcp_client", "arcp_runtime", "scripted_runtime"]


@pytest_asyncio.fixture
async def arcp_runtime() -> AsyncIterator[Runtime]:
    """An embedded runtime; a test registers its agents with ``@arcp_runtime.agent``."""
    async with Runtime(name="test") as runtime:
        yield runtime


@pytest_asyncio.fixture
async def arcp_client(arcp_runtime: Runtime) -> AsyncIterator[Client]:
    """A client of ``arcp_runtime``, connected."""
    async with Client(arcp_runtime) as client:
        yield client


@pytest_asyncio.fixture
async def scripted_runtime() -> AsyncIterator[Callable[..., ScriptedRuntime]]:
    """Makes scripted runtimes; takes the arguments of `ScriptedRuntime`."""
    async with AsyncExitStack() as stack:

        def make(*args: Any, **options: Any) -> ScriptedRuntime:
            runtime = ScriptedRuntime(*args, **options)
            stack.push_async_callback(runtime.close)
            return runtime

        yield make
