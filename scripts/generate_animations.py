"""Makes the moving pictures in ``docs/images``: the live view of a job, and the dashboard.

    python scripts/generate_animations.py [directory]

Both show real runs, against agents of this file. The terminal becomes an SVG file whose frames are
shown one after another; the dashboard becomes an APNG file, made from screenshots.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import sys
import tempfile
import time
import zlib
from html import escape
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arcp_client import Client, JobContext, Runtime  # noqa: E402
from arcp_client.web import serve  # noqa: E402
from scripts.generate_screenshots import THEME, Scrubber, brighten, styled  # noqa: E402
from tests.e2e.shell import fresh, screen, serving  # noqa: E402

IMAGES = ROOT / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome")
LEASE = {"tool.call": ["*"], "agent.delegate": ["*"], "cost.budget": ["USD:5"]}

# ------------------------------------------------------------------------- agents

STEP = 0.6  # seconds between two things that a viewer notices


def agents(auth: Any = None) -> Runtime:
    """What the pictures show at work; served by ``arcp-client serve --agents``."""
    runtime = Runtime(name="samples", version="1.0.0", auth=auth)

    @runtime.agent("code-refactor", version="2.0.0")
    async def refactor(input: Any, job: JobContext) -> str:
        await job.status("planning", "four modules use the old name")
        child = await job.delegate("test-runner", lease={"tool.call": ["pytest"]})
        for n, module in enumerate(("models", "views", "forms", "admin"), 1):
            async with job.tool("rename", {"in": f"src/{module}.py", "to": "Account"}) as call:
                await asyncio.sleep(STEP)
                call.result = {"changed": 4 * n}
            await job.metric("cost.inference", 0.35, unit="USD")
            await job.progress(n, total=4, units="modules")
        await job.status("testing")
        await child.result()
        return "40 names changed in 4 modules"

    @runtime.agent("test-runner", version="1.4.2")
    async def tests(input: Any, job: JobContext) -> str:
        for n in range(1, 7):
            await asyncio.sleep(STEP * 0.8)
            await job.progress(20 * n, total=120, units="tests")
        return "120 passed"

    return runtime


# ------------------------------------------------------------------------- the live view

COLUMNS, ROWS = 90, 16
CHARACTER, LINE = 8.43, 19.0  # pixels
INTERVAL, LAST = 0.3, 4.0  # seconds that a frame is shown, and the last one


def colour_of(segment_style: Any) -> str:
    colour = segment_style.color
    found = THEME.foreground_color if colour is None else colour.get_truecolor(THEME)
    return f"#{found[0]:02x}{found[1]:02x}{found[2]:02x}"


def drawn_line(line: Text) -> str:
    """One line of a terminal as the content of an SVG text."""
    console = Console(width=COLUMNS, force_terminal=True, color_system="truecolor", _environ={})
    pieces, column = [], 0
    for segment in Segment.simplify(line.render(console)):
        text, style = segment.text.rstrip("\n"), segment.style
        if text.strip():
            bold = ' font-weight="bold"' if style and style.bold else ""
            colour = colour_of(style) if style else colour_of(console.get_style("default"))
            lead = len(text) - len(text.lstrip())
            x, shown = (column + lead) * CHARACTER, text.strip()
            length = f'textLength="{len(shown) * CHARACTER:.1f}"'
            pieces.append(
                f'<tspan x="{x:.1f}" {length} fill="{colour}"{bold}>{escape(shown)}</tspan>'
            )
        column += len(text)
    return "".join(pieces)


def animated(frames: list[list[Text]]) -> str:
    """The frames as one SVG; a line that several frames have stands in it once."""
    lines: dict[str, str] = {}
    groups = []
    times = [INTERVAL] * (len(frames) - 1) + [LAST]
    whole, passed = sum(times), 0.0
    for number, frame in enumerate(frames):
        uses = []
        for row, line in enumerate(frame):
            if content := drawn_line(line):
                name = lines.setdefault(content, f"l{len(lines)}")
                uses.append(f'<use href="#{name}" y="{(row + 1) * LINE:g}"/>')
        begin, end = passed / whole, (passed + times[number]) / whole
        passed += times[number]
        keys = f"0;{begin:.4f};{min(end, 1):.4f};1" if number else f"0;{end:.4f};1"
        values = "hidden;visible;hidden;hidden" if number else "visible;hidden;hidden"
        if number == len(frames) - 1:
            keys, values = f"0;{begin:.4f};1", "hidden;visible;visible"
        animation = (
            f'<animate attributeName="visibility" calcMode="discrete" dur="{whole:.2f}s"'
            f' repeatCount="indefinite" keyTimes="{keys}" values="{values}"/>'
        )
        shown = "visible" if number == len(frames) - 1 else "hidden"
        groups.append(f'<g visibility="{shown}">{animation}{"".join(uses)}</g>')
    texts = "\n".join(f'<text id="{name}">{content}</text>' for content, name in lines.items())
    width, height = COLUMNS * CHARACTER + 24, (ROWS + 1) * LINE + 20
    body = "\n".join(groups)
    background = "#{:02x}{:02x}{:02x}".format(*THEME.background_color)
    return f"""\
<svg viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>arcp-client run: the live view of a job</title>
<style>text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
white-space: pre; }}</style>
<defs>
{texts}
</defs>
<rect width="100%" height="100%" rx="8" fill="{background}"/>
<g transform="translate(12, 8)">
{body}
</g>
</svg>
"""


def record_terminal() -> list[list[Text]]:
    """The screens of ``arcp-client run`` while a job runs, without repetitions."""
    frames: list[list[Text]] = []
    with tempfile.TemporaryDirectory() as home:
        env = fresh(Path(home))
        env["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
        env["TZ"] = "UTC"
        lease = [word for name in LEASE for word in ("--lease", f"{name}={LEASE[name][0]}")]
        with serving(env, "--agents", "scripts.generate_animations:agents") as (url, _):
            env["ARCP_URL"] = url
            scrub = Scrubber()
            command = Text("$ ", "bold green").append("arcp-client run code-refactor", "bold")
            with screen(env, "run", "code-refactor", *lease, rows=ROWS, columns=COLUMNS) as seen:
                seen.translate = brighten
                end = time.monotonic() + 60
                while time.monotonic() < end:
                    seen.read()
                    frame = [command, *styled(seen, scrub)]
                    if not frames or [t.plain for t in frame] != [t.plain for t in frames[-1]]:
                        frames.append(frame)
                    if "40 names" in "\n".join(seen.lines):
                        break
                    time.sleep(INTERVAL)
    return frames


# ------------------------------------------------------------------------- the dashboard

SHOTS, PAUSE = 8, 0.4


def chunks_of(picture: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a PNG: their types and data."""
    found, at = [], 8
    while at < len(picture):
        (size,) = struct.unpack_from(">I", picture, at)
        found.append((picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def apng(pictures: list[bytes], seconds: list[float]) -> bytes:
    """Pictures of one size and format as one animated PNG."""
    out = [pictures[0][:8]]

    def put(kind: bytes, data: bytes) -> None:
        out.append(struct.pack(">I", len(data)) + kind + data)
        out.append(struct.pack(">I", zlib.crc32(kind + data)))

    header = dict(chunks_of(pictures[0]))[b"IHDR"]
    width, height = struct.unpack_from(">II", header)
    put(b"IHDR", header)
    put(b"acTL", struct.pack(">II", len(pictures), 0))
    sequence = 0
    for number, (picture, time_shown) in enumerate(zip(pictures, seconds, strict=True)):
        delay = round(time_shown * 1000)
        place = struct.pack(">IIII", width, height, 0, 0)
        put(b"fcTL", struct.pack(">I", sequence) + place + struct.pack(">HHBB", delay, 1000, 0, 0))
        sequence += 1
        data = b"".join(data for kind, data in chunks_of(picture) if kind == b"IDAT")
        if number == 0:
            put(b"IDAT", data)
        else:
            put(b"fdAT", struct.pack(">I", sequence) + data)
            sequence += 1
    put(b"IEND", b"")
    return b"".join(out)


async def record_dashboard() -> bytes:
    """The page of a job while the job runs."""
    found = os.environ.get("ARCP_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        raise SystemExit("no chromium: on Debian, apt-get install chromium")
    async with (
        agents() as runtime,
        Client(runtime) as client,
        serve(client, allow_control=True) as server,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(executable_path=found)
        context = await browser.new_context(
            color_scheme="dark", viewport={"width": 960, "height": 640}, reduced_motion="reduce"
        )
        page = await context.new_page()
        job = await client.submit("code-refactor", {"path": "src/"}, lease=LEASE)
        await page.goto(f"{server.url}#/job/{job.id}")
        await page.locator(".row").nth(3).wait_for()
        pictures: list[bytes] = []
        for _ in range(SHOTS):
            picture = await page.screenshot()
            if not pictures or picture != pictures[-1]:
                pictures.append(picture)
            await asyncio.sleep(PAUSE)
        await job.result()
        await asyncio.sleep(1)
        pictures.append(await page.screenshot())
        await browser.close()
    return apng(pictures, [PAUSE] * (len(pictures) - 1) + [LAST])


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    (directory / "live-view.svg").write_text(animated(record_terminal()), encoding="utf-8")
    (directory / "dashboard.png").write_bytes(asyncio.run(record_dashboard()))
    print("live-view.svg, dashboard.png")


if __name__ == "__main__":
    main()
