"""Conversations with agents are remembered by command and directory, in a bounded file."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcp_client.cli.actions import saved_chats


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "state"
    monkeypatch.setattr(saved_chats, "user_directory", lambda _: directory)
    return directory


def test_the_latest_conversation_of_a_command_and_directory_comes_first(tmp_path: Path) -> None:
    here, there = str(tmp_path), str(tmp_path / "there")
    saved_chats.remember(["agent", "acp"], here, "s1", "first prompt")
    saved_chats.remember(["agent", "acp"], here, "s2", "second")
    saved_chats.remember(["agent"], here, "s3")
    saved_chats.remember(["agent", "acp"], there, "s4")
    saved_chats.remember(["agent", "acp"], here, "s1", "a later prompt")
    found = saved_chats.known(["agent", "acp"], here)
    assert [(chat.session, chat.title) for chat in found] == [
        ("s1", "first prompt"),
        ("s2", "second"),
    ]


def test_the_file_is_bounded_and_private(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_chats, "_MOST", 3)
    for n in range(6):
        saved_chats.remember(["agent"], "/", f"s{n}", "x" * 500)
    found = saved_chats.known(["agent"], "/")
    assert [chat.session for chat in found] == ["s5", "s4", "s3"]
    assert len(found[0].title) == 120
    assert (state / "chats.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", '[{"session": 3}]', "[1]"])
def test_a_file_of_another_version_counts_as_empty(state: Path, text: str) -> None:
    state.mkdir()
    (state / "chats.json").write_text(text)
    assert saved_chats.known(["agent"], "/") == []
    saved_chats.remember(["agent"], "/", "s1")
    assert len(saved_chats.known(["agent"], "/")) == 1


def test_a_directory_that_cannot_be_written_does_not_end_the_conversation(state: Path) -> None:
    state.write_text("a file in its place")
    saved_chats.remember(["agent"], "/", "s1")
    assert saved_chats.known(["agent"], "/") == []
