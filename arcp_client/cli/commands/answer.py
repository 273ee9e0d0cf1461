"""Declares ``arcp-client answer``, which answers a question of an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli.options import ConnectionOptions, JobArgument, OutputOptions


def answer(
    job: JobArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question's id.")],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            help="The answer: the number or the label of an option, a text, or JSON.",
        ),
    ],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Idempotency key: repeating the command with it has no effect."
        ),
    ] = None,
    at: ConnectionOptions,
    form: OutputOptions,
) -> int:
    """Answer a question that the agent of a job has asked.

    The runtime accepts only the first answer. If someone else has answered already, the command
    says who, when and what.
    """
    from arcp_client.cli.actions import answer as action
    from arcp_client.cli.connection import place

    return action.answer(place(at, form), job, question, value, key=key)
