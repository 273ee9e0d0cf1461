"""Frames that cannot be read: one typed report each, and what can still be known is kept."""

from __future__ import annotations

import gc
import json
import weakref

import pytest

from arcp_client._wire.codec import BadFrame, ControlFrame, decode, decode_control
from arcp_client.errors import RemoteProtocolError
from arcp_client.events import Log
from tests.unit.wire.frames import bad, event, event_frame, frame

DEEP = 100_000
NESTED_LIST = b"[" * DEEP + b"]" * DEEP
NESTED_OBJECT = b'{"a":' * DEEP + b"1" + b"}" * DEEP


def with_seq(value: bytes) -> bytes:
    return (
        b'{"arcp":"1.1","type":"job.event","id":"e1","session_id":"s1","job_id":"j1","event_seq":%b,'
        b'"payload":{"kind":"log","body":{"message":"m"}}}' % value
    )


def with_body(value: bytes, *, seq: bytes = b"7") -> bytes:
    return (
        b'{"arcp":"1.1","type":"job.event","id":"e1","session_id":"s1","job_id":"j1","event_seq":%b,'
        b'"payload":{"kind":"metric","body":{"name":"load","value":%b}}}' % (seq, value)
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"   \n", id="blank"),
        pytest.param(b"Starting server on port 80", id="a log line"),
        pytest.param(b"{not json", id="not JSON"),
        pytest.param(b'{"type":"session.ping"', id="cut off"),
        pytest.param(b'{"type":"session.ping"}{"type":"session.ping"}', id="two frames"),
        pytest.param(b"{'type':'session.ping'}", id="single quotes"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b'[{"type":"session.ping"}]', id="a batch"),
        pytest.param(b"null", id="null"),
        pytest.param(b"true", id="true"),
        pytest.param(b"12", id="a number"),
        pytest.param(b'"session.ping"', id="a string"),
        pytest.param(b"{}", id="no type"),
        pytest.param(b'{"type":null}', id="null type"),
        pytest.param(b'{"type":5,"payload":{}}', id="a number for a type"),
        pytest.param(b'{"type":"session.ping","payload":[]}', id="payload is an array"),
        pytest.param(b'{"type":"session.ping","payload":"x"}', id="payload is a string"),
        pytest.param(b'{"type":"job.event","payload":{"body":{}}}', id="an event without a kind"),
        pytest.param(b'{"type":"job.event","payload":{"kind":"","body":{}}}', id="an empty kind"),
        pytest.param(b'{"type":"job.event","payload":{"kind":5,"body":{}}}', id="kind is a number"),
        pytest.param(b'{"type":"job.event"}', id="an event without a payload"),
        pytest.param(NESTED_LIST, id="100,000 arrays"),
        pytest.param(b"[" * DEEP, id="100,000 arrays, never closed"),
        pytest.param(NESTED_OBJECT, id="100,000 objects"),
        pytest.param(b'{"type":"session.ping","payload":%b}' % NESTED_OBJECT, id="deep payload"),
        pytest.param(b'{"type":"session.ping","extra":%b}' % NESTED_LIST, id="deep extra field"),
        pytest.param(b'{"type":%b}' % NESTED_LIST, id="deep type"),
        pytest.param(with_body(NESTED_LIST), id="deep body"),
        pytest.param(with_seq(NESTED_LIST), id="deep event_seq"),
        pytest.param(with_body(b"NaN"), id="NaN"),
        pytest.param(with_body(b"Infinity"), id="Infinity"),
        pytest.param(with_body(b"-Infinity"), id="-Infinity"),
        pytest.param(with_body(b"1e400"), id="1e400"),
        pytest.param(with_body(b"-1e400"), id="-1e400"),
        pytest.param(with_body(b"9" * 5000), id="5,000 digits"),
        pytest.param(b'{"type":"session.ping","n":01}', id="a leading zero"),
        pytest.param(b'{"type":"session.\xff"}', id="invalid UTF-8"),
        pytest.param(with_body(b'"\xed\xa0\x80"'), id="a surrogate in UTF-8"),
        pytest.param(b'{"type":"session.ping","x":"a\x00b"}', id="a raw control character"),
        pytest.param('{"type":"session.ping"}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b"\x78\x9c\x03\x00\x00\x00\x00\x01", id="binary"),
        pytest.param(b"\xef\xbb\xbf", id="a byte order mark alone"),
    ],
)
def test_what_cannot_be_read_becomes_one_report_with_size_and_head(data: bytes) -> None:
    read = bad(decode(data))

    assert isinstance(read.error, RemoteProtocolError)
    assert read.error.size == len(data)
    assert len(read.error.head) <= 160
    assert str(len(data)) in str(read.error)
    assert len(str(read.error)) < 250
    assert "\n" not in str(read.error) + read.error.head


@pytest.mark.parametrize(
    "value",
    [
        b"true",
        b"false",
        b'"3"',
        b"-1",
        b"0",
        b"1.0",
        b"1e2",
        b"1.5",
        b"NaN",
        b"1e400",
        b"[]",
        b"{}",
        b"%d" % 2**63,
        b"%d" % 2**70,
        b"9" * 5000,
    ],
)
def test_a_number_that_is_no_event_seq_makes_the_frame_unreadable(value: bytes) -> None:
    read = bad(decode(with_seq(value)))

    assert read.event_seq is None
    assert read.id == "e1"  # the rest of the envelope is still known
    assert read.job_id == "j1"


@pytest.mark.parametrize("value", [b"1", b"%d" % (2**63 - 1)])
def test_event_seq_reaches_from_1_to_63_bits(value: bytes) -> None:
    assert event(with_seq(value)).seq == int(value)


def test_a_null_event_seq_is_an_absent_one() -> None:
    assert event(with_seq(b"null")).seq is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(with_body(b"NaN"), id="NaN"),
        pytest.param(with_body(b"1e400"), id="out of range"),
        pytest.param(with_body(b"9" * 5000), id="too many digits"),
        pytest.param(with_body(b'"\xff"'), id="invalid UTF-8"),
        pytest.param(with_body(NESTED_LIST), id="nested"),
        pytest.param(with_body(b"[" * DEEP), id="nested, never closed"),
        pytest.param(with_body(NESTED_OBJECT), id="nested objects"),
        pytest.param(with_body(b"tru"), id="a broken word"),
        pytest.param(with_body(b'"cut off')[:-3], id="a string without an end"),
        pytest.param(with_body(b'"ends in a backslash\\')[:-3], id="a backslash at the end"),
        pytest.param(b"\xef\xbb\xbf" + with_body(b"NaN"), id="with a byte order mark"),
        pytest.param(with_body(b"NaN").replace(b":", b" :\n "), id="with white space"),
        pytest.param(
            b'{"payload":%b,"type":"job.event","id":"e1","job_id":"j1","session_id":"s1",'
            b'"event_seq":7}' % NESTED_OBJECT,
            id="behind a nested payload",
        ),
        pytest.param(
            b'{"payload":{"event_seq":3,"id":"x","a":[{"job_id":"y"}],"b":NaN},"id":"e1",'
            b'"session_id":"s1","job_id":"j1","event_seq":7}',
            id="not to be mixed up with inner fields",
        ),
        pytest.param(b'{"type":5,"id":"e1","session_id":"s1","job_id":"j1","event_seq":7}'),
        pytest.param(
            b'{"type":"job.event","id":"e1","session_id":"s1","job_id":"j1","event_seq":7,'
            b'"payload":{"body":{}}}',
            id="no kind",
        ),
        pytest.param(
            b'{"type":"job.event","id":"e1","session_id":"s1","job_id":"j1","event_seq":7,'
            b'"payload":"x"}',
            id="payload is a string",
        ),
    ],
)
def test_the_number_of_an_unreadable_event_is_kept_where_it_can_be_read(data: bytes) -> None:
    read = bad(decode(data))

    assert read.event_seq == 7
    assert read.id == "e1"
    assert read.job_id == "j1"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"type":"job.event","event_seq":12', id="the number itself may be cut"),
        pytest.param(b'{"event_seq":7.5,"x":NaN}', id="a fraction"),
        pytest.param(b'{"event_seq":7x,"x":NaN}', id="rubbish behind it"),
        pytest.param(b'{"event_seq":"7","x":NaN}', id="a string"),
        pytest.param(b'{"event_seq":99999999999999999999,"x":NaN}', id="too large"),
        pytest.param(b'{"event_seq":9999999999999999999,"x":NaN}', id="64 bits"),
        pytest.param(b'[{"event_seq":7,"x":NaN}]', id="inside an array"),
        pytest.param(b'{"x":"{\\"event_seq\\":7,","y":NaN}', id="inside a string"),
        pytest.param(b'}{"event_seq":7,"x":NaN}', id="behind the end of another frame"),
        pytest.param(b'{"event_seq":6,"x":NaN,"event_seq":7}', id="named twice"),
        pytest.param(b'{"payload":{"x":NaN]},"event_seq":7}', id="behind brackets that differ"),
        pytest.param(b'{"payload":{"x":[NaN}],"event_seq":7}', id="behind crossed brackets"),
        pytest.param(b'{"x":NaN,%b"event_seq":7}' % (b'"a":[],[],' * 90_000), id="too far away"),
    ],
)
def test_a_number_that_is_not_certain_is_not_kept(data: bytes) -> None:
    assert bad(decode(data)).event_seq is None


def test_an_envelope_id_with_broken_escapes_is_left_out() -> None:
    read = bad(decode(b'{"id":"\\u12","event_seq":7,"x":NaN}'))

    assert (read.id, read.event_seq) == ("", 7)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(b"[" * 4_000_000, id="brackets"),
        pytest.param(b"[]" * 2_000_000, id="pairs of brackets"),
        pytest.param(b'{"a":"' + b'\\"' * 1_000_000, id="escaped quotes without an end"),
        pytest.param(b"{" + b'"a",' * 1_000_000, id="strings"),
        pytest.param(b'{"id":"' + b"\\\\" * 1_000_000, id="backslashes"),
        pytest.param(b"{" + b'"event_seq":"' * 300_000, id="keys"),
        pytest.param(b'{"event_seq":' + b" " * 4_000_000, id="white space"),
    ],
)
def test_rubbish_takes_time_in_proportion_to_its_length_at_most(attack: bytes) -> None:
    bad(decode(attack))


def test_a_good_frame_after_every_bad_one_is_read() -> None:
    for data in (NESTED_LIST, with_body(b"9" * 5000), b"\xff\xfe", b""):
        bad(decode(data))
        assert isinstance(decode(b'{"type":"session.ping"}'), ControlFrame)


def test_the_reader_for_control_frames_reports_bad_ones_too() -> None:
    bad(decode_control(b"{"))
    assert isinstance(decode_control(frame("session.ping", {})), ControlFrame)
    assert isinstance(event(event_frame("log", {})), Log)
    assert type(decode_control(event_frame("log", {}))) is type(decode(event_frame("log", {})))


def test_a_report_that_was_raised_does_not_live_for_ever() -> None:
    read = bad(decode(b"{"))
    gone = weakref.ref(read.error)

    def fail(kept: BadFrame) -> None:
        raise kept.error  # from here on the error's traceback leads back to its frame

    with pytest.raises(RemoteProtocolError):
        fail(read)
    del read
    gc.collect()
    assert gone() is None


# ------------------------------------------------------------------ odd, and yet tolerated


def test_strings_of_a_megabyte_are_read_wherever_they_stand() -> None:
    long = "x" * 1_000_000
    read = event(
        event_frame("log", {"level": long, "message": long}, id=long, job_id=long, extra=long)
    )

    assert isinstance(read, Log)
    assert read.message == read.level == read.id == read.job_id == long
    assert len(repr(read)) < 1000
    ping = decode(frame("session.ping", {"nonce": long}, id=long))
    assert isinstance(ping, ControlFrame)
    assert len(repr(ping)) < 300
    kind = decode(frame(long, {}))
    assert isinstance(kind, ControlFrame)
    assert len(repr(kind)) < 300


def test_of_duplicate_keys_the_last_counts() -> None:
    read = event(
        b'{"type":"job.event","event_seq":5,"event_seq":6,"id":"a","id":"b",'
        b'"payload":{"kind":"log","body":{"message":"x","message":"y"}}}'
    )

    assert (read.seq, read.id) == (6, "b")
    assert isinstance(read, Log)
    assert read.message == "y"
    odd = event(
        b'{"type":"job.event","event_seq":5,"event_seq":6,"extra":"\\ud800",'
        b'"payload":{"kind":"log","body":{"message":"x","message":"y"}}}'
    )
    assert odd.seq == 6  # the tolerant reader agrees


def test_a_byte_order_mark_is_skipped() -> None:
    data = b"\xef\xbb\xbf" + event_frame("log", {"message": "m"})
    read = event(data)

    assert isinstance(read, Log)
    assert read.message == "m"
    assert read.raw["payload"]["body"] == {"message": "m"}


def test_white_space_around_a_frame_is_skipped() -> None:
    assert isinstance(event(b" \r\n" + event_frame("log", {}) + b"\r\n"), Log)


def test_lone_surrogates_in_a_text_are_kept_for_whoever_joins_the_pieces() -> None:
    data = event_frame("result_chunk", {"result_id": "r", "chunk_seq": 0, "data": "\ud83d"})
    read = event(data)

    assert read.kind == "result_chunk"
    assert read.data == "\ud83d"  # type: ignore[attr-defined]
    assert read.raw["payload"]["body"]["data"] == "\ud83d"


def test_lone_surrogates_in_identifiers_are_replaced_so_that_a_store_can_hold_them() -> None:
    data = event_frame("log", {}, id="\ud800", job_id="j\udfff", session_id="\ud83d\ude00")
    read = event(data)

    assert read.id == "\ufffd"
    assert read.job_id == "j\ufffd"
    assert read.session_id == "\U0001f600"  # two halves that do belong together


def test_lone_surrogates_in_a_type_do_not_pass_for_another_type() -> None:
    read = decode(b'{"type":"job.event\\ud800","payload":{"kind":"log","body":{}}}')

    assert isinstance(read, ControlFrame)
    assert read.type == "job.event\ufffd"


def test_integers_of_more_than_64_bits_are_read_exactly() -> None:
    for digits in (20, 400, 4000):
        read = event(event_frame("tool_result", {"call_id": "c", "result": int("9" * digits)}))
        assert read.result == int("9" * digits)  # type: ignore[attr-defined]


def test_nulls_in_the_envelope_count_as_absent() -> None:
    read = event(
        json.dumps(
            {
                "arcp": None,
                "id": None,
                "type": "job.event",
                "session_id": None,
                "job_id": None,
                "trace_id": None,
                "event_seq": None,
                "payload": {"kind": "log", "ts": None, "body": None},
            }
        ).encode()
    )
    assert read == Log(_frame=read._frame)

    ping = decode(b'{"type":"session.ping","id":null,"payload":null,"correlation_id":null}')
    assert isinstance(ping, ControlFrame)
    assert (ping.id, ping.payload, ping.correlation_id) == ("", {}, None)


def test_identifiers_that_are_no_text_count_as_absent() -> None:
    read = event(event_frame("log", {}, id=5, job_id=["x"], session_id={}, trace_id=True))

    assert (read.id, read.job_id, read.session_id, read.trace_id) == ("", None, "", None)


def test_the_version_is_not_looked_at() -> None:
    for version in ("1.0", "2.0", 1.1, None):
        assert isinstance(decode(frame("session.ping", {}, arcp=version)), ControlFrame)


def test_fields_that_nobody_reads_may_hold_what_could_not_be_read() -> None:
    """Unknown fields are ignored (§5), and that is also the fastest thing to do with them."""
    extra = b'"digits":%b,"big":-1e400,"bytes":"\xff","fraction":1.5,' % (b"9" * 5000)
    data = b'{"type":"job.event",%b"payload":{"kind":"log","body":{"message":"m"}}}' % extra
    read = event(data)

    assert isinstance(read, Log)
    assert read.message == "m"
    assert read.raw["digits"] == "9" * 5000
    assert read.raw["big"] == "-1e400"
    assert read.raw["bytes"] == "\ufffd"
    assert read.raw["fraction"] == 1.5
