"""Declares ``arcp-client demo``, which demonstrates delivery over a link that is cut."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    seed: Annotated[
        int, typer.Option(metavar="N", help="The seed of the random delays and cuts.")
    ] = 1,
    fast: Annotated[bool, typer.Option("--fast", help="Run in a quarter of the time.")] = False,
) -> int:
    """Run three jobs over a link that is cut twice, and count events."""
    from arcp_client.cli.actions import demo as action

    return action.demo(seed=seed, fast=fast)
