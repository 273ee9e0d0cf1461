"""Prints the versions of the package and its libraries."""

from __future__ import annotations

import json
import platform
from importlib import metadata

from arcp_client import __version__
from arcp_client.cli.exit_codes import Exit
from arcp_client.cli.output_format import Output

__all__ = ["version"]

_LIBRARIES = ("aiohttp", "msgspec", "pydantic", "reactivex", "tenacity", "typer", "rich")


def version(output: Output | None) -> Exit:
    """Print the installed versions."""
    libraries = {}
    for name in _LIBRARIES:
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            libraries[name] = "missing"
    if output in (Output.JSON, Output.JSONL):
        print(
            json.dumps(
                {
                    "schema": "arcp-client.version/1",
                    "arcp_client": __version__,
                    "protocol": "1.1",
                    "python": platform.python_version(),
                    "libraries": libraries,
                }
            )
        )
        return Exit.SUCCESS
    print(f"arcp-client {__version__} (ARCP 1.1)")
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name, number in libraries.items():
        print(f"{name} {number}")
    return Exit.SUCCESS
