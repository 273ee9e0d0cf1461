"""Opens the ACP session of a job, and runs its turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from arcp_client._log_fields import log_fields
from arcp_client._scrubbing import Scrubber
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client.acp._base import Update
from arcp_client.acp._kinds import SESSION
from arcp_client.acp.client import AcpClient
from arcp_client.acp.errors import AgentRefused
from arcp_client.acp.host.events import Bridge, as_values
from arcp_client.acp.session import AcpSession
from arcp_client.acp.turn import Turn
from arcp_client.errors import (
    ArcpError,
    BudgetExhausted,
    FeatureNotNegotiated,
    HandlerError,
    JobFailed,
    LinkError,
)
from arcp_client.runtime import JobContext

__all__ = ["HostedSession", "job_failed", "open_session"]

_log = logging.getLogger("arcp_client.acp")


@dataclass(slots=True)
class HostedSession:
    """A session of an agent, and the events that its updates become.

    Attributes:
        client: the client of the agent.
        session: the session.
        bridge: emits the updates.
        failures: why an update could not be emitted; the first one ends the job.
    """

    client: AcpClient
    session: AcpSession
    bridge: Bridge
    job: JobContext
    failures: list[JobFailed] = field(default_factory=list)

    async def turn(self, prompt: list[Any], stop: Callable[[], Coroutine[Any, Any, Any]]) -> Turn:
        """Send a prompt and wait for the turn.

        A cancelled job and an exhausted budget cancel it, and so does the end of ``stop``.

        Raises:
            BudgetExhausted: the budget was exhausted before the turn ended.
            JobFailed: an emitted update exceeded a limit of the runtime.
        """
        # Failures are raised where the tasks are awaited, so the owner does not report them.
        owner = TaskOwner("arcp_client.acp.host", on_failure=lambda _: None)
        prompting = owner.spawn(self.session.prompt(prompt), name="prompt")
        reasons = [
            owner.spawn(self.job.cancelled.wait(), name="cancelled"),
            owner.spawn(self.bridge.spent.wait(), name="spent"),
            owner.spawn(stop(), name="stop"),
        ]
        try:
            await asyncio.wait({prompting, *reasons}, return_when=asyncio.FIRST_COMPLETED)
            if not prompting.done():
                await self.session.cancel()
            turn = await prompting
        finally:
            await cancel_and_wait([prompting, *reasons])
        if self.bridge.spent.is_set() and turn.cancel_requested:
            message = "the budget was exhausted before the turn ended"
            raise BudgetExhausted(message, code="BUDGET_EXHAUSTED", job_id=self.job.id)
        if self.failures:
            raise self.failures[0]
        return turn

    def failed(self, failure: HandlerError) -> None:
        """Note that an update could not be emitted."""
        if isinstance(failure.__cause__, JobFailed):
            self.failures.append(failure.__cause__)
            return
        cause, fields = failure.__cause__, log_fields(job=self.job.id)
        _log.error("job %s: %s", self.job.id, failure, exc_info=cause, extra=fields)


async def open_session(
    client: AcpClient, job: JobContext, session_id: str | None, *, exact: bool = False
) -> HostedSession:
    """Open a session of a connected agent, or continue one; emit its name as an event.

    Args:
        client: the client of the agent.
        job: the job that gets the events.
        session_id: the session to continue.
        exact: as for `Bridge`; the event then also has what an editor needs to show the session.

    Raises:
        FeatureNotNegotiated: the agent cannot continue a session.
        AgentRefused: the agent does not know the session, or refused another request.
    """
    session = client.session(session_id) if session_id else await client.new_session()
    opened = HostedSession(client, session, Bridge(job, session.state, exact=exact), job)
    session.subscribe(opened.bridge, Update)
    client.on_error(opened.failed)
    if session_id:
        await (session.load() if client.capabilities.load_session else _resume(client, session))
    info, state = client.info, session.state
    named: dict[str, Any] = {
        "session": session.id,
        "agent": None if info is None else f"{info.name} {info.version}",
    }
    if exact:
        named["conversation"] = True
        prompts = client.capabilities.prompt_capabilities
        if prompts is not None:
            named["prompts"] = as_values(prompts)
        if state.modes:
            modes = [as_values(mode) for mode in state.modes]
            named["modes"] = {"currentModeId": state.mode, "availableModes": modes}
        if state.options:
            named["options"] = [as_values(option) for option in state.options]
    await job.emit(SESSION, named)
    return opened


async def _resume(client: AcpClient, session: AcpSession) -> None:
    """Resume a session without its history, which would not be emitted in any case."""
    offers = client.capabilities.session_capabilities
    if offers is None or offers.resume is None:
        raise FeatureNotNegotiated("the agent offers neither session/load nor session/resume")
    await session.resume()


def job_failed(error: ArcpError, job: JobContext) -> JobFailed:
    """Say to the clients of a job why its agent could not continue."""
    if isinstance(error, JobFailed):
        return error
    if isinstance(error, FeatureNotNegotiated):
        return JobFailed(str(error), code="INVALID_REQUEST")
    if isinstance(error, AgentRefused):
        details = {"acp_code": error.number}
        reason = Scrubber().text(error.reason)
        return JobFailed(reason[:1000], retryable=False, details=details)
    if isinstance(error, LinkError):
        said = Scrubber().text(getattr(error, "stderr", ""))
        _log.error("the agent of job %s: %s %s", job.id, error, said, extra=log_fields(job=job.id))
        return JobFailed(f"the agent exited: {error}", retryable=True)
    return JobFailed(str(error), retryable=True)
