"""Prints the settings that commands use."""

from __future__ import annotations

from typing import Any

from arcp_client.cli.exit_codes import Exit
from arcp_client.cli.output_format import Output
from arcp_client.cli.settings import Setting, settle
from arcp_client.cli.view import terminal

__all__ = ["show"]


def show(*, profile: str | None, origin: bool, output: Output | None) -> Exit:
    """Print each setting, optionally with its origin."""
    settled = settle(profile=profile)
    source = settled.token_from
    token = Setting("none", "default") if source is None else Setting("(set)", source.origin)
    rows = {
        "profile": settled.profile,
        "url": settled.url,
        "output": settled.output,
        "token": token,
    }
    if output in (Output.JSON, Output.JSONL):
        document: dict[str, Any] = {"schema": "arcp-client.config/1"}
        for name, row in rows.items():
            document[name] = {"value": row.value, "origin": row.origin} if origin else row.value
        print(terminal.as_json(document))
        return Exit.SUCCESS
    for name, row in rows.items():
        more = f"  ({row.origin})" if origin else ""
        print(terminal.harmless(f"{name:<8} {row.value}{more}"))
    return Exit.SUCCESS
