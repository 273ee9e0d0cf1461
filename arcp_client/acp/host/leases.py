"""Limits a hosted agent to the lease of its job: permissions, files and terminals."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import PurePath

import msgspec

from arcp_client.acp import schema
from arcp_client.acp.errors import INVALID_PARAMS, Refusal
from arcp_client.acp.services.files import LocalFiles
from arcp_client.acp.services.permissions import Answer, PermissionRequest, Policy
from arcp_client.acp.services.terminals import LocalTerminals
from arcp_client.errors import ArcpError, PermissionDenied
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
    """Yield the operations of a tool call, as capability and target (§9.3).

    Reading and searching need ``fs.read``; editing, deleting and moving need ``fs.write``. The
    lease must cover each location of the call, or the working directory if it names none. Fetching
    needs ``net.fetch`` on its URL. Every other call, and a call with too little information, needs
    ``tool.call`` on the tool's name or kind.
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
    """Make a policy that allows (once) what the job's lease covers, and rejects everything else."""

    def policy(request: PermissionRequest) -> Answer:
        try:
            for capability, target in operations(request.tool_call, cwd):
                job.authorize(capability, target)
        except ArcpError:
            return False
        return True

    return policy


class LeasedFiles(LocalFiles):
    """Files under one directory, restricted by the job's lease."""

    def __init__(self, job: JobContext, root: str) -> None:
        super().__init__(root)
        self._job = job

    def allow(self, path: str, *, writing: bool) -> None:
        """Require that the lease's ``fs.read`` or ``fs.write`` covers the file."""
        _authorize(self._job, "fs.write" if writing else "fs.read", path)


# Variables that select the program or the code that a command runs: variables of the loader, of
# shells and interpreters, and of programs that start others.
_DECIDING = re.compile(
    r"PATH|HOME|XDG_CONFIG_HOME|SHELL|ENV|SHELLOPTS|BASHOPTS|IFS|PS4|PROMPT_COMMAND|CDPATH|ZDOTDIR"
    r"|CLASSPATH|GCONV_PATH|LOCPATH|NLSPATH|GLIBC_TUNABLES|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER"
    r"|LESSOPEN|LESSCLOSE|SSH_ASKPASS|MAKEFLAGS|PHPRC|PHP_INI_SCAN_DIR|TCLLIBPATH"
    r"|(?:LD_|DYLD_|PYTHON|BASH_|GIT_|NODE_|NPM_CONFIG_|npm_config_|PERL|RUBY|LUA_|JAVA_|_JAVA_"
    r"|JDK_JAVA_|DOTNET_|CORECLR_|COR_|OPENSSL_|RUSTC|CARGO_).*",
    re.DOTALL,
)
_HARMLESS = re.compile(
    r"PYTHON(?:UNBUFFERED|IOENCODING|UTF8|DONTWRITEBYTECODE|HASHSEED)|NODE_ENV|CARGO_TERM_COLOR"
    r"|GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS|(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE))"
)


class LeasedTerminals(LocalTerminals):
    """Local commands, restricted by the job's lease: ``tool.call`` on the program.

    A program's name stands only for the file found on the ``PATH`` of this environment. Every other
    program is named by its path, without symlinks. The agent may set environment variables, except
    those that select the program or the code to run.

    Args:
        job: the job that holds the lease.
        cwd: the default directory of commands.
        env: the environment of the commands; None inherits this process's.
    """

    def __init__(self, job: JobContext, cwd: str, *, env: Mapping[str, str] | None = None) -> None:
        super().__init__(env=env)
        self._job = job
        self._cwd = cwd

    async def create(self, request: schema.CreateTerminalRequest) -> str:
        """Like `LocalTerminals`, after authorizing ``tool.call``."""
        for one in request.env:
            if _DECIDING.fullmatch(one.name) and not _HARMLESS.fullmatch(one.name):
                text = f"{one.name:.80} must not be set here: it selects the executed code"
                raise Refusal(text, number=INVALID_PARAMS)
        if request.cwd is None:
            request = msgspec.structs.replace(request, cwd=self._cwd)
        path = self.environment(request).get("PATH", os.defpath)
        program = await asyncio.to_thread(_program, request.command, request.cwd or "/", path)
        if program is None:
            text = f"{request.command!r:.200} is not a program here"
            raise Refusal(text, number=INVALID_PARAMS)
        name = PurePath(request.command).name
        if await asyncio.to_thread(_program, name, "/", path) != program or not self._covers(name):
            _authorize(self._job, "tool.call", program)
        return await self.start(request, program=program)

    def _covers(self, name: str) -> bool:
        try:
            self._job.authorize("tool.call", name)
        except PermissionDenied:
            return False
        except ArcpError as error:  # expired, or the budget is exhausted
            raise Refusal(f"not allowed: {error}", number=INVALID_PARAMS) from None
        return True


def _program(command: str, cwd: str, path: str) -> str | None:
    """Return the file that a command runs, without symlinks; None if there is none."""
    if "\0" in command:
        return None
    if "/" in command:
        file = os.path.join(cwd, command)  # noqa: PTH118  # absolute if the command is
        there = os.path.isfile(file) and os.access(file, os.X_OK)  # noqa: PTH113
        return os.path.realpath(file) if there else None
    # A relative entry would refer to this process's directory.
    entries = [entry for entry in path.split(os.pathsep) if PurePath(entry).is_absolute()]
    found = shutil.which(command, path=os.pathsep.join(entries)) if entries and command else None
    return None if found is None else os.path.realpath(found)


def _authorize(job: JobContext, capability: str, target: str) -> None:
    try:
        job.authorize(capability, target)
    except ArcpError as error:
        raise Refusal(f"not allowed: {error}", number=INVALID_PARAMS) from None
