"""Options that several commands share."""

from __future__ import annotations

import pytest

from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.options import OutputOptions
from arcp_client.cli.output_format import Output


@pytest.mark.parametrize("output", [None, Output.JSON])
def test_json_is_short_for_output_json(output: Output | None) -> None:
    assert OutputOptions(output, True).chosen() is Output.JSON


@pytest.mark.parametrize("output", [None, *Output])
def test_without_it_the_output_is_what_was_given(output: Output | None) -> None:
    assert OutputOptions(output, False).chosen() is output


@pytest.mark.parametrize("output", [Output.TEXT, Output.JSONL])
def test_it_contradicts_any_other_output(output: Output) -> None:
    with pytest.raises(CommandError, match=f"--json and --output {output} contradict") as refused:
        OutputOptions(output, True).chosen()
    assert refused.value.code is Exit.USAGE
