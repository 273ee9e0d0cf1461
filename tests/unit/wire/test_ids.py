"""Identifiers and timestamps, in the forms that every known peer accepts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from ulid import ULID

from arcp_client._wire import ids
from tests.interop.rules import rule


@rule("send-1")
def test_envelope_ids_are_bare_ulids_and_never_the_same() -> None:
    made = {ids.new_id() for _ in range(1000)}

    assert len(made) == 1000
    assert all(re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", one) for one in made)


def test_an_envelope_id_has_the_present_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    for moment in (1, 1_700_000_000_123, 2**48 - 1):
        monkeypatch.setattr("time.time_ns", lambda moment=moment: moment * 1_000_000)
        assert int(ULID.from_str(ids.new_id())) == moment << 80
    monkeypatch.setattr("os.urandom", lambda count: b"\xff" * count)
    assert int(ULID.from_str(ids.new_id())) == (1 << 128) - 1


def test_other_ids_carry_a_prefix() -> None:
    assert re.fullmatch(r"job_[0-9A-HJKMNP-TV-Z]{26}", ids.new_prefixed_id("job"))


def test_tokens_are_long_and_never_the_same() -> None:
    made = {ids.new_secret("rt") for _ in range(100)}

    assert len(made) == 100
    assert all(re.fullmatch(r"rt_[0-9a-f]{64}", one) for one in made)


@rule("send-2")
def test_trace_ids_are_32_hexadecimal_digits_and_not_all_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ids.is_trace_id(ids.new_trace_id())

    drawn = [b"\x01" * 16, bytes(16)]
    monkeypatch.setattr("os.urandom", lambda _size: drawn.pop())
    assert ids.new_trace_id() == "01" * 16


@pytest.mark.parametrize(
    "value",
    [
        "0" * 32,
        "AB" * 16,
        "ab" * 15,
        "ab" * 16 + "\n",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "",
        None,
        5,
    ],
)
def test_anything_else_is_no_trace_id(value: Any) -> None:
    assert not ids.is_trace_id(value)


@rule("send-9")
def test_the_present_moment_is_written_in_utc_with_a_z() -> None:
    text = ids.now_text()

    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", text)
    moment = ids.parse_time(text)
    assert moment is not None
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_moment_is_written_in_utc_whatever_its_zone() -> None:
    east = timezone(timedelta(hours=5, minutes=30))

    assert (
        ids.time_text(datetime(2026, 5, 13, 1, 0, 0, 999_999, tzinfo=east))
        == "2026-05-12T19:30:00.999Z"
    )


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 5, 13, 1, 2, 3, tzinfo=UTC), "2026-05-13T01:02:03.000Z"),
        (datetime(2026, 5, 13, 1, 2, 3, 999, tzinfo=UTC), "2026-05-13T01:02:03.000Z"),
        (datetime(2026, 5, 13, 1, 2, 3, 1_000, tzinfo=UTC), "2026-05-13T01:02:03.001Z"),
        (datetime(2026, 5, 13, 1, 2, 3, 120_000, tzinfo=UTC), "2026-05-13T01:02:03.120Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
        (datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_moment_is_written_with_three_digits_of_its_second(moment: datetime, text: str) -> None:
    assert ids.time_text(moment) == text


def test_a_moment_of_a_subclass_is_written_like_any_other() -> None:
    class Moment(datetime):
        pass

    west = timezone(timedelta(hours=-1))
    for zone, hour in ((UTC, "01"), (west, "02")):
        moment = Moment(2026, 5, 13, 1, 2, 3, 4_000, tzinfo=zone)
        assert ids.time_text(moment) == f"2026-05-13T{hour}:02:03.004Z"


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 5, 13),  # noqa: DTZ001
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_a_moment_that_utc_cannot_show_is_refused(moment: datetime) -> None:
    with pytest.raises(ValueError, match="moment"):
        ids.time_text(moment)


BASE = datetime(2026, 5, 13, 19, 42, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-13T19:42:13Z", BASE),
        ("2026-05-13T19:42:13", BASE),
        ("2026-05-13 19:42:13+00:00", BASE),
        ("2026-05-13T21:42:13+0200", BASE),
        ("2026-05-13T19:42:13.999999999Z", BASE.replace(microsecond=999_999)),
        ("2026-12-31T23:59:60Z", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-12-31T23:59:60.25Z", datetime(2027, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)),
    ],
)
@rule("accept-13")
def test_rfc_3339_is_read(text: str, expected: datetime) -> None:
    assert ids.parse_time(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        "2026-05-13",  # a day is no moment
        "2026-W20",
        "2026-W20-3",
        "2026-W20-3T19:42:13Z",
        "2026-133T19:42:13Z",
        "20260513T194213Z",
        "2026-05-13x19:42:13Z",
        "2026-05-13T19Z",
        "2026-05-13T19:42Z",
        "2026-05-13T19:42:13.Z",
        "2026-05-13T19:42:13,5Z",
        "2026-05-13T19:42:13.1234567890Z",
        "2026-05-13T19:42:13Z\n",
        " 2026-05-13T19:42:13Z",
        "2026-05-13T19:42:13+2",
        "2026-05-13T19:42:13+99:00",
        "2026-05-13T19:42:61Z",
        "2026-05-13T24:00:01Z",
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00+10:00",
        "9999-12-31T23:59:60Z",
        "٢٠٢٦-05-13T19:42:13Z",
        "2026-05-13T19:42:13Z" * 100_000,
        "soon",
        "",
        1778701333,
        None,
        True,
        [],
    ],
)
def test_what_is_no_moment_in_rfc_3339_is_nothing(value: Any) -> None:
    assert ids.parse_time(value) is None


def test_a_datetime_is_taken_as_it_is_and_without_a_zone_as_utc() -> None:
    assert ids.parse_time(BASE) is BASE
    assert ids.parse_time(BASE.replace(tzinfo=None)) == BASE


@pytest.mark.parametrize("zone", ["Z", "z", "+00:00", "-00:00", "+0000"])
def test_utc_may_be_said_in_several_ways(zone: str) -> None:
    assert ids.parse_utc(f"2026-05-13T19:42:13{zone}") == BASE


@pytest.mark.parametrize("zone", ["", "+02:00", "-00:01", " UTC"])
def test_utc_must_be_said(zone: str) -> None:
    assert ids.parse_utc(f"2026-05-13T19:42:13{zone}") is None
