"""Reads prompts: the inputs of hosted jobs, and the messages to them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from arcp_client.acp import schema
from arcp_client.acp._decode import Misshapen, as_json, decode
from arcp_client.errors import JobFailed

__all__ = ["Task", "inside", "parse"]


@dataclass(frozen=True, slots=True)
class Task:
    """The input of a job.

    Attributes:
        prompt: the content blocks of the prompt.
        session: the ACP session to continue, if any.
        cwd: the directory, relative to the agent's.
        mode: the mode to select first.
    """

    prompt: list[Any]
    session: str | None = None
    cwd: str | None = None
    mode: str | None = None


def parse(input: Any) -> Task:
    """Read an input or a message.

    Raises:
        JobFailed: it is no prompt.
    """
    if isinstance(input, str):
        return Task([schema.TextContent(text=input)])
    if not isinstance(input, dict) or "prompt" not in input:
        raise JobFailed("the input must be a prompt, or an object with one", code="INVALID_REQUEST")
    for name in ("session", "cwd", "mode"):
        if not isinstance(input.get(name), str | None):
            raise JobFailed(f"input.{name} must be a string", code="INVALID_REQUEST")
    prompt = input["prompt"]
    blocks = [prompt] if isinstance(prompt, str | dict) else prompt
    if not isinstance(blocks, list) or not blocks:
        raise JobFailed("input.prompt must be text or content blocks", code="INVALID_REQUEST")
    return Task(
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


def inside(root: str, cwd: str | None) -> str:
    """Return a directory under ``root``.

    Raises:
        JobFailed: it is none, or lies elsewhere.
    """
    directory = os.path.realpath(os.path.join(root, cwd or "."))  # noqa: PTH118
    if os.path.commonpath([root, directory]) != root or not os.path.isdir(directory):  # noqa: PTH112
        raise JobFailed(
            f"cwd {cwd!r} is not a directory under the agent's working directory",
            code="INVALID_REQUEST",
        )
    return directory
