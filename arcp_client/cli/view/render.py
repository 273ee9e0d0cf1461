"""Formats events as styled lines."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from arcp_client import Connecting, LinkState, Live, Reconnecting, events
from arcp_client import _digits as digits
from arcp_client.cli.view.terminal import harmless
from arcp_client.projection import Call

__all__ = [
    "bar",
    "count",
    "duration",
    "event_text",
    "iso",
    "local",
    "moment",
    "number",
    "result_text",
    "state_text",
]

_BAR = 12
_LONG = 600
_DECIMAL = re.compile(r"(-?\d{1,400})((?:\.\d+)?)")
_THOUSANDS = re.compile(r"(?<=\d)(?=(?:\d{3})+$)")
_LEVELS = {"debug": "dim", "warn": "yellow", "warning": "yellow", "error": "red", "fatal": "red"}


def event_text(event: events.Event) -> Text:
    """Describe an event in one line."""
    write = _WRITERS.get(type(event))
    return write(event) if write is not None else _unknown(event)


def _plain(text: str, style: str = "") -> Text:
    return Text(_short(text), style=style)


def _short(text: str) -> str:
    """Shorten a long text to its beginning and the number of omitted characters."""
    if len(text) > _LONG:
        text = f"{text[:_LONG]}… ({count(len(text) - _LONG, 'more character')})"
    return harmless(text)


def number(value: float) -> str:
    """Format a number for people, rounded to six digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _exact(event: events.Event, name: str) -> str:
    """Format a number for people, with the digits that the agent sent (W1)."""
    text = digits.dumps(digits.value_of(event, name), allow_nan=True)
    found = _DECIMAL.fullmatch(text)
    return text if found is None else f"{_THOUSANDS.sub(',', found[1])}{found[2]}"


def count(n: int, noun: str, nouns: str = "") -> str:
    """Format a count: ``1 job``, ``2 jobs``."""
    return f"{n:,} {noun if n == 1 else nouns or f'{noun}s'}"


def bar(share: float, width: int, style: str = "green") -> Text:
    """Draw a bar of ``width`` cells, filled to a share from 0 to 1."""
    full = int(share * width)
    return Text().append("━" * full, style=style).append("┄" * (width - full), style="dim")


def duration(seconds: float) -> str:
    """Format a time span for people: ``4 s``, ``3:20``, ``2 h 05 min``, ``3 days``."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    if whole < 2 * 86_400:
        return f"{whole // 3600} h {whole // 60 % 60:02} min"
    return f"{whole // 86_400:,} days"


def local(moment: datetime, form: str) -> str:
    """Format a time in the local zone; in its own zone if it lies outside the calendar."""
    try:
        return moment.astimezone().strftime(form)
    except (ValueError, OverflowError):  # the first day of the calendar, in a zone west of UTC
        return moment.strftime(form)


def moment(when: datetime) -> str:
    """Format a time in the local zone, with its date unless it is today."""
    today = local(datetime.now(UTC), "%Y-%m-%d") == local(when, "%Y-%m-%d")
    return local(when, "%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def iso(when: datetime | None) -> str | None:
    """Format a time for JSON documents."""
    return None if when is None else when.isoformat()


def _field(event: events.Event, name: str) -> str:
    """Format a value of an agent, with the digits that it sent (W1)."""
    value = digits.value_of(event, name)
    if isinstance(value, str):
        return value
    try:
        return digits.dumps(value, separators=None, allow_nan=True)
    except RecursionError:
        return "(nested too deeply)"


def _log(event: events.Log) -> Text:
    style = _LEVELS.get(event.level, "")
    word = f"{event.level}: " if style else ""
    return _plain(f"{word}{event.message}", style)


def _thought(event: events.Thought) -> Text:
    return _plain(event.text, "dim italic")


def _tool_call(event: events.ToolCall) -> Text:
    args = "" if event.args is None else f" {_field(event, 'args')}"
    return _plain(f"→ {event.tool}", "cyan").append(_short(args), style="default")


def result_text(event: events.ToolResult, call: Call | None) -> Text:
    """Describe a tool's result, with the name of the tool if its call was seen."""
    name = f"{call.tool} " if call is not None else ""
    if event.error is None:
        return _plain(f"← {name}{_field(event, 'result')}", "cyan")
    return _plain(f"← {name}{_field(event, 'error')}", "red")


def _tool_result(event: events.ToolResult) -> Text:
    return result_text(event, None)


def _status(event: events.Status) -> Text:
    more = f": {event.message}" if event.message else ""
    return _plain(f"{event.phase}{more}", "bold")


def _metric(event: events.Metric) -> Text:
    unit = f" {event.unit}" if event.unit else ""
    return _plain(f"{event.name} = {_exact(event, 'value')}{unit}", "magenta")


def _artifact(event: events.ArtifactRef) -> Text:
    size = "" if event.byte_size is None else f", {count(event.byte_size, 'byte')}"
    return _plain(f"made {event.uri} ({event.content_type}{size})", "blue")


def _delegate(event: events.Delegate) -> Text:
    child = f" as {event.child_job_id}" if event.child_job_id else ""
    return _plain(f"delegates to {event.agent or 'another agent'}{child}", "blue")


def _progress(event: events.Progress) -> Text:
    units = f" {event.units}" if event.units else ""
    said = f"  {event.message}" if event.message else ""
    if not event.total:
        return _plain(f"{number(event.current)}{units}{said}", "green")
    share = min(max(event.current / event.total, 0.0), 1.0)
    text = bar(share, _BAR)
    counted = f" {number(event.current)}/{number(event.total)}{units}{said}"
    return text.append(_short(counted), style="default")


def _chunk(event: events.ResultChunk) -> Text:
    last = "" if event.more else ", the last"
    text = _plain(f"result, chunk {event.chunk_seq}{last} ", "green")
    return text.append(_short(_piece(event)), style="dim")


def _piece(event: events.ResultChunk) -> str:
    if event.encoding == "utf8":
        return json.dumps(event.data, ensure_ascii=False)
    try:
        size = len(base64.b64decode(event.data, validate=True))
    except ValueError:
        size = len(event.data)
    return f"({count(size, 'byte')})"


def _completed(event: events.Completed) -> Text:
    more = f": {event.summary}" if event.summary else ""
    return _plain(f"✓ done{more}", "bold green")


def _failed(event: events.Failed) -> Text:
    word = {"cancelled": "cancelled", "timed_out": "timed out"}.get(event.status, "failed")
    more = f": {event.message}" if event.message else ""
    return _plain(f"✗ {word} {event.code}{more}", "bold red")


def _gap(event: events.Gap) -> Text:
    upto = "?" if event.last is None else str(event.last)
    return _plain(f"! gap: events {event.first}–{upto} ({event.reason})", "bold yellow")


def _unknown(event: events.Event) -> Text:
    body = _field(event, "body") if isinstance(event, events.Unknown) else ""
    return _plain(f"{event.kind} {body}", "dim")


def _question(event: events.Question) -> Text:
    choices = ", ".join(choice.label for choice in event.options)
    return _plain(f"? {event.text}", "bold yellow").append(
        _short(f" [{choices}]" if choices else ""), style="default"
    )


def _answered(event: events.Answered) -> Text:
    value = digits.dumps(digits.value_of(event, "value"), separators=None, allow_nan=True)
    client = f", with {event.client}" if event.client else ""
    return _plain(f"! {event.by} answered {value}{client}", "green")


def _expired(event: events.Expired) -> Text:
    text = "not answered in time"
    if event.defaulted:
        value = digits.dumps(digits.value_of(event, "value"), separators=None, allow_nan=True)
        text = f"{text}: {value} holds"
    return _plain(text, "yellow")


def _withdrawn(event: events.Withdrawn) -> Text:
    return _plain(f"the question needs no answer any more ({event.reason})", "dim")


def _sent(event: events.Sent) -> Text:
    return _plain(f"✉ {event.by} ({event.mode}): {_field(event, 'value')}", "cyan")


def _consumed(event: events.Consumed) -> Text:
    return _plain(f"✉ the agent took message {event.at}", "dim")


def _returned(event: events.Returned) -> Text:
    return _plain(f"✉ the agent did not take the message {event.message_id}", "yellow")


_WRITERS: dict[type[events.Event], Callable[[Any], Text]] = {
    events.Log: _log,
    events.Thought: _thought,
    events.ToolCall: _tool_call,
    events.ToolResult: _tool_result,
    events.Status: _status,
    events.Metric: _metric,
    events.ArtifactRef: _artifact,
    events.Delegate: _delegate,
    events.Progress: _progress,
    events.ResultChunk: _chunk,
    events.Question: _question,
    events.Answered: _answered,
    events.Expired: _expired,
    events.Withdrawn: _withdrawn,
    events.Sent: _sent,
    events.Consumed: _consumed,
    events.Returned: _returned,
    events.Completed: _completed,
    events.Failed: _failed,
    events.Gap: _gap,
}


def state_text(state: LinkState) -> Text | None:
    """Describe a change of the link's state; ``None`` for a routine change."""
    match state:
        case Connecting(attempt, cause) if attempt > 1:
            why = f": {cause}" if cause is not None else ""
            return _plain(f"no connection yet, attempt {attempt}{why}", "yellow")
        case Reconnecting(attempt, delay, cause):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return _plain(f"link lost, reconnecting in {delay:.1f} s{again}: {cause}", "yellow")
        case Live(True):
            return _plain("link back, session resumed", "green")
        case Live(False):
            return _plain("connected", "green")
        case _:
            return None
