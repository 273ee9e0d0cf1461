"""Runs a conversation with an ACP agent as one job; prompts and settings arrive as messages.

The job has all that an editor needs to show the conversation again: the agent's updates unchanged
(`Bridge`), the prompts (`events.Sent`), and where each turn begins and ends (`TURN`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from arcp_client._tasks import TaskOwner
from arcp_client.acp._kinds import REPLY, TURN
from arcp_client.acp.client import AcpClient
from arcp_client.acp.host.prompts import inside, parse
from arcp_client.acp.host.turns import HostedSession, job_failed, open_session
from arcp_client.errors import ArcpError, BudgetExhausted, JobFailed
from arcp_client.models import JobMessage
from arcp_client.runtime import JobContext

__all__ = ["Conversation"]

_CALLS = ("session/set_mode", "session/set_config_option")


@dataclass(slots=True)
class _Prompt:
    message_id: str
    blocks: list[Any]
    cancelled: bool = False


class Conversation:
    """The conversation of one job.

    Each message is one of::

        "…" | {"prompt": "…" | [content blocks]}     the next prompt
        {"attach": {"cwd": "…"}}                     starts the agent, in this directory
        {"cancel": true}                             cancels the turn, and the prompts that wait
        {"call": "session/set_mode", "params": {…}}  answered by an event ``x-vendor.acp.reply``
        {"close": true}                              ends the job after the turn

    Args:
        job: the job.
        input: its input: ``conversation``, and ``session`` to continue an ACP session.
        connect: makes the client of an agent in a directory.
        root: the directory under which the agent works.
        idle: seconds without a prompt after which the agent's program is ended.
        keep: seconds without a prompt after which the job ends.
    """

    def __init__(
        self,
        job: JobContext,
        input: Mapping[str, Any],
        connect: Callable[[str], AcpClient],
        *,
        root: str,
        idle: float,
        keep: float,
    ) -> None:
        name, session = input.get("conversation"), input.get("session")
        if not isinstance(name, str) or not isinstance(session, str | None):
            text = "input.conversation and input.session must be strings"
            raise JobFailed(text, code="INVALID_REQUEST")
        self._job = job
        self._owner = TaskOwner("arcp_client.acp.conversation")
        self._connect = connect
        self._root = root
        self._directory = root
        self._idle = idle
        self._keep = keep
        self._session_id = session
        self._hosted: HostedSession | None = None
        self._gone = False
        self._opening = asyncio.Lock()
        self._prompts: deque[_Prompt] = deque()
        self._running: _Prompt | None = None
        self._stop = asyncio.Event()
        self._news = asyncio.Event()
        self._wanted = False  # the agent shall start before its first prompt
        self._closing = False
        self._problem: JobFailed | None = None

    async def run(self) -> Any:
        """Serve the messages until the conversation ends; return the result of the job."""
        owner = self._owner
        owner.spawn(self._read(), name="inbox")
        owner.spawn(self._watch(), name="cancelled")
        spoke = False
        try:
            while (prompt := await self._next()) is not None:
                await self._turn(prompt)
                spoke = spoke or (self._hosted is not None and self._hosted.bridge.spoke)
        finally:
            await owner.close()
            await self._release()
        return None if spoke else {"session": self._session_id}

    # ------------------------------------------------------------------ messages

    async def _read(self) -> None:
        async for message in self._job.inbox():
            try:
                await self._take(message)
            except JobFailed as error:
                await self._job.log(f"message {message.message_id}: {error}", "warn")
                await self._ended(message.message_id, error=error)

    async def _watch(self) -> None:
        await self._job.cancelled.wait()
        self._news.set()

    async def _take(self, message: JobMessage) -> None:
        value = message.value
        if isinstance(value, dict) and "prompt" not in value:
            if isinstance(value.get("attach"), dict):
                self._attach(value["attach"])
            elif value.get("cancel") is True:
                self._cancel()
            elif value.get("close") is True:
                self._closing = True
            elif value.get("call") in _CALLS:
                call = self._call(message.message_id, value["call"], value.get("params"))
                self._owner.spawn(call, name="call")
            else:
                raise JobFailed("this is no message of a conversation", code="INVALID_REQUEST")
        else:
            blocks = parse(value).prompt
            if message.mode == "steer":
                self._cancel()
            self._prompts.append(_Prompt(message.message_id, blocks))
        self._news.set()

    def _attach(self, editor: Mapping[str, Any]) -> None:
        if self._wanted or self._session_id is not None:
            return  # the directory is the conversation's, not the editor's
        self._wanted = True
        cwd = editor.get("cwd")
        try:
            self._directory = inside(self._root, cwd if isinstance(cwd, str) else None)
        except JobFailed as error:
            self._problem = error

    def _cancel(self) -> None:
        for prompt in self._prompts:
            prompt.cancelled = True
        if self._running is not None:
            self._stop.set()

    async def _call(self, message_id: str, method: str, params: Any) -> None:
        reply: dict[str, Any] = {"message_id": message_id}
        try:
            if not isinstance(params, dict):
                raise JobFailed("params must be an object", code="INVALID_REQUEST")
            hosted = await self._agent()
            given = {**params, "sessionId": hosted.session.id}
            reply["result"] = await hosted.client.request(method, given)
        except ArcpError as error:
            reply["error"] = _told(job_failed(error, self._job))
        await self._job.emit(REPLY, reply)

    # ------------------------------------------------------------------ turns

    async def _next(self) -> _Prompt | None:
        """Wait for the next prompt; ``None`` at the end of the conversation."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            if self._problem is not None:
                raise self._problem
            if self._job.cancelled.is_set():
                return None
            if self._prompts:
                return self._prompts.popleft()
            if self._closing:
                return None
            if self._wanted and self._session_id is None:
                await self._agent()
            self._news.clear()
            dispensable = self._hosted is not None and _can_continue(self._hosted)
            try:
                async with asyncio.timeout_at(since + (self._idle if dispensable else self._keep)):
                    await self._news.wait()
            except TimeoutError:
                if not dispensable:
                    return None
                async with self._opening:
                    await self._release()

    async def _turn(self, prompt: _Prompt) -> None:
        await self._job.emit(TURN, {"message_id": prompt.message_id, "state": "started"})
        if prompt.cancelled:
            await self._ended(prompt.message_id, stop_reason="cancelled")
            return
        self._stop.clear()
        self._running = prompt
        try:
            hosted = await self._agent()
            turn = await hosted.turn(prompt.blocks, self._stop.wait)
        except BudgetExhausted:
            raise
        except ArcpError as error:
            if self._hosted is not None and self._hosted.failures:
                raise  # an update could not be emitted: the job is over
            await self._ended(prompt.message_id, error=job_failed(error, self._job))
            return
        finally:
            self._running = None
        usage = None if turn.usage is None else msgspec.to_builtins(turn.usage)
        await self._ended(prompt.message_id, stop_reason=turn.stop_reason, usage=usage)

    async def _ended(
        self,
        message_id: str,
        *,
        stop_reason: str | None = None,
        usage: Any = None,
        error: JobFailed | None = None,
    ) -> None:
        body: dict[str, Any] = {"message_id": message_id, "state": "ended"}
        if error is not None:
            body["error"] = _told(error)
        else:
            body["stop_reason"] = stop_reason
            if usage is not None:
                body["usage"] = usage
        await self._job.emit(TURN, body)

    # ------------------------------------------------------------------ the agent

    async def _agent(self) -> HostedSession:
        """Return the session of the running agent. Starts the agent if it does not run."""
        async with self._opening:
            if self._gone:
                await self._release()
            if self._hosted is None:
                client = self._connect(self._directory)
                await client.connect()
                try:
                    self._hosted = await open_session(
                        client, self._job, self._session_id, exact=True
                    )
                except BaseException:
                    await client.close(drain=0)
                    raise
                self._session_id = self._hosted.session.id
                client.on_closed(self._agent_closed)
            return self._hosted

    def _agent_closed(self, _: object) -> None:
        self._gone = True

    async def _release(self) -> None:
        """End the agent's program, if it runs."""
        hosted, self._hosted = self._hosted, None
        self._gone = False
        if hosted is not None:
            await hosted.client.close()


def _can_continue(hosted: HostedSession) -> bool:
    offers = hosted.client.capabilities
    sessions = offers.session_capabilities
    return bool(offers.load_session or (sessions and sessions.resume is not None))


def _told(error: JobFailed) -> dict[str, Any]:
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.details is not None:
        told["details"] = error.details
    return told
