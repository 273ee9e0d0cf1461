"""A session that is a conversation of a hosted ACP agent: one job, to which prompts are sent.

The session has no state outside of the runtime. Its id gives the idempotency key of its job, so any
process gets the job, its history and the right to control it, by submitting it again. A later job
continues the session if the job has ended.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from arcp_client._wire.ids import new_id
from arcp_client._wire.stamp import canonical
from arcp_client.acp.errors import Refusal
from arcp_client.acp.serving.ids import trace_of
from arcp_client.acp.serving.session import ServedSession
from arcp_client.acp.serving.transcript import (
    AgentOpened,
    CallReplied,
    EditorAttached,
    JobOver,
    PromptTaken,
    Step,
    Transcript,
    TurnEnded,
    TurnStarted,
)
from arcp_client.errors import DuplicateKey, JobEnded
from arcp_client.job import Job

__all__ = ["ConversationSession"]

_TRIES = 3


class ConversationSession(ServedSession):
    """A session of a hosted ACP agent; see `ServedSession`."""

    _job: Job
    _cwd = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._part = 0
        self._acp_session: str | None = None
        self._facts: dict[str, Any] = {}
        self._failure: dict[str, Any] | None = None
        self._ended = asyncio.Event()  # the job of the current part
        self._changed = asyncio.Event()
        self._attached: set[str] = set()
        self._replies: dict[str, asyncio.Future[CallReplied]] = {}
        self._waiting: dict[str, list[Any]] = {}  # prompts whose turn has not begun
        self._running: str | None = None

    async def create(self, cwd: str) -> dict[str, Any]:
        """Begin a new session; see `ServedSession`."""
        self._cwd = cwd
        self._questions.ask_now()
        await self._begin(0)
        await self._attach()
        while not self._facts:
            if self._ended.is_set():
                raise self._refusal()
            await self._news()
        return self._told()

    async def load(self, jobs: Sequence[str], cwd: str, *, replay: bool) -> dict[str, Any]:
        """Continue the session of these jobs; see `ServedSession`."""
        self._cwd, self._muted = cwd, not replay
        for part, job_id in enumerate(jobs):
            await self._begin(part)
            if self._job.id != job_id:
                await self._job.cancel("the session was not found")
                raise Refusal("the runtime has forgotten the key of this session; start a new one")
            if part + 1 < len(jobs):
                await self._ended.wait()
        try:
            marker = await self._attach()
        except JobEnded:
            await self._ended.wait()
        else:
            while marker not in self._attached and not self._ended.is_set():
                await self._news()
        self._muted = False
        await self.tell_state()
        self._questions.ask_now()
        return self._told()

    async def prompt(self, blocks: list[Any], key: str | None) -> dict[str, Any]:
        """Run a prompt; see `ServedSession`."""
        async with self._order:
            message_id = self._id_of(blocks, key)
            known = message_id in self._prompts or message_id in self.mine
            if not known:
                self.mine.add(message_id)
                try:
                    await self._post({"prompt": blocks}, message_id)
                except BaseException:
                    self.mine.discard(message_id)
                    raise
        return await self._outcome(message_id)

    async def cancel(self) -> None:
        """Cancel the turn."""
        async with self._order:
            if not self._ended.is_set():
                try:
                    await self._job.send({"cancel": True}, message_id=new_id())
                except JobEnded:
                    return

    async def close(self) -> None:
        """Cancel the turn, and end the job."""
        async with self._order:
            if not self._ended.is_set():
                try:
                    await self._job.send({"cancel": True}, message_id=new_id())
                    await self._job.send({"close": True}, message_id=new_id())
                except JobEnded:
                    return

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Pass a call of the editor to the agent."""
        message_id = new_id()
        reply = self._replies[message_id] = asyncio.get_running_loop().create_future()
        try:
            async with self._order:
                await self._post({"call": method, "params": dict(params)}, message_id)
            replied = await reply
        finally:
            del self._replies[message_id]
        if replied.error is not None:
            raise Refusal(str(replied.error.get("message")), data=replied.error)
        return replied.result

    # ------------------------------------------------------------------ the job

    async def _begin(self, part: int) -> None:
        """Start the job of a part, or find it, and follow it."""
        self._part = part
        self._ended = asyncio.Event()
        self._failure = None
        input: dict[str, Any] = {"conversation": self.id}
        if part:
            input |= {"part": part, "session": self._acp_session}
        try:
            self._job = await self._options.client.submit(
                self._options.agent,
                input,
                idempotency_key=f"acp:{self.id}:{part}",
                trace_id=trace_of(self.id),
                **self._options.submission(),
            )
        except DuplicateKey:
            raise Refusal("the session was started with another lease or time limit") from None
        following = self._follow(self._job, Transcript(conversation=True))
        self._link.owner.spawn(following, name="session")

    async def _attach(self) -> str:
        marker = new_id()
        editor = {"cwd": self._options.cwd or self._cwd}
        await self._job.send({"attach": editor}, message_id=marker)
        return marker

    async def _post(self, value: Any, message_id: str) -> None:
        """Send a message to the job; begin the next part if the job has ended."""
        for _ in range(_TRIES):
            if self._ended.is_set():
                await self._begin(self._part + 1)
                await self._attach()
            try:
                await self._job.send(value, message_id=message_id)
            except JobEnded:
                await self._ended.wait()
            else:
                return
        raise self._refusal()

    def _id_of(self, blocks: list[Any], key: str | None) -> str:
        """Return the id of a prompt: the same one for the same prompt that is sent again.

        It is known by the editor's key. Without one it is the same prompt if it has the same
        content, and the same number of prompts before it, or its turn still runs.
        """
        if key is not None:
            return _hash([self.id, "key", key])
        running = self._running
        if running is not None and running not in self.mine and self._prompts[running] == blocks:
            return running
        before = len(self._prompts.keys() | self.mine)
        return _hash([self.id, before, blocks])

    # ------------------------------------------------------------------ steps

    async def _apply(self, step: Step) -> None:
        await super()._apply(step)
        match step:
            case PromptTaken(message_id=message_id, blocks=blocks):
                self._waiting[message_id] = blocks
            case TurnStarted(message_id=message_id):
                self._waiting.pop(message_id, None)
                self._running = message_id
            case TurnEnded(message_id=message_id):
                self._waiting.pop(message_id, None)
                self._running = None if self._running == message_id else self._running
            case AgentOpened(facts=facts):
                self._facts = facts
                self._acp_session = facts.get("session") or self._acp_session
            case EditorAttached(message_id=message_id):
                self._attached.add(message_id)
            case CallReplied(message_id=message_id):
                reply = self._replies.get(message_id)
                if reply is not None and not reply.done():
                    reply.set_result(step)
        self._changed.set()

    async def _over(self, over: JobOver) -> None:
        self._failure = over.error
        running, self._running = self._running, None
        left = [] if running is None else [running]
        if over.error is not None or over.cancelled:
            left += self._waiting
            self._waiting.clear()
        for message_id in left:
            if over.error is not None:
                await self._end(TurnEnded(message_id, error=over.error))
            else:
                await self._end(TurnEnded(message_id, {"stopReason": "cancelled"}))
        for reply in self._replies.values():
            if not reply.done():
                reply.set_result(
                    CallReplied("", error={"message": "the job of the session has ended"})
                )
        self._ended.set()
        if self._waiting:
            self._link.owner.spawn(self._move(dict(self._waiting)), name="move")

    async def _move(self, prompts: dict[str, list[Any]]) -> None:
        """Send the prompts again that the job had not begun when it ended."""
        async with self._order:
            for message_id, blocks in prompts.items():
                await self._post({"prompt": blocks}, message_id)

    async def _news(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _told(self) -> dict[str, Any]:
        return self._version.opened(self._facts)

    def _refusal(self) -> Refusal:
        error = self._failure or {"message": "the job of the session has ended"}
        return Refusal(str(error.get("message")), data=error)


def _hash(value: Any) -> str:
    return f"p_{hashlib.sha256(canonical(value)).hexdigest()[:32]}"
