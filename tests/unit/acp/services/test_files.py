"""Writing a file keeps what it is: its names, owner, mode, attributes and place."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client.acp import LocalFiles, Refusal

NOBODY = 65534
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes the rights of root")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that other users can reach."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """As a user without rights, in this process."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def existing(path: Path, content: str = "old", *, mode: int = 0o644, owner: int = -1) -> Path:
    path.write_text(content)
    if owner >= 0:
        os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def kept(path: Path) -> tuple[int, int, int, int]:
    found = path.stat()
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_nlink


def names(directory: Path) -> list[str]:
    return sorted(found.name for found in directory.iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o750, 0o664, 0o4755, 0o2755])
@pytest.mark.parametrize("content", ["", "new", "n" * 100_000])
async def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(
    root: Path, mode: int, content: str
) -> None:
    """Rule A7."""
    path = existing(root / "f", mode=mode)
    before = kept(path)
    with path.open() as reader:
        await LocalFiles(root).write_text_file(str(path), content)
        assert reader.read() == "old"  # who has it open sees the old one, whole
    assert path.read_text() == content
    assert kept(path) == before
    assert names(root) == ["f"]


@pytest.mark.parametrize("content", ["", "x", "longer than before", "n" * 100_000])
async def test_every_name_of_a_file_shows_what_was_written(root: Path, content: str) -> None:
    """Rule A7."""
    path = existing(root / "f", "before", mode=0o640)
    os.link(path, root / "other")
    await LocalFiles(root).write_text_file(str(path), content)
    assert (root / "other").read_text() == path.read_text() == content
    assert kept(path) == (0o640, os.geteuid(), os.getegid(), 2)


async def test_a_link_to_a_file_stays_a_link(root: Path) -> None:
    path = existing(root / "f")
    (root / "link").symlink_to("f")
    await LocalFiles(root).write_text_file(str(root / "link"), "new")
    assert (root / "link").is_symlink()
    assert path.read_text() == "new"


async def test_attributes_of_a_file_stay(root: Path) -> None:
    """Rule A7."""
    path = existing(root / "f")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")
    await LocalFiles(root).write_text_file(str(path), "new")
    assert path.read_text() == "new"
    assert os.getxattr(path, "user.note") == b"mine"


@is_root
async def test_root_gives_a_file_back_to_its_owner(root: Path) -> None:
    """Rule A7."""
    path = existing(root / "f", owner=NOBODY, mode=0o4711)
    before = kept(path)
    await LocalFiles(root).write_text_file(str(path), "new")
    assert path.read_text() == "new"
    assert kept(path) == before


@is_root
@pytest.mark.parametrize(
    ("directory_mode", "owner", "mode"),
    [
        pytest.param(0o755, NOBODY, 0o600, id="a directory of somebody else's"),
        pytest.param(0o777, 0, 0o666, id="a file of somebody else's"),
        pytest.param(0o1777, 0, 0o666, id="a sticky directory"),
    ],
)
async def test_a_user_writes_what_may_be_written_in_place(
    root: Path, directory_mode: int, owner: int, mode: int
) -> None:
    """Rule A7."""
    root.chmod(directory_mode)
    path = existing(root / "f", owner=owner, mode=mode)
    before = kept(path), path.stat().st_ino
    files = LocalFiles(root)
    with nobody():
        await files.write_text_file(str(path), "new")
    assert path.read_text() == "new"
    assert (kept(path), path.stat().st_ino) == before
    assert names(root) == ["f"]


@is_root
async def test_a_user_writes_nothing_that_may_not_be_written(root: Path) -> None:
    path = existing(root / "f", owner=0, mode=0o644)
    files = LocalFiles(root)
    with nobody():
        for name in ("f", "new"):
            with pytest.raises(Refusal, match="Permission denied"):
                await files.write_text_file(str(root / name), "new")
    assert path.read_text() == "old"
    assert names(root) == ["f"]


@is_root
@pytest.mark.parametrize("read_only", [False, True], ids=["", "in a directory mounted read-only"])
async def test_a_file_that_is_a_mount_point_is_written(root: Path, read_only: bool) -> None:
    """Rule A7."""
    (root / "in").mkdir()
    source, path = existing(root / "source"), existing(root / "in" / "f", "covered")
    with mounted(root / "in", root / "in"), mounted(source, path):
        if read_only:
            mount("-o", "remount,ro,bind", str(root / "in"))
        await LocalFiles(root / "in").write_text_file(str(path), "new")
        assert path.read_text() == "new"
    assert source.read_text() == "new"


def mount(*arguments: str) -> None:
    if subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")


@contextlib.contextmanager
def mounted(source: Path, target: Path) -> Iterator[None]:
    mount("--bind", str(source), str(target))
    try:
        yield
    finally:
        subprocess.run(["umount", str(target)], check=True)


@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_a_write_that_fails_is_an_error_and_changes_nothing(
    root: Path, links: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule A7."""
    path = existing(root / "f")
    if links == 2:
        os.link(path, root / "other")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate" if links == 2 else "replace", full)
    with pytest.raises(Refusal, match=os.strerror(number)):
        await LocalFiles(root).write_text_file(str(path), "longer than before")
    assert path.read_text() == "old"
    assert names(root) == (["f"] if links == 1 else ["f", "other"])


@pytest.mark.parametrize("name", ["n" * 255, "😀" * 63])
async def test_the_longest_name_can_be_written(root: Path, name: str) -> None:
    path = root / name
    for content in ("one", "two"):
        await LocalFiles(root).write_text_file(str(path), content)
        assert path.read_text() == content


@pytest.mark.parametrize(
    ("content", "line", "limit", "expected"),
    [
        ("\nsecond\n", 1, 1, "\n"),
        ("\nsecond\n", 1, 2, "\nsecond\n"),
        ("\nsecond", 1, None, "\nsecond"),
        ("\nsecond", 2, 1, "second"),
        ("\n", 1, 1, "\n"),
        ("\n\n\n", 2, None, "\n\n"),
        ("first\n\n", 2, 1, "\n"),
        ("", 1, 1, ""),
    ],
)
async def test_blank_lines_are_lines_of_a_partial_read(
    root: Path, content: str, line: int, limit: int | None, expected: str
) -> None:
    path = existing(root / "f", content)
    found = await LocalFiles(root).read_text_file(str(path), line=line, limit=limit)
    assert found == expected
