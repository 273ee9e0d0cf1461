"""The frames that a session sends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arcp_client._protocol.actions import ActionQueue
from arcp_client._protocol.negotiated import Negotiated
from arcp_client._wire import names
from arcp_client._wire.codec import encode, parse

IDS = st.text(min_size=1) | st.sampled_from(
    ["%", "%b%d", '"id":""', '_seq":0', "ü\ud800", "sess_01J"]
)


@given(ids=st.lists(IDS, min_size=1, max_size=3), numbers=st.lists(st.integers(0, 2**53)))
def test_an_acknowledgement_is_formatted_as_it_would_be_encoded(
    ids: list[str], numbers: list[int]
) -> None:
    negotiated = Negotiated(live=True)
    out = ActionQueue(negotiated)
    seen = set()
    for session_id in ids:
        negotiated.session_id = session_id
        out.linked(1.0)  # by the welcome
        for number in numbers:
            send = out.ack(number, 7.0)
            assert out.take() == []
            id = parse(send.data)["id"]
            payload = {"last_processed_seq": number}
            assert send.data == encode(names.ACK, payload, id=id, session_id=session_id)
            assert send.request is None
            assert id not in seen
            seen.add(id)
    assert out.heartbeat.sent_at == (7.0 if numbers else 1.0)


def test_acknowledgements_share_the_start_of_an_id_only_as_long_as_its_last_digits_differ() -> None:
    out = ActionQueue(Negotiated(session_id="sess_1"))
    ids = [parse(out.ack(number, 7.0).data)["id"] for number in range(2001)]
    assert {len(id) for id in ids} == {26}
    assert len({id[:23] for id in ids}) == 3
    assert len(set(ids)) == len(ids)
