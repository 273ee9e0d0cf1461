"""How a stream of server-sent events is split into messages, however it arrives."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.acp._http.events import EventSplitter
from arcp_client.errors import RemoteProtocolError
from arcp_client.transports._lines import DroppedLine

LIMIT = 100


def split(*chunks: bytes, limit: int = LIMIT) -> list[bytes | RemoteProtocolError]:
    splitter = EventSplitter(limit)
    return [message for chunk in chunks for message in splitter.feed(chunk)]


def shown(messages: list[bytes | RemoteProtocolError]) -> list[object]:
    return [
        m if isinstance(m, bytes) else (str(m), m.size, getattr(m, "start", None)) for m in messages
    ]


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"data: {}\n\n", [b"{}"]),
        (b"data:{}\n\n", [b"{}"]),
        (b"data:  {}\n\n", [b" {}"]),  # one space belongs to the format
        (b"data: {}\r\n\r\n", [b"{}"]),
        (b"data: {}\r\r", [b"{}"]),
        (b"data: {}\r\n\n", [b"{}"]),
        (b"\xef\xbb\xbfdata: {}\n\n", [b"{}"]),
        (b"data: {}\n\n\xef\xbb\xbfdata: {}\n\n", [b"{}"]),  # a mark is allowed at the start only
        (b"event: message\nid: 7\nretry: 5\ndata: {}\n\n", [b"{}"]),
        (b":\n\ndata: {}\n\n: idle\n\n", [b"{}"]),
        (b'data: {"a":\ndata: 1}\n\n', [b'{"a":\n1}']),
        (b"data\n\n", []),
        (b"data: \n\n", []),
        (b"event: ping\n\n", []),
        (b"datum: {}\n\n", []),
        (b" data: {}\n\n", []),
        (b"data: {}", []),
        (b"data: {}\n", []),
        (b"\n\n\n", []),
    ],
)
def test_the_format_of_the_html_standard(stream: bytes, messages: list[bytes]) -> None:
    assert split(stream) == messages


FIELDS = st.sampled_from(
    [b"data", b"id", b"event", b"retry", b"", b"datax", b"data: ", b"id: ", b"data:{}"]
)
VALUES = st.binary(max_size=30) | st.sampled_from([b"{}", b" {}", b"\xff", b"x" * 150, b"5"])
LINES = st.one_of(
    st.tuples(FIELDS, VALUES).map(lambda pair: pair[0] + b":" + pair[1]),
    VALUES,
    st.just(b""),
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=20).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def by_the_standard(stream: bytes) -> list[object]:
    """The standard's algorithm over the whole stream at once, without limits in memory."""
    messages: list[object] = []
    data: list[bytes] = []
    text = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, _ = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in lines:
        if not line:
            whole = b"\n".join(data)
            if len(whole) > LIMIT:
                messages.append(len(whole))
            elif whole and not whole.isspace():
                try:
                    whole.decode()
                except UnicodeDecodeError:
                    messages.append((len(whole), whole))
                else:
                    messages.append(whole)
            data = []
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
    return messages


@given(STREAMS, st.lists(st.integers(0, 400), max_size=10))
def test_any_pieces_of_any_stream_give_what_the_standard_says(
    stream: bytes, cuts: list[int]
) -> None:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    found: list[object] = []
    for message in split(*pieces):
        if isinstance(message, bytes):
            found.append(message)
        else:
            assert isinstance(message, DroppedLine)
            found.append((message.size, message.start) if message.complete else message.size)
    assert found == by_the_standard(stream)


@given(STREAMS)
def test_each_byte_on_its_own_gives_the_same_messages(stream: bytes) -> None:
    singly = [stream[n : n + 1] for n in range(len(stream))]
    assert shown(split(*singly)) == shown(split(stream))


@given(STREAMS, st.integers(0, 600))
def test_a_stream_that_breaks_gives_a_prefix_of_its_messages(stream: bytes, cut: int) -> None:
    some, everything = shown(split(stream[:cut])), shown(split(stream))
    assert everything[: len(some)] == some


def test_an_event_over_the_limit_is_dropped_whole_and_its_start_is_kept() -> None:
    large = b'{"id":7,"result":"' + b"x" * 10_000 + b'"}'
    pieces = [b"data: " + large[:50], large[50:9_000], large[9_000:], b"\n\ndata: {}\n\n"]
    dropped, kept = split(*pieces)
    assert kept == b"{}"
    assert isinstance(dropped, DroppedLine)
    assert str(dropped) == (
        f"an event of {len(large)} bytes is over this side's limit of 100 bytes and was dropped"
    )
    assert dropped.start == large[:LIMIT]
    assert not dropped.complete


def test_many_short_lines_count_as_one_event() -> None:
    (dropped,) = split(b"data: 0123456789\n" * 10 + b"\n")
    assert isinstance(dropped, DroppedLine)
    assert dropped.size == 109


def memory_taken(splitter: EventSplitter, size: int, times: int) -> int:
    """Bytes that are held after pieces of a line without an end."""
    tracemalloc.start()
    try:
        for _ in range(times):
            assert splitter.feed(b":" + b"x" * (size - 1)) == []
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_a_comment_without_end_takes_no_memory_and_is_no_message() -> None:
    splitter = EventSplitter(LIMIT)
    assert memory_taken(splitter, 10_000, 1000) < 20_000
    assert splitter.feed(b"\n\ndata: {}\n\n") == [b"{}"]


def test_small_pieces_take_little_more_memory_than_their_bytes() -> None:
    assert memory_taken(EventSplitter(1_000_000), 2, 50_000) < 200_000


@pytest.mark.parametrize(
    ("stream", "last_id"),
    [
        (b"id: 7\ndata: {}\n\n", "7"),
        (b"id: 7\ndata: {}\n\nid: 8\ndata: {}\n", "7"),  # the second event is incomplete
        (b"id: 7\ndata: {}\n\ndata: {}\n\n", ""),  # what follows the id would be sent again
        (b"id: 7\n\n", "7"),
        (b"id: 7\ndata: {}\n\n:\n\n", "7"),
        (b"data: {}\nid: a\x01b\n\n", ""),
        ("id: é\ndata: {}\n\n".encode(), ""),
        (b"id: " + b"7" * 2000 + b"\ndata: {}\n\n", ""),
        (b"id: 7\nid: 8\ndata: {}\n\n", "8"),
    ],
)
def test_the_position_after_which_a_stream_can_go_on(stream: bytes, last_id: str) -> None:
    splitter = EventSplitter(LIMIT)
    splitter.feed(stream)
    assert splitter.last_id == last_id


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1500", 1.5), (b"0", 0.0), (b"999999", 10.0), (b"-1", None), (b"soon", None), (b"", None)],
)
def test_the_pause_that_a_server_sets_is_bounded(value: bytes, seconds: float | None) -> None:
    splitter = EventSplitter(LIMIT)
    splitter.feed(b"retry: " + value + b"\n\n")
    assert splitter.retry == seconds


@pytest.mark.parametrize(
    ("stream", "partial"),
    [(b"data: {}\n\n", False), (b"data: {}\n", True), (b"da", True), (b"", False), (b":\n", False)],
)
def test_an_incomplete_event_is_known_and_dropped_by_a_restart(
    stream: bytes, partial: bool
) -> None:
    splitter = EventSplitter(LIMIT)
    splitter.feed(stream)
    assert splitter.partial is partial
    splitter.restart()
    assert not splitter.partial
    assert splitter.feed(b"data: []\n\n") == [b"[]"]
