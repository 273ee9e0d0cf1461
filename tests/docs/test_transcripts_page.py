"""The transcript that the page shows is one, and the page names what lines there are."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

from arcp_client.transcripts import (
    EndLine,
    EventLine,
    Header,
    JobLine,
    OutcomeLine,
    Reader,
    encode,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "transcripts.md").read_text("utf-8")


def test_the_example_is_read_and_complete() -> None:
    example = re.search(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert example is not None
    reader = Reader(io.BytesIO(example[1].encode()))
    lines = list(reader)
    assert [type(line) for line in lines] == [JobLine, EventLine, EventLine, OutcomeLine, EndLine]
    assert reader.complete
    assert b"".join(map(encode, (reader.header, *lines))) == example[1].encode()


def test_each_type_of_line_is_in_the_table_with_its_fields() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE))
    for cls in (Header, JobLine, EventLine, OutcomeLine, EndLine):
        fields = {each.name for each in dataclasses.fields(cls)} - {"at", "extra", "fields"}
        assert fields <= set(re.findall(r"`(\w+)`", rows[cls.type])), cls.type
    assert set(rows) == {"type", "header", "job", "event", "outcome", "end"}
