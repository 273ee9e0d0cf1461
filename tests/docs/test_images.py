"""Pictures in the docs: each page's are there, and terminals show nothing of the machine."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TERMINALS = ("run", "jobs", "doctor", "demo")


def test_every_picture_that_a_page_names_is_there() -> None:
    named = {
        (page.parent / path).resolve()
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
        for path in re.findall(r"!\[[^]]*\]\(([^):]+)\)", page.read_text(encoding="utf-8"))
    }
    assert [str(path) for path in named if not path.is_file()] == []
    assert {DOCS / "images" / f"{name}.svg" for name in TERMINALS} <= named


def test_pictures_of_terminals_load_nothing_and_have_made_up_ids() -> None:
    for name in TERMINALS:
        picture = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\"\s]+", picture)) == {"http://www.w3.org/2000/svg"}
        for job in re.findall(r"job_[0-9A-Z]{20,}", picture):
            assert re.fullmatch(r"job_01KRK5T8W0([A-Z])\1\1V7M3Q9X2C6B4D", job)
        assert set(re.findall(r"\d\d:\d\d:\d\d", picture)) <= {"10:24:07"}


def test_the_moving_terminal_loads_nothing_and_shows_its_last_frame_without_animation() -> None:
    picture = (DOCS / "images" / "live-view.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"\s]+", picture)) == {"http://www.w3.org/2000/svg"}
    frames = re.findall(r'<g visibility="(\w+)"><animate ', picture)
    assert len(frames) >= 5
    assert frames == ["hidden"] * (len(frames) - 1) + ["visible"]
    assert len(picture) < 100_000


def test_the_moving_dashboard_is_an_animated_png_that_repeats() -> None:
    picture = (DOCS / "images" / "dashboard.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    at = picture.index(b"acTL") + 4
    frames = int.from_bytes(picture[at : at + 4])
    assert frames >= 4
    assert int.from_bytes(picture[at + 4 : at + 8]) == 0  # for ever
    assert picture.count(b"fcTL") == frames
    assert len(picture) < 1_500_000
