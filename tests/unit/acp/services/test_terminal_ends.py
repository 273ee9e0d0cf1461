"""What a terminal gives back: descriptors when it does not start, its exit when it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from arcp_client.acp import LocalTerminals, Refusal, schema

STUBBORN = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)"
)


def wanted(*argv: str) -> schema.CreateTerminalRequest:
    return schema.CreateTerminalRequest(session_id="s", command=argv[0], args=list(argv[1:]))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors cannot be counted")
@pytest.mark.parametrize("error", [OSError("no"), ValueError("no"), asyncio.CancelledError()])
async def test_a_command_that_does_not_start_leaves_no_descriptor_open(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fails)
    terminals = LocalTerminals()
    expected = asyncio.CancelledError if isinstance(error, asyncio.CancelledError) else Refusal
    before = descriptors()
    for _ in range(3):
        with pytest.raises(expected):
            await terminals.create(wanted("x"))
    assert descriptors() == before
    await terminals.close()


async def test_a_kill_returns_after_the_end_of_a_command_that_takes_no_hint() -> None:
    terminals = LocalTerminals(grace=0.05)
    name = await terminals.create(wanted(sys.executable, "-c", STUBBORN))
    while "ready" not in (await terminals.output("s", name)).output:
        await asyncio.sleep(0)
    await terminals.kill("s", name)
    status = (await terminals.output("s", name)).exit_status
    assert status is not None
    assert status.signal == "SIGKILL"
    await terminals.close()
