"""Runs a state machine from a seed, and says how to run a failure again.

Quick by default, and the same each time; ``ARCP_SLOW=1`` takes 20,000 steps from a random seed,
``ARCP_SEED=n`` starts from that seed. The first failure is reported as it was found;
``ARCP_SHRINK=1`` looks for a shorter one, for up to five minutes.
"""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["explore"]

STEPS = 40
"""Steps of one example."""


def explore(machine: type[RuleBasedStateMachine], test: str, *, quick: int) -> None:
    """Run a machine; a failure names its seed and the command that repeats it.

    Args:
        machine: what to run.
        test: its test, as pytest names it.
        quick: how many examples to run by default.
    """
    slow = os.environ.get("ARCP_SLOW") == "1"
    default = random.SystemRandom().randrange(2**32) if slow else 1
    chosen = int(os.environ.get("ARCP_SEED") or default)
    shrinks = os.environ.get("ARCP_SHRINK") == "1"
    options = settings(
        max_examples=20_000 // STEPS if slow else quick,
        stateful_step_count=STEPS,
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if shrinks else [])],
        database=None,  # a seed alone says what is run
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(chosen)(machine), settings=options)
    except Exception as failure:
        again = f"ARCP_SEED={chosen} {'ARCP_SLOW=1 ' if slow else ''}python -m pytest '{test}'"
        failure.add_note(f"seed {chosen}; to run it again: {again}")
        if not shrinks:
            failure.add_note(f"to look for a shorter example: ARCP_SHRINK=1 {again} --timeout=0")
        raise
