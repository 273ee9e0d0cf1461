"""A program of the tests, in a process of its own: what it prints as JSON comes back.

For measurements. In the process of the tests memory and time are also those of thousands of other
tests and, in a measured run, of coverage; here they are always the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COVERAGE = {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"}  # how it finds new processes

# By itself glibc stops returning freed blocks of megabytes once it has seen some: resident memory
# would then tell how the heap was cut up by chance. With a fixed threshold it tells what is held.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(128 * 1024)}


@asynccontextmanager
async def started(module: str, *arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python -m module`` with its output in a pipe, not measured; killed at the end."""
    environment = {key: value for key, value in os.environ.items() if key not in COVERAGE}
    environment |= ALLOCATOR
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-m", module, *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run_alone(module: str, *arguments: object, timeout: float) -> Any:
    """What the program prints as JSON, if it ends well in ``timeout`` seconds."""
    async with started(module, *arguments) as process:
        printed, _ = await asyncio.wait_for(process.communicate(), timeout)
        assert process.returncode == 0, f"{module} {arguments} ended with {process.returncode}"
    return json.loads(printed)


def resident() -> int:
    """Bytes of resident memory of this process (Linux)."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """The most bytes of resident memory that this process ever had (Linux).

    Not ``ru_maxrss``: that keeps the size of the process that started this one.
    """
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
