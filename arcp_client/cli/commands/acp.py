"""Declares ``arcp-client acp``, a conversation with an ACP agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def acp(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...", help="The agent's program and its arguments, or its URL."
        ),
    ],
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            "-p",
            metavar="TEXT",
            help="Send only this prompt, and exit at the end of the turn.",
        ),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Write each update as a JSON document in its own line.")
    ] = False,
    cwd: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="The agent's working directory, in which it may read files."
        ),
    ] = ".",
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Continue the session with this id.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the latest session in this directory.")
    ] = False,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="List the sessions in this directory, and exit.")
    ] = False,
    export: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the session's history to FILE (.md: Markdown, else JSON lines), and exit.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="Allow tools of this kind, such as read. May be repeated."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let the agent write files in DIR as well.")
    ] = False,
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Versions of the protocol to speak, the preferred one first; 1,2 by default.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the token for the agent behind a URL."),
    ] = None,
) -> int:
    """Talk to an agent over the Agent Client Protocol (ACP).

    For example: arcp-client acp opencode acp. A URL, such as wss://agents.example/acp or
    https://agents.example/acp, names an agent on another machine. Such an agent cannot use files
    and commands of this machine; its token comes from ARCP_ACP_TOKEN or --token-file.
    Ctrl-C cancels the turn; a second Ctrl-C ends the agent. On a terminal, the command asks you
    when the agent requests a permission. Without a terminal, it rejects the request unless
    --allow covers it. --resume continues the latest conversation, if the agent can load sessions.
    """
    from arcp_client.cli.actions import acp as action

    return action.acp(
        command, prompt=prompt, json_lines=json_lines, cwd=cwd, session=session, resume=resume,
        sessions=sessions, export=export, allow=allow or (), write=write, versions=versions,
        token_file=token_file,
    )  # fmt: skip
