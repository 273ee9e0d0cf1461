"""CPU time of starting: imports, a first client, the command line, completion; prints JSON.

Each way is a fresh interpreter; what counts are the ratios within a round to the libraries that the
way stands on. The wall clock of a busy machine says nothing about an import.

    python benchmarks/bench_start.py [--rounds 15] [--only TEXT] [--write]

A client should take at most 1.25 × its libraries, a completion at most 1.5 × ``import typer``, an
ACP client at most 0.5 × the official SDK. ``--write`` keeps the result in results.json.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from rounds import cpu_ms, footer, interleaved, machine, quartiles, report, spread, table

COMMAND = shutil.which("arcp-client", path=str(Path(sys.executable).parent)) or "arcp-client"
OURS = "from arcp_client import Client; Client('ws://127.0.0.1:1/x')"
TYPED = "import aiohttp, msgspec"
JSON = "import aiohttp, json"
REFERENCE = (
    "from arcp import ClientInfo, WebSocketTransport; from arcp.client import ARCPClient; "
    "ARCPClient(client=ClientInfo(name='bench', version='1'), token='t')"
)
LIBRARIES = (
    "import aiohttp, pydantic, msgspec, reactivex, tenacity, ulid; "
    "from pydantic import BaseModel, TypeAdapter"
)
TYPER = "import typer"
SDK = "import acp"
BASES = {LIBRARIES: "the first line", SDK: f"`{SDK}`", TYPER: f"`{TYPER}`"}
STATEMENTS = {  # and the base of each
    LIBRARIES: LIBRARIES,
    OURS: LIBRARIES,
    "from arcp_client import Client, StdioConnector; Client(StdioConnector(['agent']))": LIBRARIES,
    TYPED: LIBRARIES,
    JSON: LIBRARIES,
    REFERENCE: LIBRARIES,
    SDK: SDK,
    "from arcp_client.acp import AcpClient; AcpClient(['agent'])": SDK,
    "import arcp_client.acp": SDK,
    TYPER: TYPER,
}
COMPLETIONS = {
    "completion of a command": ("arcp-client ru", 1),
    "completion of an option": ("arcp-client run --o", 2),
    "completion of a profile": ("arcp-client run --profile ''", 3),
}
COMMANDS = {
    "arcp-client --help": (COMMAND, "--help"),
    **{
        name: (
            "/usr/bin/env", "_ARCP_CLIENT_COMPLETE=complete_bash", f"COMP_WORDS={line}",
            f"COMP_CWORD={word}", COMMAND,
        )
        for name, (line, word) in COMPLETIONS.items()
    },
}  # fmt: skip
WAYS = {
    **{statement: (sys.executable, "-c", statement) for statement in STATEMENTS},
    **COMMANDS,
}


def shown(result: dict[str, Any]) -> str:
    rows = [
        [
            f"`{row['what']}`" if row["what"] in STATEMENTS else row["what"],
            spread(row["ratio"]),
            "" if row["base"] == row["what"] else BASES[row["base"]],
        ]
        for row in result["rows"]
    ]
    return table(("by CPU time", "×", "of"), rows) + footer(result)


def measured(rounds: int, only: str = "") -> dict[str, Any]:
    bases = {**STATEMENTS, **dict.fromkeys(COMMANDS, TYPER)}
    chosen = [way for way in WAYS if only in way]
    ways = [way for way in WAYS if way in chosen or way in {bases[each] for each in chosen}]
    for way in ways:  # once before, so that all bytecode is there
        cpu_ms(*WAYS[way])
    found = interleaved(ways, rounds, lambda way: cpu_ms(*WAYS[way]))
    return {
        **machine(),
        "rounds": rounds,
        "rows": [
            {
                "what": way,
                "base": bases[way],
                "cpu_ms": quartiles(round_[way] for round_ in found),
                "ratio": quartiles(round_[way] / round_[bases[way]] for round_ in found),
            }
            for way in ways
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="only rows whose name holds this, and bases")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    result = measured(options.rounds, options.only)
    report("start", result, write=options.write)
    print(shown(result), file=sys.stderr)


if __name__ == "__main__":
    main()
