"""``tests/contract/requirements.py`` in, ``docs/reference/conformance.md`` out.

Run it after a change of the list; ``--check`` writes nothing and fails if the page is out of date.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.contract.requirements import REQUIREMENTS, Requirement  # noqa: E402
from tests.contract.test_manifest import naming  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "conformance.md"

TITLES = {
    "4": "Transport", "5": "Wire format", "6": "Sessions", "7": "Jobs", "8": "Job events",
    "9": "Leases", "10": "Delegation", "11": "Trace propagation", "12": "Errors", "14": "Security",
}  # fmt: skip

HEAD = """# Conformance

This page lists what the ARCP 1.1 specification requires of a runtime, and what the embedded
`Runtime` does. RULE marks a requirement that the text states without MUST, SHOULD or MAY. Each line
has tests in `tests/contract`, which run over WebSocket, over stdio and inside one process. A line
without a test fails the test suite, and so does a test without a line. A line that *binds clients*,
or another party, names who has to keep it.

This page is generated: `python scripts/generate_conformance.py`.
"""


def page() -> str:
    """The page as it should be."""
    tests = naming()
    parts = [HEAD, _divergences()]
    for number, group in groupby(REQUIREMENTS, key=lambda each: each.section.split(".")[0]):
        rows = [_row(each, tests.get(each.id, [])) for each in group]
        head = f"## §{number} {TITLES[number]}\n\n| | § | level | behaviour | tests |\n"
        parts.append(head + "| --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _divergences() -> str:
    rows = [f"- **{each.id}** {each.divergence}" for each in REQUIREMENTS if each.divergence]
    return "## Where the runtime differs from the specification\n\n" + "\n".join(rows) + "\n"


def _row(each: Requirement, tests: list[str]) -> str:
    if each.elsewhere:
        shown = f"binds clients: `{each.elsewhere}`"
    elif each.free:
        shown = f"binds {each.free}"
    else:
        shown = "<br>".join(f"`{name.rpartition('::')[2]}`" for name in tests)
    behaviour = each.behaviour + (" *Differs, see above.*" if each.divergence else "")
    return f"| {each.id} | {each.section} | {each.level} | {behaviour} | {shown} |"


def main() -> int:
    """Write the page, or only look whether it is right."""
    wanted = page()
    if "--check" not in sys.argv:
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE} is out of date: run python scripts/generate_conformance.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
