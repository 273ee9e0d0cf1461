"""Runs each job of a runtime as one prompt to an ACP agent."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from arcp_client._log_fields import log_fields
from arcp_client._scrubbing import Scrubber
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client.acp import schema
from arcp_client.acp._base import Update
from arcp_client.acp._decode import Misshapen, as_json, decode
from arcp_client.acp.client import AcpClient
from arcp_client.acp.errors import AgentRefused
from arcp_client.acp.host.asking import asking_policy, elicitation
from arcp_client.acp.host.events import SESSION, Bridge
from arcp_client.acp.host.leases import LeasedFiles, LeasedTerminals, lease_policy
from arcp_client.acp.limits import AcpLimits
from arcp_client.acp.services.permissions import Policy
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
from arcp_client.transports import Connector

__all__ = ["AgentFunction", "host", "lease_policy"]

AgentFunction: TypeAlias = Callable[[Any, JobContext], Coroutine[Any, Any, Any]]

_log = logging.getLogger("arcp_client.acp")


@dataclass(frozen=True, slots=True)
class _Task:
    prompt: list[Any]
    session: str | None = None
    cwd: str | None = None
    mode: str | None = None


def host(
    argv: Sequence[str | os.PathLike[str]] | Connector,
    *,
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    policy: Policy | None = None,
    terminals: bool = True,
    ask: bool = False,
    ask_timeout: float | None = None,
    limits: AcpLimits | None = None,
) -> AgentFunction:
    """Make a runtime's agent function from an ACP agent.

    ::

        runtime.agent("claude")(acp.host(["claude-agent-acp"]))

    Each job starts the program, sends one prompt and ends the program. A job's input is the prompt,
    or::

        {"prompt": "…" | [content blocks], "session": "…", "cwd": "sub", "mode": "plan"}

    The agent's text is streamed as the job's result; thoughts, tool calls, plans and usage become
    events of their kinds (see `Bridge`). The first event, ``x-vendor.acp.session``, names the
    session. A later job with that ``session`` continues the conversation, by ``session/load``, or
    by ``session/resume`` if the agent offers only that. Costs are charged to the job's budget; an
    exhausted budget ends the turn. The job's lease decides on permissions, files and terminals.
    Cancelling the job cancels the turn.

    People can talk to the agent while it works: ``job.send(text)`` becomes its next prompt. With
    ``mode="steer"``, the turn is cancelled first, since ACP has no other way to reach a running
    turn; a log line of the job says so. The value is a prompt like the input of a job.

    A client that loses its connection resumes as for every job: the runtime keeps the events, and
    the agent is not affected.

    Args:
        argv: the program and its arguments, or a connector.
        cwd: its working directory; the ``cwd`` and the files of a job lie under it.
        env: the whole environment of the program and its terminals; None inherits this process's.
        policy: decides on permissions in place of the lease.
        ask: ask people, by questions of the job (`JobContext.ask`), for the permissions that the
            lease covers, and what the agent elicits. A ``policy`` decides first, and returns
            ``permissions.ASK`` for the rest. If no client can be asked, the lease decides.
        ask_timeout: seconds until such a question expires, which rejects or cancels the request.
        terminals: whether the agent gets terminals. The lease allows a command by ``tool.call`` on
            its program. A program's name stands for the file found on ``PATH``; every other file is
            named by its path. The agent cannot set ``PATH`` and other variables that select the
            executed code. A lease does not restrict a program's own child processes: ``git`` or
            ``sh``, for example, can start other programs.
        limits: as for `AcpClient`.
    """
    root = os.path.realpath(cwd)

    async def run(input: Any, job: JobContext) -> Any:
        task = _parse(input)
        directory = _inside(root, task.cwd)
        client = AcpClient(
            argv,
            cwd=directory,
            env=env,
            on_permission=asking_policy(job, directory, policy, ask_timeout)
            if ask
            else policy or lease_policy(job, directory),
            on_elicitation=elicitation(job, ask_timeout) if ask else None,
            fs=LeasedFiles(job, directory),
            terminal=LeasedTerminals(job, directory, env=env) if terminals else None,
            limits=limits,
        )
        try:
            async with client:
                return await _answer(client, task, job)
        except JobFailed:
            raise
        except FeatureNotNegotiated as error:
            raise JobFailed(str(error), code="INVALID_REQUEST") from error
        except AgentRefused as error:
            details = {"acp_code": error.number}
            reason = Scrubber().text(error.reason)
            raise JobFailed(reason[:1000], retryable=False, details=details) from error
        except LinkError as error:
            said = Scrubber().text(getattr(error, "stderr", ""))
            _log.error(
                "the agent of job %s: %s %s", job.id, error, said, extra=log_fields(job=job.id)
            )
            raise JobFailed(f"the agent exited: {error}", retryable=True) from error
        except ArcpError as error:
            raise JobFailed(str(error), retryable=True) from error

    return run


async def _answer(client: AcpClient, task: _Task, job: JobContext) -> Any:
    session = client.session(task.session) if task.session else await client.new_session()
    bridge = Bridge(job, session.state)
    session.subscribe(bridge, Update)
    failures: list[JobFailed] = []

    @client.on_error
    def failed(failure: HandlerError) -> None:
        if isinstance(failure.__cause__, JobFailed):
            failures.append(failure.__cause__)
        else:
            _log.error(
                "job %s: %s",
                job.id,
                failure,
                exc_info=failure.__cause__,
                extra=log_fields(job=job.id),
            )

    if task.session:
        await (session.load() if client.capabilities.load_session else _resumed(client, session))
    info = client.info
    await job.emit(
        SESSION,
        {"session": session.id, "agent": None if info is None else f"{info.name} {info.version}"},
    )
    if task.mode is not None:
        await session.set_mode(task.mode)
    prompt: list[Any] | None = task.prompt
    while prompt is not None:
        turn = await _turn(session, prompt, job, bridge)
        if failures:
            raise failures[0]  # an emitted update exceeded the runtime's limits on results
        prompt = await _next_prompt(job)
    await bridge.end(turn)
    if turn.stop_reason == "refusal":
        raise JobFailed("the agent refused the prompt", details={"stop_reason": "refusal"})
    if bridge.spoke:
        return None
    return {"stop_reason": turn.stop_reason, "session": session.id}


async def _resumed(client: AcpClient, session: AcpSession) -> None:
    """Resume a session without its history, which would not be emitted in any case."""
    offers = client.capabilities.session_capabilities
    if offers is None or offers.resume is None:
        raise FeatureNotNegotiated("the agent offers neither session/load nor session/resume")
    await session.resume()


async def _next_prompt(job: JobContext) -> list[Any] | None:
    """Take the next message of people that is a prompt; ``None`` if none waits."""
    while len(job.inbox) and not job.cancelled.is_set():
        message = await job.inbox.take()
        try:
            return _parse(message.value).prompt
        except JobFailed as error:
            await job.log(f"message {message.message_id} is no prompt: {error}", "warn")
    return None


async def _turn(session: AcpSession, prompt: list[Any], job: JobContext, bridge: Bridge) -> Turn:
    """Send a prompt and wait for the turn.

    A cancelled job, an exhausted budget and a steering message cancel it.
    """
    # Failures are raised where the tasks are awaited, so the owner does not report them.
    owner = TaskOwner("arcp_client.acp.host", on_failure=lambda _: None)
    prompting = owner.spawn(session.prompt(prompt), name="prompt")
    reasons = [
        owner.spawn(job.cancelled.wait(), name="cancelled"),
        owner.spawn(bridge.spent.wait(), name="spent"),
        owner.spawn(job.steered.wait(), name="steered"),
    ]
    try:
        await asyncio.wait({prompting, *reasons}, return_when=asyncio.FIRST_COMPLETED)
        if not prompting.done():
            if job.steered:
                await job.log("steered: the turn is cancelled, the message is the next prompt")
            await session.cancel()
        turn = await prompting
    finally:
        await cancel_and_wait([prompting, *reasons])
    if bridge.spent.is_set() and turn.cancel_requested:
        message = "the budget was exhausted before the turn ended"
        raise BudgetExhausted(message, code="BUDGET_EXHAUSTED", job_id=job.id)
    return turn


def _parse(input: Any) -> _Task:
    if isinstance(input, str):
        return _Task([schema.TextContent(text=input)])
    if not isinstance(input, dict) or "prompt" not in input:
        raise JobFailed("the input must be a prompt, or an object with one", code="INVALID_REQUEST")
    for name in ("session", "cwd", "mode"):
        if not isinstance(input.get(name), str | None):
            raise JobFailed(f"input.{name} must be a string", code="INVALID_REQUEST")
    prompt = input["prompt"]
    blocks = [prompt] if isinstance(prompt, str | dict) else prompt
    if not isinstance(blocks, list) or not blocks:
        raise JobFailed("input.prompt must be text or content blocks", code="INVALID_REQUEST")
    return _Task(
        [_block(block) for block in blocks],
        input.get("session"),
        input.get("cwd"),
        input.get("mode"),
    )


class _Block(schema.PromptRequest, frozen=True, kw_only=True):
    session_id: str = ""


def _block(block: Any) -> Any:
    if isinstance(block, str):
        return schema.TextContent(text=block)
    try:
        return decode(_Block, as_json({"prompt": [block]})).prompt[0]
    except (Misshapen, IndexError) as error:
        raise JobFailed(f"input.prompt: {error}", code="INVALID_REQUEST") from error


def _inside(root: str, cwd: str | None) -> str:
    directory = os.path.realpath(os.path.join(root, cwd or "."))  # noqa: PTH118
    if os.path.commonpath([root, directory]) != root or not os.path.isdir(directory):  # noqa: PTH112
        raise JobFailed(
            f"cwd {cwd!r} is not a directory under the agent's working directory",
            code="INVALID_REQUEST",
        )
    return directory
