"""The tests' tables in, ``docs/reference/interop.md`` out.

    python scripts/generate_interop_page.py

What the page says about a runtime is what `tests/interop/test_capabilities.py` checks, cell by
cell; the rules are those of `tests/interop/rules.py`, each with the tests that show it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "interop.md"
sys.path.insert(0, str(ROOT))

from tests.interop.capabilities import RUNTIMES, TABLE  # noqa: E402
from tests.interop.rules import ACCEPT, NOTES, SEND, shown  # noqa: E402

NAMES = {
    "arcp-client": "this package",
    "spec": "specification",
    "python": "Python",
    "typescript": "TypeScript",
    "csharp": "C#",
    "java": "Java",
    "go": "Go",
    "ruby": "Ruby",
}

HEAD = """\
# Interoperability

<!-- Written by scripts/generate_interop_page.py from the tests; change those. -->

Public runtimes speak ARCP v1.1 in several ways, and no two of their clients and runtimes get
along. One `Client` talks to all of the specification's family: it recognises the dialect by the
welcome and keeps to the rules below. Nothing has to be chosen; `Client(dialect=…)` overrules what
is recognised.

`arcp-client doctor URL` examines a runtime and says what of this holds for it.

## What an application gets

Each cell is checked by a test. *This package* is its own `Runtime`. *Python* is checked twice:
live, with the published reference package over a socket, and played by a
`testing.ScriptedRuntime`. The others are played, since they need platforms of their own; for the
Python and TypeScript runtimes, recorded conversations are replayed as well.

"""

LEGEND = """
## What else to know

Each paragraph is shown by the tests whose files follow it.
"""

RULES = """
## Rules

Each is shown by the tests that it is named in (`@rule("accept-1")`), and no test names another.

### What is accepted
"""


def page() -> str:
    """The page as it is to be."""
    return "".join(
        [
            HEAD,
            *table(),
            LEGEND,
            *rules("note", NOTES),
            RULES,
            *rules("accept", ACCEPT),
            SENT,
            *rules("send", SEND),
        ]
    )


SENT = "\n### What is sent\n"


def table() -> Iterator[str]:
    """The capabilities and the runtimes."""
    yield "| | " + " | ".join(NAMES[name] for name in RUNTIMES) + " |\n"
    yield "|---" * (len(RUNTIMES) + 1) + "|\n"
    for probe, row in TABLE.items():
        cells = (row.get(name) or row["*"] for name in RUNTIMES)
        yield f"| {probe} | " + " | ".join(cells) + " |\n"


def rules(kind: str, numbered: Mapping[int, str]) -> Iterator[str]:
    """The rules of one kind, each with how many tests show it."""
    marks: dict[str, set[str]] = {}
    for name, file, _ in shown(ROOT / "tests"):
        marks.setdefault(name, set()).add(file)
    for number, text in numbered.items():
        files = ", ".join(f"`{file}`" for file in sorted(marks.get(f"{kind}-{number}", ())))
        yield f"\n{number}. {text}\n\n    {files}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
