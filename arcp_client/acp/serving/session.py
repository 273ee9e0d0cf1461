"""The common part of all sessions of an editor: the transcript that is sent, turns and questions.

The steps of the jobs (`Transcript`) are applied one at a time, in the order of their events. Each
step is kept, so that the editor can load the session again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arcp_client._budget import ByteBudget
from arcp_client._log_fields import log_fields
from arcp_client.acp._decode import as_json
from arcp_client.acp.errors import Refusal
from arcp_client.acp.serving.link import EditorLink
from arcp_client.acp.serving.questions import Questions
from arcp_client.acp.serving.transcript import (
    JobOver,
    PromptTaken,
    QuestionAsked,
    QuestionGone,
    Step,
    Transcript,
    TurnEnded,
    TurnStarted,
    UpdateShown,
    text_update,
)
from arcp_client.acp.serving.versions import Version1
from arcp_client.client import Client
from arcp_client.errors import ArcpError, LinkLost
from arcp_client.job import JobHandle
from arcp_client.models import Lease

__all__ = ["LOG_BYTES", "ServeOptions", "ServedSession"]

_log = logging.getLogger("arcp_client.acp")

LOG_BYTES = 64 * 1024 * 1024
"""Bytes of one session's updates that are kept so that the same process can load it again."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What all sessions of a server have in common.

    Attributes:
        client: the client of the runtime.
        agent: the agent.
        lease: the lease of the jobs.
        max_runtime: seconds after which the runtime ends a job.
        cwd: the agent's directory, in place of the editor's.
    """

    client: Client
    agent: str
    lease: Lease | Mapping[str, Sequence[str]] | None = None
    max_runtime: float | None = None
    cwd: str | None = None

    def submission(self) -> dict[str, Any]:
        """Return the arguments of each submit."""
        return {"lease": self.lease, "max_runtime": self.max_runtime}


@dataclass(slots=True, eq=False)
class _Log:
    """The updates that were sent; each with the prompt that it is a part of, if any."""

    lines: list[tuple[msgspec.Raw, str | None]] = field(default_factory=list)
    held: ByteBudget = field(default_factory=lambda: ByteBudget(LOG_BYTES))
    complete: bool = True

    def add(self, line: bytes, prompt: str | None) -> None:
        if self.complete and self.held.fits(len(line)):
            self.held.add(len(line))
            self.lines.append((msgspec.Raw(line), prompt))
        else:
            self.complete = False
            self.lines.clear()


class ServedSession:
    """One session of the editor.

    Args:
        session_id: its id.
        options: the client, and the agent.
        link: the editor.
        version: how the session looks in the editor's version of the protocol.
        forms: whether the editor can show forms.

    Attributes:
        id: its id.
        mine: the prompts that this editor sent; it has shown them itself.
    """

    def __init__(
        self,
        session_id: str,
        options: ServeOptions,
        link: EditorLink,
        *,
        version: Version1,
        forms: bool,
    ) -> None:
        self.id = session_id
        self.mine: set[str] = set()
        self._options = options
        self._link = link
        self._version = version
        self._busy = False  # a turn runs
        self._questions = Questions(options.client, link, session_id, version, forms=forms)
        self._log = _Log()
        self._sending = asyncio.Lock()
        self._order = asyncio.Lock()
        self._muted = False  # the editor did not ask for the history that is read
        self._prompts: dict[str, list[Any]] = {}
        self._ends: dict[str, TurnEnded] = {}
        self._turns: dict[str, asyncio.Future[TurnEnded]] = {}
        self._taken: dict[str, asyncio.Future[None]] = {}

    # ------------------------------------------------------------------ for the server

    async def create(self, cwd: str) -> dict[str, Any]:
        """Begin a new session; return what the editor is told about it."""
        raise NotImplementedError

    async def load(self, jobs: Sequence[str], cwd: str, *, replay: bool) -> dict[str, Any]:
        """Continue the session of these jobs; send its updates first if ``replay``."""
        raise NotImplementedError

    async def prompt(self, blocks: list[Any], key: str | None) -> dict[str, Any]:
        """Run a prompt, or join the turn of the same prompt; return the editor's result."""
        raise NotImplementedError

    async def cancel(self) -> None:
        """Cancel the turn."""
        raise NotImplementedError

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Pass a call of the editor to the agent."""
        raise Refusal(f"this agent does not support {method}", number=-32601)

    async def close(self) -> None:
        """End the session, and its job."""
        await self.cancel()

    async def again(self) -> None:
        """Send everything again that was sent, to the same editor.

        Raises:
            Refusal: it is not kept any more.
        """
        async with self._sending:
            if not self._log.complete:
                raise Refusal(f"more than {LOG_BYTES} bytes: load the session in a new process")
            for line, _ in self._log.lines:
                await self._send(line)
            self._questions.ask_now()

    # ------------------------------------------------------------------ steps

    async def _follow(self, job: JobHandle, transcript: Transcript) -> None:
        """Apply the events of one job, up to its end."""
        try:
            async for event in job:
                for step in transcript.feed(event):
                    await self._apply(step)
        except ArcpError as error:  # the client has ended, and with it the server
            _log.warning("job %s is not followed: %s", job.id, error, extra=log_fields(job=job.id))

    async def _apply(self, step: Step) -> None:
        match step:
            case UpdateShown(update=update):
                await self._show(*self._version.updates(update))
            case TurnStarted():
                self._busy = True
                await self._show(*self._version.running())
            case PromptTaken(message_id=message_id, blocks=blocks):
                await self._prompted(message_id, blocks)
            case TurnEnded():
                await self._end(step)
            case QuestionAsked():
                await self._show(*self._version.waiting())
                text = self._questions.add(step)
                if text is not None:
                    update = text_update("agent_message_chunk", text)
                    await self._show(*self._version.updates(update))
            case QuestionGone(question_id=question_id):
                self._questions.remove(question_id)
                if self._busy:
                    await self._show(*self._version.running())
            case JobOver():
                await self._over(step)

    async def _prompted(self, message_id: str, blocks: list[Any]) -> None:
        if message_id in self._prompts:
            return  # it is sent again to the next job, because the last one ended before its turn
        self._prompts[message_id] = blocks
        await self._show(*self._version.prompt(message_id, blocks), prompt=message_id)
        taken = self._taken.pop(message_id, None)
        if taken is not None and not taken.done():
            taken.set_result(None)

    async def _show(self, *updates: dict[str, Any], prompt: str | None = None) -> None:
        own = prompt is not None and prompt in self.mine and not self._version.echoes
        async with self._sending:
            for update in updates:
                line = as_json(update)
                self._log.add(line, prompt)
                if not self._muted and not own:
                    await self._send(msgspec.Raw(line))

    async def tell_state(self) -> None:
        """Send the current state, as version 2 demands before the answer to a resume."""
        version = self._version
        await self._show(*(version.running() if self._busy else version.idle(None, None)))

    async def _send(self, line: msgspec.Raw) -> None:
        # When the editor is lost, the server ends, and with it this session; its job does not.
        with contextlib.suppress(LinkLost):
            await self._link.update(self.id, line)

    async def _end(self, ended: TurnEnded) -> None:
        self._busy = False
        await self._show(*self._version.idle(ended.result, ended.error))
        self._ends[ended.message_id] = ended
        turn = self._turns.pop(ended.message_id, None)
        if turn is not None and not turn.done():
            turn.set_result(ended)

    async def _over(self, over: JobOver) -> None:
        raise NotImplementedError

    async def _outcome(self, message_id: str) -> dict[str, Any]:
        """Wait for the end of a turn; return the result of its prompt.

        In version 2, wait until the runtime has taken the prompt.

        Raises:
            Refusal: the turn failed.
        """
        if self._version.number > 1:
            if message_id not in self._prompts:
                await self._taken.setdefault(message_id, _future())
            return {"messageId": message_id}
        ended = self._ends.get(message_id)
        if ended is None:
            turn = self._turns.get(message_id)
            if turn is None:
                turn = self._turns[message_id] = _future()
            ended = await asyncio.shield(turn)
        if ended.error is not None:
            raise Refusal(str(ended.error.get("message")), data=ended.error)
        return ended.result or {"stopReason": "end_turn"}


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()
