"""What an agent wants to do in, the lease's yes or no out: permissions, files, terminals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath

from arcp_client.acp import schema
from arcp_client.acp.errors import INVALID_PARAMS, Refusal
from arcp_client.acp.files import LocalFiles
from arcp_client.acp.permissions import Answer, PermissionRequest, Policy
from arcp_client.acp.terminals import LocalTerminals
from arcp_client.errors import ArcpError
from arcp_client.runtime import JobContext

__all__ = ["LeasedFiles", "LeasedTerminals", "lease_policy", "operations"]

_FILES = {
    "read": "fs.read",
    "search": "fs.read",
    "edit": "fs.write",
    "delete": "fs.write",
    "move": "fs.write",
}


def operations(call: schema.ToolCall, cwd: str) -> Iterator[tuple[str, str]]:
    """What a tool call does, as capability and target (§9.3).

    Reading and searching is ``fs.read``, editing, deleting and moving ``fs.write`` on each location
    (the working directory if none is named); fetching is ``net.fetch`` on its URL. Everything else,
    and what does not say enough, is ``tool.call`` on the tool's name or kind.
    """
    capability = _FILES.get(call.kind or "")
    url = call.raw_input.get("url") if isinstance(call.raw_input, dict) else None
    if capability is not None:
        for path in [location.path for location in call.locations] or [cwd]:
            yield capability, os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118
    elif call.kind == "fetch" and isinstance(url, str):
        yield "net.fetch", url
    else:
        yield "tool.call", call.name or call.kind or "other"


def lease_policy(job: JobContext, cwd: str) -> Policy:
    """Allow, each time anew, what the job's lease covers; reject everything else."""

    def policy(request: PermissionRequest) -> Answer:
        try:
            for capability, target in operations(request.tool_call, cwd):
                job.authorize(capability, target)
        except ArcpError:
            return False
        return True

    return policy


class LeasedFiles(LocalFiles):
    """Files under one directory, as far as the job's lease goes."""

    def __init__(self, job: JobContext, root: str) -> None:
        super().__init__(root)
        self._job = job

    def allow(self, path: str, *, writing: bool) -> None:
        """What the lease's ``fs.read`` or ``fs.write`` says."""
        _authorize(self._job, "fs.write" if writing else "fs.read", path)


class LeasedTerminals(LocalTerminals):
    """Commands here, as far as the job's lease goes: ``tool.call`` on the program's name."""

    def __init__(self, job: JobContext) -> None:
        super().__init__()
        self._job = job

    async def create(self, request: schema.CreateTerminalRequest) -> str:
        """As `LocalTerminals`, after the lease's ``tool.call``."""
        _authorize(self._job, "tool.call", PurePath(request.command).name)
        return await super().create(request)


def _authorize(job: JobContext, capability: str, target: str) -> None:
    try:
        job.authorize(capability, target)
    except ArcpError as error:
        raise Refusal(f"not allowed: {error}", number=INVALID_PARAMS) from None
