"""How a byte stream is cut into lines, however it arrives."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.errors import LocalProtocolError, RemoteProtocolError
from arcp_client.transports._lines import LineSplitter, one_line

LIMIT = 100


def split(*chunks: bytes, limit: int = LIMIT) -> list[bytes | RemoteProtocolError]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + splitter.end()


def shown(lines: list[bytes | RemoteProtocolError]) -> list[object]:
    return [
        line if isinstance(line, bytes) else (str(line), line.size, line.head) for line in lines
    ]


def test_lines_are_split_at_newlines_only() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\rj"
    assert split(f"{text}\n{text}\n".encode()) == [text.encode()] * 2


def test_a_carriage_return_before_the_newline_is_no_part_of_the_line() -> None:
    assert split(b'{"a":1}\r\n{"b":2}\r', b'\n{"c":3}\n') == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_blank_lines_vanish() -> None:
    assert split(b'\n\r\n{"a":1}\n\n  \t\n{"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


def test_a_last_line_without_a_newline_is_a_line() -> None:
    assert split(b'{"a":1}\n{"b":', b"2}") == [b'{"a":1}', b'{"b":2}']


def test_one_byte_at_a_time_with_characters_of_two_three_and_four_bytes() -> None:
    line = '{"a":"é中\U0001f600"}'.encode()
    assert split(*(bytes([byte]) for byte in line + b"\n" + line + b"\n")) == [line, line]


def test_a_line_that_is_too_long_is_dropped_whole_and_its_tail_is_never_a_line() -> None:
    long = b"[" + b"1," * 300 + b"1]"
    for size in (1, 7, 64, 1000):
        data = b'{"a":1}\n' + long + b'\n{"b":2}\n'
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        first, error, last = split(*chunks)
        assert (first, last) == (b'{"a":1}', b'{"b":2}')
        assert isinstance(error, RemoteProtocolError)
        assert error.size == len(long)
        assert error.head == "***"
        assert f"over this side's limit of {LIMIT} bytes" in str(error)


def test_a_line_at_the_limit_passes_with_either_line_end() -> None:
    line = b"x" * LIMIT
    assert split(line + b"\n", line + b"\r", b"\n", line) == [line, line, line]


def test_a_line_one_over_the_limit_is_refused_with_either_line_end() -> None:
    line = b"x" * (LIMIT + 1)
    for data in (line + b"\n", line + b"\r\n", line):
        (error,) = split(data)
        assert isinstance(error, RemoteProtocolError)
        assert error.size == LIMIT + 1


def test_while_a_line_is_being_dropped_it_is_not_held_in_memory() -> None:
    splitter = LineSplitter(LIMIT)
    for _ in range(1000):
        assert splitter.feed(b"x" * 1000) == []
        assert splitter.held == 0


def test_small_pieces_of_a_line_take_little_more_memory_than_their_bytes() -> None:
    splitter = LineSplitter(1_000_000)
    tracemalloc.start()
    try:
        for number in range(50_000):
            splitter.feed(b"%02d" % (number % 100))  # a new object each time
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


def test_a_line_that_is_no_utf8_is_reported_and_the_next_one_is_read() -> None:
    error, line = split(b'{"a":"\xff\xfe"}\n{"b":2}\n')
    assert isinstance(error, RemoteProtocolError)
    assert (error.size, error.head) == (10, '{"***":"***"}')
    assert line == b'{"b":2}'


def test_an_encoded_surrogate_is_no_utf8() -> None:
    (error,) = split(b'"\xed\xa0\x80"\n')
    assert isinstance(error, RemoteProtocolError)


@given(
    data=st.lists(
        st.sampled_from(
            [b"\n", b"\r\n", b"\r", b" ", b"x" * 60, "\u2028é".encode(), b"\xff", b"{}"]
        )
    ).map(b"".join),
    cuts=st.lists(st.integers(min_value=0, max_value=400)),
)
def test_how_the_bytes_arrive_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert shown(split(*pieces)) == shown(split(data))


def test_a_frame_becomes_one_line() -> None:
    assert one_line(b'{"a":"\xe2\x80\xa8"}', limit=LIMIT) == b'{"a":"\xe2\x80\xa8"}\n'


@pytest.mark.parametrize("frame", [b'{"a":\n1}', b"{}\n", b"{}\r", b"x" * (LIMIT + 1)])
def test_what_would_not_be_one_line_of_allowed_length_is_refused(frame: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        one_line(frame, limit=LIMIT)
