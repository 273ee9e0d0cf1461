"""The command ``arcp-client`` (extra ``cli``): reads arguments, runs a command, exits with a code.

`app` builds the parser from the functions in `commands`. These call `actions`, which run the
commands. `view` shows jobs.
"""

from __future__ import annotations

import gc
import importlib.util
import sys

__all__ = ["main"]

_YOUNG = 50_000
"""New objects until the next collection of garbage, for as long as the command runs.

A command makes tens of thousands at its start, none of them garbage; with the default of 700, they
are looked at again and again.
"""
_EXTRA = ("typer", "rich", "platformdirs")
_MISSING = """\
arcp-client: the command line needs the extra "cli"; there is no module {name!r}.
Install it with:  pip install 'arcp-client[cli]'"""


def main() -> None:
    """The entry point of ``arcp-client``. Always ends with SystemExit."""
    from arcp_client.cli.streams import replace_closed

    replace_closed()
    gc.set_threshold(_YOUNG)
    for name in _EXTRA:
        if importlib.util.find_spec(name) is None:  # imported on use
            print(_MISSING.format(name=name), file=sys.stderr)
            sys.exit(2)
    from arcp_client.cli.app import run

    sys.exit(run())
