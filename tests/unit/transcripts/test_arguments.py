"""Arguments of transcripts that make no sense are refused by name; secrets are not shown."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client.transcripts import Header, Recording, Scrubber, Writer, read

WRONG: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    # One text is a list of its characters, and none of them a secret.
    "secrets": (Scrubber, [None, 5, "sesame", SecretStr("sesame"), [5], {"a": "sesame"}]),
    "names": (lambda v: Scrubber(names=v), [None, 5, "pin", [5]]),
    "path": (read, [None, 5, "", "a\0b"]),
    "max_line": (lambda v: read("t", max_line=v), [None, 0, 1.5, "5"]),
    "target": (Writer, [None, 5, "", "a\0b"]),
    "first": (lambda v: Writer(io.BytesIO(), v), [5, "header"]),
    "scrubber": (lambda v: Writer(io.BytesIO(), scrubber=v), [5, "sesame"]),
    "overwrite": (lambda v: Writer(io.BytesIO(), overwrite=v), [None, 1]),
    "writer": (Recording, [None, 5, io.BytesIO()]),
    "clock": (lambda v: Recording(Writer(io.BytesIO()), clock=v), [None, 5]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_call_says_which_argument_is_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, values = WRONG[name]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            call(value)
        assert type(caught.value) in (TypeError, ValueError), value
        assert "sesame" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_callers_stays_open_when_the_header_cannot_be_written() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "no space left")

    file = Full()
    with pytest.raises(OSError, match="no space left"):
        Writer(file, Header())
    assert not file.closed
