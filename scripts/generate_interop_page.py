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

Public runtimes implement ARCP v1.1 in several ways, and few of their clients work with the runtimes
of others. One `Client` works with all of these runtimes. The way in which a runtime deviates from
the specification is its *dialect*. The client recognises the dialect by the runtime's welcome (its
answer to the handshake), and then keeps to the rules below. `Client(dialect=…)` selects a dialect
regardless of the welcome.

`arcp-client doctor URL` examines a runtime and lists its deviations. Words such as history, gap and
acceptance are explained in the [glossary](../explanation/data-flow.md#words).

## What an application gets

A test checks each cell. *This package* is the package's own `Runtime`. The tests of *Python* run
twice: over a socket against the published reference package, and against a
`testing.ScriptedRuntime`, which imitates the runtime. The other runtimes need platforms of their
own, so their tests run against a `ScriptedRuntime` only. For Python and TypeScript, tests also
replay recorded sessions.

"""

RUNTIMES_HEAD = """
## How each runtime deviates

`arcp-client doctor` also shows these deviations. The tests are in the files after each table.
"""

LEGEND = """
## What else to know

The tests that show a paragraph are in the files after it.
"""

RULES = """
## Rules

The tests that show a rule are in the files after it; they are marked with the name of the rule
(`@rule("accept-1")`).

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
