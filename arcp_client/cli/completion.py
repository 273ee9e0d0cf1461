"""Completes agents, job ids and profiles on the command line.

A completion takes at most `_PATIENCE` seconds. Errors produce no offers and no output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["agents", "agents_or_jobs", "jobs", "profiles", "statuses"]

_PATIENCE = 1.5
"""Seconds for the runtime to answer."""
_MOST = 200
"""Maximum number of offered jobs."""

Offers = list[tuple[str, str]]


def agents(ctx: Any, incomplete: str) -> Offers:
    """Offer the runtime's agents; with versions once part of the name is typed."""
    return _offered(ctx, incomplete, want="agents")


def jobs(ctx: Any, incomplete: str) -> Offers:
    """Offer the ids of visible jobs."""
    return _offered(ctx, incomplete, want="jobs")


def agents_or_jobs(ctx: Any, incomplete: str) -> Offers:
    """For ``run``: offer agents, or with ``--resume`` the jobs of saved runs."""
    if not ctx.params.get("resume"):
        return agents(ctx, incomplete)
    try:
        from arcp_client.cli.actions import saved_runs

        kept = [
            (run.job_id, run.agent) for run in saved_runs.unfinished() if run.job_id is not None
        ]
    except Exception:  # noqa: BLE001 - a completion says nothing rather than something wrong
        return []
    return _matching(kept, incomplete)


def statuses(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Offer the statuses of jobs."""

    def offered(incomplete: str) -> list[str]:
        return [each for each in known if each.startswith(incomplete)]

    return offered


def profiles(incomplete: str) -> list[str]:
    """Offer the profiles of the settings files."""
    try:
        from arcp_client.cli import settings_files

        return [name for name in settings_files.profiles() if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001 - as above
        return []


def _offered(ctx: Any, incomplete: str, *, want: str) -> Offers:
    import asyncio
    import logging

    logging.disable()
    try:
        return _matching(asyncio.run(_ask(ctx.params, want)), incomplete)
    except Exception:  # noqa: BLE001 - as above
        return []
    finally:
        logging.disable(logging.NOTSET)


def _matching(found: Offers, incomplete: str) -> Offers:
    return [(value, help_) for value, help_ in found if value.startswith(incomplete)]


async def _ask(params: dict[str, Any], want: str) -> Offers:
    import asyncio

    from tenacity import stop_after_attempt

    from arcp_client import Client, Reconnect, Timeouts
    from arcp_client.cli.settings import settle

    settled = settle(
        url=params.get("url"), token_file=params.get("token_file"), profile=params.get("profile")
    )
    source = settled.token_from
    # A keyring may prompt for a password, and the prompt would be invisible.
    token = settled.token() if source is not None and source.origin != "keyring" else None
    found: Offers = []
    client = Client(
        settled.url.value,
        token=token,
        timeouts=Timeouts(open=_PATIENCE),
        reconnect=Reconnect(stop=stop_after_attempt(1)),
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            await client.connect()
            if want == "agents":
                for agent in client.session.agents:
                    found.append((agent.name, ", ".join(agent.versions)))
                    found += [(f"{agent.name}@{version}", "") for version in agent.versions]
            else:
                async for job in client.jobs():
                    found.append((job.job_id, f"{job.agent} {job.status}"))
                    if len(found) >= _MOST:
                        break
    except TimeoutError:
        pass  # offer the jobs received so far
    finally:
        await client.close(timeout=0.2)
    return found
