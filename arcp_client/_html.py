"""Shows objects as HTML tables, for notebooks. Everything that is shown is escaped."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["escaped", "table"]

_LONGEST = 2000
"""Limit of characters of a value."""
_REPLACED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
    # Controls that move or hide text; browsers show most others as nothing.
    | {chr(code): "\ufffd" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
)


def escaped(value: object) -> str:
    """A value as text, escaped, and cut if it is long."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters)"
    return text.translate(_REPLACED)


def table(title: str, rows: Iterable[tuple[str, object]], more: str = "") -> str:
    """A table with a row for each pair of a name and a value.

    Args:
        title: the caption.
        rows: the rows; those with the value ``None`` are left out.
        more: HTML after the table, not escaped.
    """
    body = "".join(
        f'<tr><th style="text-align:left">{escaped(name)}</th>'
        f'<td style="text-align:left"><span style="white-space:pre-wrap">{escaped(value)}</span>'
        "</td></tr>"
        for name, value in rows
        if value is not None
    )
    caption = f'<caption style="text-align:left"><b>{escaped(title)}</b></caption>'
    return f"<table>{caption}<tbody>{body}</tbody></table>{more}"
