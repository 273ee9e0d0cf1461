"""Options that several commands share."""

from __future__ import annotations

import pytest

from arcp_client.cli.exit_codes import Complaint, Exit
from arcp_client.cli.options import Output, chosen


@pytest.mark.parametrize("output", [None, Output.JSON])
def test_json_is_short_for_output_json(output: Output | None) -> None:
    assert chosen(output, True) is Output.JSON


@pytest.mark.parametrize("output", [None, *Output])
def test_without_it_the_output_is_what_was_given(output: Output | None) -> None:
    assert chosen(output, False) is output


@pytest.mark.parametrize("output", [Output.TEXT, Output.JSONL])
def test_it_contradicts_any_other_output(output: Output) -> None:
    with pytest.raises(Complaint, match=f"--json and --output {output} contradict") as refused:
        chosen(output, True)
    assert refused.value.code is Exit.USAGE
