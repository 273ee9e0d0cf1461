"""Runs the reference SDK's example clients, as they are, all in one process; its own program.

The arguments are the folder of the examples, the environment of each as JSON, and seconds. A JSON
object goes to stdout: how each example failed, or nothing. What they print goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from pathlib import Path


def load(path: Path, environment: dict[str, str]) -> Callable[[], Awaitable[int]]:
    """The ``main`` of a client, which reads its environment when it is loaded."""
    os.environ.update(environment)
    main: Callable[[], Awaitable[int]] = runpy.run_path(str(path))["main"]
    return main


async def play(main: Callable[[], Awaitable[int]], patience: float) -> str:
    """Run one client; how it failed."""
    try:
        code = await asyncio.wait_for(main(), patience)
    except BaseException:
        return traceback.format_exc()
    return "" if code == 0 else f"it returned {code}"


async def play_all(
    folder: Path, environments: dict[str, dict[str, str]], patience: float
) -> dict[str, str]:
    """Run them side by side; how each failed."""
    mains = {name: load(folder / name / "client.py", env) for name, env in environments.items()}
    outcomes = await asyncio.gather(*(play(main, patience) for main in mains.values()))
    return dict(zip(mains, outcomes, strict=True))


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        outcomes = asyncio.run(
            play_all(Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3]))
        )
    json.dump(outcomes, sys.stdout)
