"""Jobs run while replicas, clients and the database are killed, with real processes.

Each kind of fault once, in 15 seconds. With ``ARCP_SLOW=1`` also five seeds of up to 150 seconds
each, of which ``CHAOS_SEED=n`` runs one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replicas.chaos import FAULTS, Chaos, Size

pytestmark = pytest.mark.usefixtures("forked")

SLOW = "ARCP_SLOW" in os.environ
SEEDS = [int(os.environ["CHAOS_SEED"])] if "CHAOS_SEED" in os.environ else list(range(1, 6))
AGAIN = "ARCP_SLOW=1 python -m pytest -s tests/replicas/test_chaos.py"
SMALL = Size(
    replicas=2, clients=4, jobs=8, events=150, watched=4,
    lease=2.0, spacing=(0.2, 0.6), late=120.0, deadline=240.0,
)  # fmt: skip
"""Its bounds are for a machine that is busy with other things."""
patient = pytest.mark.skipif(not SLOW, reason="set ARCP_SLOW=1")


async def run(chaos: Chaos, again: str) -> str:
    try:
        await chaos.run()
        return await chaos.check()
    except BaseException:
        print(f"again: {again}")
        raise
    finally:
        await chaos.end()


@pytest.mark.timeout(300)
async def test_every_observer_sees_each_event_once_after_one_fault_of_each_kind(
    tmp_path: Path,
) -> None:
    chaos = Chaos(1, tmp_path, SMALL, tuple(dict.fromkeys(FAULTS)))
    numbers = await run(chaos, "python -m pytest -s tests/replicas/test_chaos.py -k each_kind")
    print(numbers)


@patient
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_observer_sees_each_event_once_whatever_is_killed(
    seed: int, tmp_path: Path
) -> None:
    chaos = Chaos(seed, tmp_path, Size())
    numbers = await run(chaos, f"CHAOS_SEED={seed} {AGAIN} -k whatever_is_killed")
    print(f"seed {seed}: {numbers}")


@patient
@pytest.mark.timeout(300)
async def test_a_rolling_restart_of_all_replicas_loses_no_job(tmp_path: Path) -> None:
    chaos = Chaos(1, tmp_path, Size(jobs=24, watched=4, pause=0.02), ("restart all replicas",))
    numbers = await run(chaos, f"{AGAIN} -k rolling")
    print(numbers)
    assert " 0 ended retryable" in numbers
