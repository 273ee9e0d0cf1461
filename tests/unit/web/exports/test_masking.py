"""An event that is certainly clean is exported as it is, with the same fields as any other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._feeds import frames
from arcp_client.transcripts import Scrubber
from arcp_client.web.exports import masking
from arcp_client.web.exports.masking import masked
from tests.unit.feeds.test_frames import BODIES, SECRETS, received


@given(told=BODIES, secrets=st.sets(st.sampled_from(SECRETS)))
def test_the_short_path_gives_the_event_and_the_fields_of_the_long_one(
    told: tuple[str, dict[str, Any]], secrets: set[str]
) -> None:
    event, scrubber = received(*told), Scrubber(secrets)
    found = masked(event, scrubber)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "_TEXTS", frozenset())
        expected = masked(event, scrubber)
    assert str(found[1]) == str(expected[1])
    assert type(found[0]) is type(expected[0])
    assert found[0].to_dict() == expected[0].to_dict()


def test_a_clean_message_is_not_built_again() -> None:
    event = received("log", {"level": "info", "message": "nothing special"})
    assert masked(event, Scrubber())[0] is event
    assert frames.unmasked(event, Scrubber(["nothing"])) is None
