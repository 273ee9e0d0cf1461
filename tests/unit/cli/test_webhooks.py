"""The webhooks of ``serve``: which secret signs the calls to which URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.webhooks import webhooks_of
from arcp_client.runtime import Webhook

ONE = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TWO = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD8ILPZIo2"
URLS = ("https://a.example/", "https://b.example/")


def secrets(webhooks: list[Webhook]) -> list[list[str]]:
    return [[secret.get_secret_value() for secret in each.secrets] for each in webhooks]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A file with one secret, and one with both, the new one first."""
    (tmp_path / "one").write_text(f"{ONE}\n")
    (tmp_path / "both").write_text(f"{TWO}\n{ONE}\n")
    return [tmp_path / "one", tmp_path / "both"]


def test_one_file_is_for_all_webhooks_and_several_are_in_their_order(files: list[Path]) -> None:
    assert secrets(webhooks_of(URLS, files[:1], (), allow_http=False)) == [[ONE], [ONE]]
    assert secrets(webhooks_of(URLS, files, (), allow_http=False)) == [[ONE], [TWO, ONE]]


def test_without_a_file_the_variable_is_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCP_WEBHOOK_SECRET", f" {TWO} {ONE}\n")
    assert secrets(webhooks_of(URLS, (), (), allow_http=False)) == [[TWO, ONE]] * 2


def test_a_url_given_twice_is_refused(files: list[Path]) -> None:
    with pytest.raises(CommandError, match="twice"):
        webhooks_of(URLS[:1] * 2, files[:1], (), allow_http=False)


def test_the_kinds_are_those_of_a_webhook(files: list[Path]) -> None:
    (made,) = webhooks_of(URLS[:1], files[:1], (), allow_http=False)
    assert made.events == Webhook(URLS[0], secret=ONE).events
    (made,) = webhooks_of(URLS[:1], files[:1], ["job.ended"], allow_http=False)
    assert made.events == ("job.ended",)
