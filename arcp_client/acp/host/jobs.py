"""Makes agents of a runtime from ACP agents: each job is a prompt, or a conversation."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

from pydantic import SecretStr, TypeAdapter, WithJsonSchema

from arcp_client.acp._connector import connector_for
from arcp_client.acp.client import AcpClient
from arcp_client.acp.host.asking import asking_policy, elicitation
from arcp_client.acp.host.conversation import Conversation
from arcp_client.acp.host.leases import LeasedFiles, LeasedTerminals, lease_policy
from arcp_client.acp.host.prompts import Task, inside, parse
from arcp_client.acp.host.turns import job_failed, open_session
from arcp_client.acp.limits import AcpLimits
from arcp_client.acp.services.permissions import Policy
from arcp_client.errors import ArcpError, JobFailed
from arcp_client.runtime import JobContext
from arcp_client.transports import Connector

__all__ = ["AgentFunction", "host", "lease_policy"]

AgentFunction: TypeAlias = Callable[[Any, JobContext], Coroutine[Any, Any, Any]]

_TEXT = {"type": "string"}
_BLOCKS = {"type": "array", "items": {"type": "object"}}
_INPUT = {
    "anyOf": [
        {"type": "string", "description": "a prompt"},
        {
            "type": "object",
            "properties": {
                "prompt": {"anyOf": [_TEXT, _BLOCKS]},
                "session": {**_TEXT, "description": "the ACP session to continue"},
                "cwd": {**_TEXT, "description": "a directory under the agent's"},
                "mode": {**_TEXT, "description": "the mode to select first"},
            },
            "required": ["prompt"],
        },
        {
            "type": "object",
            "properties": {
                "conversation": {**_TEXT, "description": "the name of the conversation"},
                "session": {**_TEXT, "description": "the ACP session to continue"},
            },
            "required": ["conversation"],
        },
    ]
}


def host(
    argv: str | Sequence[str | os.PathLike[str]] | Connector,
    *,
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    policy: Policy | None = None,
    terminals: bool = True,
    ask: bool | None = None,
    ask_timeout: float | None = None,
    idle: float = 600.0,
    keep: float = 604_800.0,
    limits: AcpLimits | None = None,
    token: str | SecretStr | None = None,
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

    A job with the input ``{"conversation": name}`` has no prompt: it is a conversation of many
    turns, which all arrive as messages. `serve` makes such jobs for editors; the page "ACP" of the
    reference describes the messages.

    A client that loses its connection resumes as for every job: the runtime keeps the events, and
    the agent is not affected.

    Args:
        argv: the program and its arguments, a URL, or a connector, as for `AcpClient`.
        cwd: its working directory; the ``cwd`` and the files of a job lie under it.
        env: the whole environment of the program and its terminals; None inherits this process's.
        policy: decides on permissions in place of the lease.
        ask: ask people, by questions of the job (`JobContext.ask`), for the permissions that the
            lease covers, and what the agent elicits. A ``policy`` decides first, and returns
            ``permissions.ASK`` for the rest. If no client can be asked, the lease decides. By
            default only conversations ask.
        ask_timeout: seconds until such a question expires, which rejects or cancels the request.
        idle: seconds without a prompt after which a conversation ends its program. The next prompt
            starts it again, if the agent can load or resume a session.
        keep: seconds without a prompt after which a conversation ends.
        terminals: whether the agent gets terminals. The lease allows a command by ``tool.call`` on
            its program. A program's name stands for the file found on ``PATH``; every other file is
            named by its path. The agent cannot set ``PATH`` and other variables that select the
            executed code. A lease does not restrict a program's own child processes: ``git`` or
            ``sh``, for example, can start other programs.
        limits: as for `AcpClient`.
        token: the token for an agent behind a URL, as for `AcpClient`.

    Raises:
        TypeError, ValueError: an argument is wrong or does not fit the kind of agent.
    """
    root = os.path.realpath(cwd)
    connector_for(argv, cwd=root, env=env, token=token, limits=limits or AcpLimits())  # checks them

    def connect(job: JobContext, directory: str, ask: bool) -> AcpClient:
        return AcpClient(
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
            token=token,
        )

    async def run(input: Any, job: JobContext) -> Any:
        try:
            if isinstance(input, dict) and "conversation" in input:
                open_agent = partial(connect, job, ask=ask is not False)
                talk = Conversation(job, input, open_agent, root=root, idle=idle, keep=keep)
                return await talk.run()
            task = parse(input)
            async with connect(job, inside(root, task.cwd), bool(ask)) as client:
                return await _answer(client, task, job)
        except JobFailed:
            raise
        except ArcpError as error:
            raise job_failed(error, job) from error

    # The runtime shows it to clients; the function itself reads the input.
    run.input_schema = TypeAdapter(Annotated[Any, WithJsonSchema(_INPUT)])  # type: ignore[attr-defined]
    return run


async def _answer(client: AcpClient, task: Task, job: JobContext) -> Any:
    hosted = await open_session(client, job, task.session)
    if task.mode is not None:
        await hosted.session.set_mode(task.mode)

    async def steered() -> None:
        await job.steered.wait()
        await job.log("steered: the turn is cancelled, the message is the next prompt")

    prompt: list[Any] | None = task.prompt
    while prompt is not None:
        turn = await hosted.turn(prompt, steered)
        prompt = await _next_prompt(job)
    await hosted.bridge.end(turn)
    if turn.stop_reason == "refusal":
        raise JobFailed("the agent refused the prompt", details={"stop_reason": "refusal"})
    if hosted.bridge.spoke:
        return None
    return {"stop_reason": turn.stop_reason, "session": hosted.session.id}


async def _next_prompt(job: JobContext) -> list[Any] | None:
    """Take the next message of people that is a prompt; ``None`` if none waits."""
    while len(job.inbox) and not job.cancelled.is_set():
        message = await job.inbox.take()
        try:
            return parse(message.value).prompt
        except JobFailed as error:
            await job.log(f"message {message.message_id} is no prompt: {error}", "warn")
    return None
