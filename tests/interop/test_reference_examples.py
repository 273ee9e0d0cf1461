"""The example clients of the reference SDK, unchanged, over a real WebSocket to our runtime.

They are not part of its wheel: its source distribution is downloaded once, and kept in pytest's
cache.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.interop import sdist
from tests.interop.example_agents import EXAMPLES, STDIO_SERVER, Speech, serving

RUNNER = Path(__file__).with_name("examples.py")

# What the client cannot read of the specification, and where it is. Each passes where the runtime
# is told to speak as that client does.
MISSES = {
    "cancel": "§7.4: job.error says final_status cancelled; it knows error alone",
    "cost_budget": "§7.1: the counters of job.accepted are numbers; it wants texts",
    "delegate": "§9.1: it cannot submit without a lease_request, and an empty one allows nothing",
    "provisioned_credentials": "§7.1: the counters of job.accepted are numbers; it wants texts",
}

pytestmark = pytest.mark.timeout(120 + sdist.PATIENCE)  # the first run downloads


@pytest.fixture(scope="module")
def examples(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples, with our runtime behind the one that starts its server itself."""
    found = sdist.examples(pytestconfig, tmp_path_factory.mktemp("reference"))
    (found / "stdio" / "server.py").write_text(STDIO_SERVER)
    return found


async def play(
    folder: Path, directory: Path, names: Collection[str], dialect: Speech, patience: float = 30
) -> dict[str, str]:
    """Serve and run examples side by side; how each failed, or nothing."""
    async with AsyncExitStack() as stack:
        environments = {
            name: await stack.enter_async_context(serving(name, directory, dialect))
            for name in names
        }
        trusted = directory / "cert.pem"
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
        if trusted.exists():
            environment["SSL_CERT_FILE"] = str(trusted)
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(RUNNER), str(folder), json.dumps(environments), str(patience),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    outcomes: dict[str, str] = json.loads(out)
    return outcomes


async def play_twice(
    folder: Path, directory: Path, names: Collection[str], dialect: Speech
) -> dict[str, str]:
    """As `play`; an example that was too slow beside twenty others is run once more, alone.

    The reference gives the start of its own interpreter some seconds.
    """
    outcomes = await play(folder, directory, names, dialect)
    for name in [name for name, failed in outcomes.items() if "TimeoutError" in failed]:
        outcomes |= await play(folder, directory, [name], dialect)
    return outcomes


@pytest.fixture(scope="module")
def outcomes(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How every example went with a runtime that speaks as the specification does."""
    directory = tmp_path_factory.mktemp("served")
    names = [name for name in EXAMPLES if name not in MISSES]

    async def both() -> dict[str, str]:
        good, bad = await asyncio.gather(
            play_twice(examples, directory, names, "specification"),
            play(examples, directory, MISSES, "specification", patience=6),  # one waits for ever
        )
        return good | bad

    return asyncio.run(both())


@pytest.fixture(scope="module")
def adapted(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How the others went with one that speaks as the Python SDK does."""
    directory = tmp_path_factory.mktemp("adapted")
    return asyncio.run(play_twice(examples, directory, EXAMPLES, "python"))


def test_these_are_all_examples(examples: Path) -> None:
    clients = {path.parent.name for path in examples.glob("*/client.py")}
    assert clients == set(EXAMPLES)
    assert len(clients) == 22


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in MISSES])
def test_an_example_as_the_specification_says(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == ""


@pytest.mark.parametrize("name", MISSES)
def test_an_example_that_cannot_read_the_specification(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] != "", f"no miss any more: {MISSES[name]}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_as_its_client_reads(adapted: dict[str, str], name: str) -> None:
    assert adapted[name] == ""
