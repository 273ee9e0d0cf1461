"""What holds for every frame: reading never raises, shows no secret, and loses nothing."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from arcp_client._dialects import DIALECTS, recognise
from arcp_client._wire import ids, names, replies
from arcp_client._wire.bodies import KINDS, MAX_SEQ
from arcp_client._wire.build import rotated_credential, terminal_event, to_event
from arcp_client._wire.codec import (
    BadFrame,
    ControlFrame,
    decode,
    decode_control,
    encode,
    head_of,
    parse,
    snapshot,
    to_json,
)
from arcp_client._wire.fields import Malformed
from arcp_client._wire.messages import REQUESTS, Submit, parse_agent
from arcp_client._wire.names import FEATURES
from arcp_client.errors import RemoteProtocolError
from arcp_client.events import Event

CANARY = "cAnArY-5f3a9b"


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Any:
    """Thousands of odd bodies are no news here."""
    logger = logging.getLogger("arcp_client.wire")
    logger.disabled = True
    yield
    logger.disabled = False


# ------------------------------------------------------------------------------ strategies

surrogates = st.text(
    st.characters(categories=("Cs", "Lu", "Ll", "Nd", "Zs", "So", "Cc")), max_size=8
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | surrogates
    | st.sampled_from(["", "log", "status", "1.00", "USD:1.00", "2026-05-13T19:42:13Z", "0" * 32])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(surrogates, inner, max_size=3),
    max_leaves=12,
)

NAMES = """
  arcp id type session_id job_id event_seq trace_id payload kind ts body final_status result output
  value code message retryable details detail lease lease_constraints expires_at budget credentials
  agents capabilities features runtime runtime_name resume_token resume_window_sec jobs next_cursor
  heartbeat_interval_sec request_id reply_to current_status agent parent_job_id phase level text
  tool args call_id name unit current result_id chunk_seq data encoding more fields credential_id
  completed_at constraints endpoint scheme versions default last_event_seq
"""
spoken_names = st.sampled_from(NAMES.split())
shaped = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(spoken_names | surrogates, inner, max_size=8)
    ),
    max_leaves=20,
)
objects = st.dictionaries(spoken_names, shaped, max_size=10)
types = st.sampled_from(
    [*REQUESTS, "job.event", "job.result", "job.error", "job.accepted", "session.welcome", "x"]
)
kinds = st.sampled_from([*sorted(KINDS), "x-vendor.acme.a", ""])


@st.composite
def frames(draw: st.DrawFn) -> dict[str, Any]:
    """Something like a frame: right names, and now and then a value of the wrong type."""
    frame = draw(st.dictionaries(spoken_names, shaped, max_size=3))
    frame["type"] = draw(types | scalars)
    if draw(st.booleans()):
        frame["payload"] = {
            **draw(objects),
            "kind": draw(kinds | scalars),
            "body": draw(objects | shaped),
            "ts": draw(scalars),
        }
    else:
        frame["payload"] = draw(objects | scalars)
    frame["event_seq"] = draw(st.integers(1, 99) | scalars)
    return frame


TRANSCRIPTS = sorted((Path(__file__).parents[1] / "data" / "transcripts").glob("*/*.jsonl"))
CAPTURED = [
    json.dumps(json.loads(line)["frame"]).encode()
    for file in TRANSCRIPTS
    for line in file.read_text().splitlines()
]
captured = st.sampled_from(CAPTURED)


TROUBLE = [b'"', b"{", b"]", b"\\", b"NaN", b"1e999", b"\\ud800", b",", b":", b"null"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A captured frame after a few accidents."""
    data = bytearray(draw(captured))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        accident = draw(st.sampled_from(("cut", "drop", "insert", "flip", "swap")))
        if accident == "cut":
            del data[at:]
        elif accident == "drop":
            del data[at : at + draw(st.integers(1, 20))]
        elif accident == "insert":
            data[at:at] = draw(st.binary(max_size=4) | st.sampled_from(TROUBLE))
        elif accident == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        else:
            other = draw(captured)
            data[at:] = other[draw(st.integers(0, len(other))) :]
    return bytes(data)


# ------------------------------------------------------------------------- reading frames


def check(data: bytes) -> None:
    """Everything that a session may do with the bytes of a frame."""
    frame = decode(data)
    assert repr(frame)
    if isinstance(frame, BadFrame):
        error = frame.error
        assert isinstance(error, RemoteProtocolError)
        assert error.size == len(data)
        assert len(error.head) <= 160
        assert error.head.isascii()
        assert len(str(error)) < 250
        assert frame.event_seq is None or 1 <= frame.event_seq <= MAX_SEQ
    elif isinstance(frame, ControlFrame):
        assert frame.type != names.EVENT
        read_as_every_reply(frame)
        check_event(terminal_event(frame, data))
    else:
        rotated_credential(data)
        check_event(to_event(frame, data))
    for text in (frame.id, frame.session_id, frame.job_id or ""):
        text.encode()  # a store can hold it
    again = decode_control(data)
    assert (frame.event_seq, frame.id, frame.job_id) == (again.event_seq, again.id, again.job_id)


def read_as_every_reply(frame: ControlFrame) -> None:
    for read in (
        replies.read_welcome(frame, frozenset(FEATURES), "unknown"),
        replies.read_accepted(frame),
        replies.read_subscribed(frame),
        replies.read_jobs(frame),
        replies.read_refusal(frame),
        replies.reply_to(frame),
    ):
        assert repr(read)
    model = REQUESTS.get(frame.type)
    if model is not None:
        try:
            request = model.read(frame.payload)
        except Malformed:
            return
        assert repr(request)
        with contextlib.suppress(UnicodeEncodeError):  # unknown fields, which are never sent on
            to_json(request.wire())


def check_event(event: Event) -> None:
    assert len(repr(event)) < 1500
    assert isinstance(event.raw, dict)
    assert event.ts is None or event.ts.tzinfo is not None
    assert json.loads(json.dumps(event.to_dict()))["kind"] == event.kind
    hash(event)
    again = pickle.loads(pickle.dumps(event))
    assert type(again) is type(event)
    assert again.raw == event.raw or event.raw != event.raw


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    check(data)


@given(st.text(max_size=100))
def test_any_text_is_read(text: str) -> None:
    check(text.encode("utf-8", "surrogatepass"))


@given(values)
def test_any_json_is_read(value: Any) -> None:
    check(json.dumps(value).encode())


@given(frames(), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_anything_like_a_frame_is_read(frame: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(frame, ensure_ascii=ascii_only)
    check(text.encode("utf-8", "surrogatepass"))


@given(damaged())
def test_a_damaged_frame_is_read(data: bytes) -> None:
    check(data)


@given(st.integers(1, MAX_SEQ), damaged())
def test_the_number_of_a_frame_with_an_unreadable_body_is_kept(seq: int, rest: bytes) -> None:
    data = (
        b'{"type":"job.event","id":"e","job_id":"j","event_seq":%d,"payload":{"kind":"log","x":NaN,'
        % seq
    ) + rest
    frame = decode(data)

    assert isinstance(frame, BadFrame)
    # Where the rest happens to name them again, nothing is certain any more.
    assert frame.event_seq in (seq, None)
    assert frame.id in ("e", "")
    assert frame.job_id in ("j", None)
    assert b"event_seq" in rest or frame.event_seq == seq


@given(kinds.filter(bool), objects, st.integers(1, MAX_SEQ), st.datetimes(timezones=st.just(UTC)))
def test_an_event_keeps_its_place_whatever_its_body(
    kind: str, body: dict[str, Any], seq: int, moment: datetime
) -> None:
    text = moment.isoformat()
    data = encode_frame({"kind": kind, "ts": text, "body": body}, event_seq=seq)
    frame = decode(data)
    if isinstance(frame, BadFrame):  # NaN and such
        assert frame.event_seq == seq
        return
    assert not isinstance(frame, ControlFrame)
    event = to_event(frame, data)

    assert (event.seq, event.kind, event.id, event.job_id) == (seq, kind, "e", "j")
    assert event.ts == moment
    if body.get("phase") != names.CREDENTIAL_ROTATED:
        assert event.raw == json.loads(data)


def encode_frame(payload: Any, **top: Any) -> bytes:
    frame = {"type": "job.event", "id": "e", "session_id": "s", "job_id": "j", **top}
    return json.dumps({**frame, "payload": payload}).encode()


@given(frames())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_an_event_survives_its_dict(frame: dict[str, Any]) -> None:
    data = json.dumps({**frame, "type": "job.event"}).encode()
    read = decode(data)
    if isinstance(read, BadFrame | ControlFrame):
        return
    event = to_event(read, data)
    again = TypeAdapter(Event).validate_python(event.to_dict())

    assert type(again) is type(event)
    assert again.to_dict() == event.to_dict()


# --------------------------------------------------------------------------------- secrets

secret_names = st.sampled_from(["value", "credential_value", "token", "secret", "api_key", "Value"])


@st.composite
def rotations(draw: st.DrawFn) -> dict[str, Any]:
    """A rotation with the secret under a known name, somewhere in its body."""
    place: Any = {
        "id": "c",
        draw(secret_names): CANARY,
        **draw(st.dictionaries(spoken_names, scalars)),
    }
    place = {name: value for name, value in place.items() if name != "phase"}
    for _ in range(draw(st.integers(0, 3))):
        place = {
            draw(spoken_names.filter(lambda name: name != "phase")): draw(
                st.sampled_from([place, [place]])
            )
        }
    return {**place, "phase": "credential_rotated"}


@given(rotations(), st.sampled_from(["status", "x-vendor.acme.status"]))
def test_a_rotated_secret_is_in_no_event(body: dict[str, Any], kind: str) -> None:
    data = encode_frame({"kind": kind, "body": body})
    frame = decode(data)
    if isinstance(frame, BadFrame):
        assert CANARY not in f"{frame!r}{frame.error}{frame.error.head}"
        return
    assert not isinstance(frame, ControlFrame)
    event = to_event(frame, data)

    assert CANARY not in repr(event)
    assert CANARY not in json.dumps(event.to_dict())
    assert CANARY not in json.dumps(event.raw)
    assert CANARY.encode() not in event._frame


HELLO = json.dumps(
    {
        "arcp": "1.1",
        "id": "e",
        "type": "session.hello",
        "payload": {"auth": {"scheme": "bearer", "token": CANARY}, "resume_token": CANARY},
    }
).encode()
WELCOME = HELLO.replace(b"session.hello", b"session.welcome")


@given(
    st.sampled_from([HELLO, WELCOME]),
    st.lists(st.tuples(st.integers(0, 250), st.binary(max_size=3), st.integers(0, 12)), max_size=4),
)
def test_the_head_of_a_damaged_frame_shows_no_token(
    data: bytes, accidents: list[tuple[int, bytes, int]]
) -> None:
    for at, inserted, dropped in accidents:
        data = data[:at] + inserted + data[at + dropped :]
    head = head_of(data)

    assert CANARY not in head
    assert head.isascii()
    assert len(head) <= 160


# --------------------------------------------------------------------------------- writing

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | surrogates,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(surrogates, inner, max_size=4),
    max_leaves=15,
)


def through_json(value: Any) -> Any:
    """The same value; the two halves of a surrogate pair become one character."""
    return json.loads(json.dumps(value))


@given(plain)
def test_a_snapshot_is_the_value(value: Any) -> None:
    raw = bytes(snapshot(value))

    assert raw.isascii()
    assert json.loads(raw) == parse(raw) == through_json(value)


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(values)
def test_a_snapshot_is_taken_or_refused_and_nothing_else(value: Any) -> None:
    if finite(value):
        assert json.loads(bytes(snapshot(value))) == through_json(value)
    else:
        with pytest.raises(ValueError, match="not a JSON value"):
            snapshot(value)


@given(plain, st.none() | surrogates, st.none() | st.integers(1, MAX_SEQ))
def test_an_envelope_is_read_as_it_was_written(
    value: Any, job_id: str | None, seq: int | None
) -> None:
    payload = {"kind": "x-vendor.acme.a", "body": value}
    data = encode("job.event", payload, id="e", session_id="s", job_id=job_id, event_seq=seq)
    frame = decode(data)

    assert not isinstance(frame, BadFrame | ControlFrame)
    assert frame.payload.body == through_json(value)  # type: ignore[union-attr]
    assert frame.event_seq == seq
    assert frame.job_id == names.text_of(job_id)


@given(values, values)
def test_an_envelope_is_json_or_refused(one: Any, other: Any) -> None:
    payload = {"one": one, "other": other}
    if finite(payload):
        assert json.loads(encode("x", payload, id="e"))["payload"] == through_json(payload)
    else:
        with pytest.raises(ValueError, match="not a JSON value"):
            encode("x", payload, id="e")


# ----------------------------------------------------------------------------------- parts


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    ),
    st.integers(-23 * 60, 23 * 60),
    st.integers(0, 9),
    st.sampled_from("Tt "),
)
def test_every_rfc_3339_time_is_read(
    moment: datetime, offset: int, digits: int, separator: str
) -> None:
    zone = timezone(timedelta(minutes=offset))
    moment = moment.replace(tzinfo=zone)
    fraction = f".{moment.microsecond:06}000"[: digits + 1] if digits else ""
    sign, minutes = ("-", -offset) if offset < 0 else ("+", offset)
    text = (
        moment.strftime("%Y").zfill(4)
        + moment.strftime(f"-%m-%d{separator}%H:%M:%S")
        + f"{fraction}{sign}{minutes // 60:02}:{minutes % 60:02}"
    )
    expected = moment.replace(microsecond=int(fraction[1:].ljust(6, "0")[:6]) if digits else 0)

    assert ids.parse_time(text) == expected


@given(st.datetimes(timezones=st.timezones()))
def test_a_written_time_is_read_to_the_millisecond(moment: datetime) -> None:
    try:
        text = ids.time_text(moment)
    except ValueError:
        assert moment.year in (1, 9999)
        return
    read = ids.parse_time(text)

    assert read is not None
    assert timedelta(0) <= moment - read < timedelta(milliseconds=1)
    assert ids.parse_utc(text) == read


@given(values)
def test_any_value_is_a_time_or_none(value: Any) -> None:
    read = ids.parse_time(value)

    assert read is None or read.astimezone(UTC)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-1e9, max_value=1e9))
def test_an_amount_is_the_same_in_every_form(amount: Decimal) -> None:
    forms = [f"{amount:f}", f"USD:{amount:f}", float(amount)]
    budgets = [replies.read_budget({"USD": form}) for form in forms]

    assert budgets == [{"USD": amount}] * 3


@given(st.lists(st.decimals("0.01", "9.99", places=2), min_size=1, max_size=20))
def test_the_noise_of_adding_floats_is_taken_off(amounts: list[Decimal]) -> None:
    total = 0.0
    for amount in amounts:
        total += float(amount)

    assert replies.read_budget({"USD": total}) == {"USD": sum(amounts)}


@given(objects, surrogates)
def test_every_welcome_has_a_dialect(welcome: dict[str, Any], envelope_id: str) -> None:
    assert recognise(welcome, envelope_id) in DIALECTS.values()


@given(surrogates)
def test_any_text_can_be_repaired(text: str) -> None:
    repaired = names.text_of(text)

    assert repaired is not None
    repaired.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert repaired != text
    else:
        assert repaired == text


@given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}(@[a-zA-Z0-9.+_-]{1,20})?", fullmatch=True))
def test_every_agent_of_the_grammar_is_accepted(reference: str) -> None:
    name, version = parse_agent(reference)

    assert reference == (name if version is None else f"{name}@{version}")
    assert Submit(agent=reference).wire()["agent"] == reference
