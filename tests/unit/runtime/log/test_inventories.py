"""The agents of several replicas are shown as one inventory."""

from __future__ import annotations

from arcp_client._wire import names
from arcp_client.runtime._log.inventories import MOST_DECLARED, Offer, find_offer, merged

OWN = [{"name": "a", "versions": ["1"], "default": "1"}, {"name": "plain", "versions": []}]
OTHER = [
    {
        "name": "a",
        "versions": ["2", "1"],
        "default": "2",
        names.DECLARATIONS: [{"version": "2", "input_schema": {"type": "string"}}],
    },
    {"name": "b", "versions": ["1", "3"], "default": "3"},
]


def test_versions_are_united_and_the_own_default_counts() -> None:
    assert merged(OWN, [OTHER]) == [
        {
            "name": "a",
            "versions": ["1", "2"],
            "default": "1",
            names.DECLARATIONS: [{"version": "2", "input_schema": {"type": "string"}}],
        },
        {"name": "plain", "versions": []},
        {"name": "b", "versions": ["1", "3"], "default": "3"},
    ]


def test_the_inventories_that_are_merged_do_not_change() -> None:
    before = [dict(OWN[0]), dict(OTHER[0])]
    merged(OWN, [OTHER, OTHER])
    assert [OWN[0], OTHER[0]] == before


def test_declarations_that_are_too_large_together_are_left_out() -> None:
    def declared(name: str) -> list[dict[str, object]]:
        text = "x" * (MOST_DECLARED // 2)
        return [{"name": name, "versions": [], names.DECLARATIONS: [{"description": text}]}]

    found = merged(declared("a"), [declared("b"), declared("c")])
    assert [names.DECLARATIONS in entry for entry in found] == [True, False, False]


def test_a_reference_names_an_offer() -> None:
    assert find_offer(OTHER, "a") == Offer("a@2", {"type": "string"})
    assert find_offer(OTHER, "a@1") == Offer("a@1")
    assert find_offer(OTHER, "a@4") is None
    assert find_offer(OTHER, "c") is None
    assert find_offer(OWN, "plain") == Offer("plain")
