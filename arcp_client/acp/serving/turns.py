"""A session with an agent that takes one input and returns one result: each prompt is a job.

The key of each job is made of the session, the job before it and the prompt. So a prompt that is
sent again, because its answer did not arrive, finds the job that runs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

from arcp_client._wire.stamp import canonical
from arcp_client.acp.errors import Refusal
from arcp_client.acp.serving.ids import trace_of
from arcp_client.acp.serving.session import ServedSession
from arcp_client.acp.serving.transcript import JobOver, Transcript, TurnEnded, TurnStarted
from arcp_client.job import JobHandle

__all__ = ["TurnsSession"]


class TurnsSession(ServedSession):
    """A session of many jobs, one after another; see `ServedSession`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._job: JobHandle | None = None
        self._last = ""  # the last job that is known
        self._before = ""  # the job before it
        self._found = False  # the last job runs, and another process started it
        self._ended = asyncio.Event()
        self._ended.set()

    async def create(self, cwd: str) -> dict[str, Any]:
        """Begin a new session; see `ServedSession`."""
        self._questions.ask_now()
        return {}

    async def load(self, jobs: Sequence[str], cwd: str, *, replay: bool) -> dict[str, Any]:
        """Continue the session of these jobs; see `ServedSession`."""
        self._muted = not replay
        for job_id in jobs:
            await self._ended.wait()
            self._before, self._last = self._last, job_id
            job = await self._options.client.watch(job_id, history=True)
            await self._begin(job)
        if self._job is not None and not self._ended.is_set():
            await self._options.client.ping()  # the runtime sends the history before the pong
            self._found = not self._ended.is_set()
        self._muted = False
        await self.tell_state()
        self._questions.ask_now()
        return {}

    async def prompt(self, blocks: list[Any], key: str | None) -> dict[str, Any]:
        """Run a prompt; see `ServedSession`."""
        async with self._order:
            if self._found:
                self._found = False
                job = await self._submit(blocks, key, after=self._before)
                if job.id == self._last:
                    self._job = job  # the same prompt, whose turn this editor now waits for
                    return await self._outcome(job.id)
            await self._ended.wait()
            job = await self._submit(blocks, key, after=self._last)
            if job.id not in self._prompts:
                self.mine.add(job.id)
                await self._prompted(job.id, blocks)
                self._before, self._last = self._last, job.id
                await self._begin(job)
            return await self._outcome(job.id)

    async def cancel(self) -> None:
        """Cancel the turn."""
        if self._job is not None and not self._ended.is_set():
            await self._options.client.cancel_job(self._job.id)

    # ------------------------------------------------------------------ jobs

    async def _submit(self, blocks: list[Any], key: str | None, *, after: str) -> JobHandle:
        text = _text(blocks)
        parts = [self.id, "key", key] if key is not None else [self.id, after, text]
        return await self._options.client.submit(
            self._options.agent,
            text,
            idempotency_key=f"acp:{hashlib.sha256(canonical(parts)).hexdigest()[:32]}",
            trace_id=trace_of(self.id),
            **self._options.submission(),
        )

    async def _begin(self, job: JobHandle) -> None:
        self._job = job
        await self._apply(TurnStarted(job.id))
        self._ended = asyncio.Event()
        self._link.owner.spawn(self._follow(job, Transcript(conversation=False)), name="turn")

    async def _over(self, over: JobOver) -> None:
        assert self._job is not None
        if over.error is not None:
            await self._end(TurnEnded(self._job.id, error=over.error))
        else:
            reason = "cancelled" if over.cancelled else "end_turn"
            await self._end(TurnEnded(self._job.id, {"stopReason": reason}))
        self._ended.set()


def _text(blocks: list[Any]) -> str:
    """Return the text of a prompt; files and links as their URIs."""
    parts = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and isinstance(block.get("text"), str):
            parts.append(block["text"])
        elif kind == "resource" and isinstance(block.get("resource"), dict):
            resource = block["resource"]
            parts.append(str(resource.get("text") or resource.get("uri") or ""))
        elif kind == "resource_link":
            parts.append(str(block.get("uri", "")))
        else:
            raise Refusal(f"the agent takes text, not {kind!r:.40}", number=-32602)
    return "\n".join(parts)
