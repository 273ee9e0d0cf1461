"""The page on how an event travels names modules that there are, and defines the words in use."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "data-flow.md"
TEXT = PAGE.read_text(encoding="utf-8")
WORDS = [
    *("acceptance", "attempt", "back-pressure", "checkpoint", "consumer", "cursor", "detach"),
    "dialect",
    *("drain", "durable", "early event", "event", "event log", "fan-out", "frame"),
    *("gap", "history", "job"),
    *("job feed", "key", "lane", "lease", "link", "loop thread", "notification", "peer"),
    *("principal", "question", "registration", "replay", "replay buffer", "resume"),
    *("resume window", "runtime"),
    *(
        "session",
        "store",
        "subscription",
        "terminal event",
        "transcript",
        "watermark",
        "webhook",
        "work",
    ),
]


def test_every_station_is_a_module() -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| ")]
    named = [name for row in rows[1:] for name in re.findall(r"`([\w.]+)`", row[2])]
    assert len(named) > 10
    for name in named:
        importlib.import_module(f"arcp_client.{name}")


def test_every_word_is_defined_once_and_in_order() -> None:
    assert re.findall(r"^([\w -]+)\n: ", TEXT, re.MULTILINE) == WORDS
