"""Writes ``docs/reference/interop.md`` from the dialects and the interoperability tests.

    python scripts/generate_interop_page.py

What the page says of a runtime is stated in the runtime's file in `arcp_client._dialects`, and
checked by `tests/interop`. The rules are those of `tests/interop/rules.py`. Each has its tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "interop.md"
sys.path.insert(0, str(ROOT))

from arcp_client._dialects import DIALECTS, Dialect  # noqa: E402
from tests.interop.capabilities import PROBES, RUNTIMES, outcome_of  # noqa: E402
from tests.interop.rules import ACCEPT, NOTES, SEND, shown  # noqa: E402

HEAD = """\
# Interoperability

<!-- Written by scripts/generate_interop_page.py from arcp_client/_dialects and the tests. -->

Public runtimes speak ARCP v1.1 in several ways, and few of their clients work with the runtimes of
others. One `Client` works with all runtimes of the specification's family: it recognises the
dialect by the welcome and keeps to the rules below. `Client(dialect=…)` overrules what it
recognises.

`arcp-client doctor URL` examines a runtime and lists its deviations.

## What an application gets

Each cell is checked by a test. *This package* is its own `Runtime`. *Python* is checked twice:
live, with the published reference package over a socket, and played by a
`testing.ScriptedRuntime`. The others are played, since they need platforms of their own; for the
Python and TypeScript runtimes, recorded conversations are replayed as well.

"""

RUNTIMES_HEAD = """
## What single runtimes do differently

`arcp-client doctor` shows the same. The files after each table have the tests.
"""

LEGEND = """
## What else to know

Each paragraph is shown by the tests in the files after it.
"""

RULES = """
## Rules

Each rule is shown by the tests that are marked with its name (`@rule("accept-1")`).

### What is accepted
"""

SENT = "\n### What is sent\n"


def page() -> str:
    """The page as it is to be."""
    return "".join(
        [
            HEAD,
            *table(),
            RUNTIMES_HEAD,
            *(piece for name in RUNTIMES for piece in runtime(DIALECTS[name])),
            LEGEND,
            *rules("note", NOTES),
            RULES,
            *rules("accept", ACCEPT),
            SENT,
            *rules("send", SEND),
        ]
    )


def table() -> Iterator[str]:
    """The probes and their outcomes with each runtime."""
    yield "| | " + " | ".join(DIALECTS[name].title for name in RUNTIMES) + " |\n"
    yield "|---" * (len(RUNTIMES) + 1) + "|\n"
    for name, probe in PROBES.items():
        cells = (outcome_of(name, runtime) for runtime in RUNTIMES)
        yield f"| {probe.title} | " + " | ".join(cells) + " |\n"


def runtime(kind: type[Dialect]) -> Iterator[str]:
    """The deviations of one runtime."""
    if not kind.deviations:
        return
    yield f"\n### {kind.title}\n\nRecognised by its welcome: {kind.mark}.\n\n"
    yield "| in | what it does | what the client does |\n|---|---|---|\n"
    files: set[str] = set()
    for capability, section, seen, remedy in kind.deviations:
        files |= tests_of(f"{kind.name}: {capability}")
        yield f"| {capability} ({section}) | {seen} | {remedy} |\n"
    yield f"\n{listed(files)}\n"


def rules(kind: str, numbered: Mapping[int, str]) -> Iterator[str]:
    """The rules of one kind."""
    for number, text in numbered.items():
        yield f"\n{number}. {text}\n\n    {listed(tests_of(f'{kind}-{number}'))}\n"


def tests_of(rule: str) -> set[str]:
    """The files with tests that show a rule."""
    return {file for name, file, _ in MARKS if name == rule}


def listed(files: Iterable[str]) -> str:
    return ", ".join(f"`{file}`" for file in sorted(files))


MARKS = list(shown(ROOT / "tests"))

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
