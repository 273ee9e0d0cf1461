"""The recipes for message brokers print what the documentation says, against real servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers

pytestmark = pytest.mark.usefixtures("forked")

ROOT = Path(__file__).parents[2]
RECIPES = {
    "kafka_topic": brokers.kafka,
    "nats_jetstream": brokers.nats,
    "redis_stream": brokers.redis,
}


def test_every_recipe_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples" / "brokers").glob("*.py")} == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_handles_each_message_in_order_and_again_after_a_failure(
    name: str, tmp_path: Path
) -> None:
    recipe = ROOT / "examples" / "brokers" / f"{name}.py"
    serve: Any = RECIPES[name]
    with serve(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-W", "error", recipe, address],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == recipe.with_suffix(".out").read_text(encoding="utf-8")
