"""Commands run in a pseudo-terminal, ``docs/images/*.svg`` out: what a person sees of them.

Run it after a change of what commands show. Everything runs for real, against agents of this file.
Only what differs from run to run is replaced: ids, moments, durations, ports. So the pictures are
the same from one run to the next, unless the commands changed.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arcp_client import JobContext, Runtime  # noqa: E402
from tests.e2e.shell import Env, Screen, fresh, screen, serving  # noqa: E402

IMAGES = ROOT / "docs" / "images"

# ------------------------------------------------------------------------- agents


def agents(auth: Any = None) -> Runtime:
    """What the pictures show at work; served by ``arcp-client serve --agents``."""
    runtime = Runtime(name="samples", version="1.0.0", auth=auth)

    @runtime.agent("code-refactor", version="2.0.0")
    async def refactor(input: Any, job: JobContext) -> None:
        await job.status("planning", "three modules use the old name")
        await job.thought("The tests import it, too; they are changed last.")
        await job.delegate("test-runner", lease={"tool.call": ["pytest"]})
        for n, module in enumerate(("models", "views", "forms"), 1):
            async with job.tool("rename", {"in": f"src/{module}.py", "to": "Account"}) as call:
                await asyncio.sleep(0.05)
                call.result = {"changed": 4 * n}
            await job.metric("cost.inference", 0.35, unit="USD")
            await job.progress(n, total=4, units="modules")
            await job.chunk(f"- {module}: {4 * n} names changed\n")
        await job.log("src/legacy.py has no tests", level="warn")
        await job.status("editing", "src/legacy.py")
        await job.tool_call("rename", {"in": "src/legacy.py", "to": "Account"})
        await job.cancelled.wait()

    @runtime.agent("test-runner", version="1.4.2")
    async def tests(input: Any, job: JobContext) -> None:
        await job.log("collected 120 tests")
        await job.progress(84, total=120, units="tests")
        await job.cancelled.wait()

    @runtime.agent("echo", version="1.0.0")
    async def echo(input: Any, job: JobContext) -> Any:
        return input

    return runtime


# ------------------------------------------------------------------------- shots


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture.

    Attributes:
        name: of the file.
        words: the command's arguments.
        seen: what must be there before it is taken; ``None`` waits for the command's end.
        rows: lines of the terminal.
        since: the first line that is kept, by what it begins with.
    """

    name: str
    words: tuple[str, ...]
    seen: str | None = None
    rows: int = 24
    since: str | None = None


GRANTS = ("--lease", "tool.call=*", "--lease", "agent.delegate=*", "--lease", "cost.budget=USD:5")
SHOTS = (
    Shot(
        "run",
        ("run", "code-refactor", *GRANTS),
        r"(?s)legacy.*3/4.*84/120.*→ rename +\d s",
        rows=26,
    ),
    Shot("jobs", ("jobs",)),
    Shot("doctor", ("doctor",)),
    Shot("demo", ("demo", "--fast"), since="job "),
)
COLUMNS = 100

IDS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MOMENT = "10:24:07"


class Scrubber:
    """Replaces what differs from run to run by something of the same length."""

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}

    def __call__(self, line: str) -> str:
        line = re.sub(r"\bjob_[0-9A-Z]{26}\b", self._job, line)
        for pattern, told in (
            (r"\b\d\d-\d\d \d\d:\d\d:\d\d\b", f"05-13 {MOMENT}"),
            (r"\b\d\d:\d\d:\d\d\b", MOMENT),
            (r"(?<=127\.0\.0\.1:)\d{4,5}\b", "7777"),
            (r"(?<= )\d s(?= |$)", "3 s"),
            (r"(?<= )0\.\d s(?= |$)", "0.1 s"),
        ):
            line = re.sub(pattern, lambda found, told=told: told.ljust(len(found[0])), line)
        return line

    def _job(self, found: re.Match[str]) -> str:
        n = len(self._jobs)
        fixed = f"job_01KRK5T8W0{IDS[10 + n] * 3}V7M3Q9X2C6B4D"
        return self._jobs.setdefault(found[0], fixed)


def taken(shot: Shot, env: Env) -> str:
    """The picture of a shot."""
    with screen(env, *shot.words, rows=shot.rows, columns=COLUMNS) as seen:
        seen.translate = brighten
        if shot.seen is None:
            seen.to_the_end()
        else:
            seen.until(shot.seen)
        lines = list(styled(seen, Scrubber()))
    if shot.since is not None:
        starts = [n for n, line in enumerate(lines) if line.plain.lstrip().startswith(shot.since)]
        lines = lines[starts[-1] :]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    command = " ".join(f"'{word}'" if "*" in word else word for word in shot.words)
    if len(command) > COLUMNS - 20:
        command = f"{command[: COLUMNS - 20]} …"
    return drawn([Text("$ ", "bold green").append(f"arcp-client {command}", "bold"), *lines], shot)


def brighten(text: str) -> str:
    """The emulator knows no dim text: grey is what it looks like."""
    return re.sub(r"\x1b\[([\d;]*)m", _grey, text)


def _grey(found: re.Match[str]) -> str:
    codes = found[1].split(";")
    if "2" not in codes:
        return found[0]
    return f"\x1b[{';'.join([*(code for code in codes if code != '2'), '90'])}m"


def styled(seen: Screen, scrub: Scrubber) -> Iterator[Text]:
    """The lines on a screen with their styles."""
    names = {"brown": "yellow", "brightblack": "bright_black"}
    for row, plain in enumerate(seen.lines):
        line = Text(scrub(plain))
        for column, cell in enumerate(seen.cells(row)):
            colour = None if cell.fg == "default" else names.get(cell.fg, cell.fg)
            style = Style(color=colour, bold=cell.bold or None, italic=cell.italics or None)
            line.stylize(style, column, column + 1)
        yield line


# ------------------------------------------------------------------------- pictures

THEME = TerminalTheme(
    (24, 27, 33),
    (214, 218, 226),
    [(60, 64, 72), (240, 113, 120), (126, 201, 138), (229, 192, 104),
     (110, 168, 240), (198, 146, 233), (97, 195, 204), (214, 218, 226)],
    [(134, 142, 156), (240, 113, 120), (126, 201, 138), (229, 192, 104),
     (110, 168, 240), (198, 146, 233), (97, 195, 204), (255, 255, 255)],
)  # fmt: skip
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def drawn(lines: list[Text], shot: Shot) -> str:
    """Lines as a picture of a terminal; nothing of it is loaded from anywhere."""
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor",
        legacy_windows=False, _environ={},
    )  # fmt: skip
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    picture = console.export_svg(
        title=f"arcp-client {shot.words[0]}", theme=THEME, code_format=FORMAT, unique_id=shot.name
    )
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


@contextmanager
def served() -> Iterator[Env]:
    """A fresh home, and a runtime that a few jobs ran on."""
    with tempfile.TemporaryDirectory() as home:
        env = fresh(Path(home))
        env["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parent}"
        env["TZ"] = "UTC"
        with serving(env, "--agents", "generate_screenshots:agents") as (url, _):
            env["ARCP_URL"] = url
            with screen(env, "run", "echo") as first:
                first.to_the_end()
            yield env


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with served() as env:
        for shot in SHOTS:
            (IMAGES / f"{shot.name}.svg").write_text(taken(shot, env), encoding="utf-8")
            print(f"docs/images/{shot.name}.svg")


if __name__ == "__main__":
    main()
