"""The blocking surface and the asynchronous one have the same names and the same signatures."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_overloads

import pytest

import arcp_client
from arcp_client import job, sync
from arcp_client.sync import event_methods, iterators
from arcp_client.sync import job as sync_job

BLOCKING = ("Client", "EventIterator", "Job", "JobHandle", "JobView", "Registration")
MORE: dict[tuple[str, str], dict[str, str]] = {
    ("Client", "__init__"): {"portal": "Portal | None"},
    ("Client", "connected"): {"timeout": "float | None"},
    ("Client", "on"): {"thread": "bool"},
    ("Client", "subscribe"): {"thread": "bool"},
    ("JobHandle", "result"): {"timeout": "float | None"},
}
"""Parameters of the blocking surface alone. Code with asyncio has ``asyncio.timeout``."""

RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__",
           "__anext__": "__next__", "aclose": "close"}  # fmt: skip
OTHER = {"__init__", "__new__", "__module__", "__doc__", "__dict__", "__weakref__", "__slots__",
         "__annotations__", "__parameters__", "__orig_bases__", "__abstractmethods__",
         "__class_getitem__", "__init_subclass__", "__subclasshook__", "__del__", "__repr__",
         "__hash__", "_abc_impl", "__protocol_attrs__"}  # fmt: skip


def names(cls: type) -> set[str]:
    """The public names of a class and the special ones that it defines itself."""
    found = {name for name in dir(cls) if not name.startswith("_")}
    for base in cls.__mro__:
        if base.__module__.startswith("arcp_client"):
            found |= {name for name in vars(base) if name.startswith("__")} - OTHER
    return {RENAMED.get(name, name) for name in found}


def blocking_name(name: str) -> str:
    return RENAMED.get(name, name)


def member(cls: type, name: str) -> Any:
    found = inspect.getattr_static(cls, name)
    return found.fget if isinstance(found, property) else found


def annotation(value: Any) -> str:
    """An annotation as its source has it; async generators are generators."""
    text = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    return re.sub(
        r"AsyncIterator\[(\w+)\]|AsyncGenerator\[(\w+), None\]",
        lambda found: f"Generator[{found[1] or found[2]}, None, None]",
        text,
    )


def signature(function: Callable[..., Any], but: dict[str, str]) -> dict[str, tuple[Any, ...]]:
    found = inspect.signature(function)
    assert {name: found.parameters[name].annotation for name in but} == but
    parameters: dict[str, tuple[Any, ...]] = {
        name: (parameter.kind, _plain(parameter.default), annotation(parameter.annotation))
        for name, parameter in found.parameters.items()
        if name not in but and name != "self"
    }
    return {**parameters, "return": (annotation(found.return_annotation),)}


def _plain(default: object) -> str:
    return re.sub(r" at 0x\w+", "", repr(default))


def is_generator(function: Any) -> bool:
    return inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)


def test_every_name_of_the_package_is_there_and_one_more() -> None:
    assert set(sync.__all__) == set(arcp_client.__all__) | {"Portal"}
    assert dir(sync) == sync.__all__


@pytest.mark.parametrize("name", arcp_client.__all__)
def test_a_name_means_the_same_or_its_blocking_form(name: str) -> None:
    ours, theirs = getattr(sync, name), getattr(arcp_client, name)
    if name not in BLOCKING:
        assert ours is theirs
    else:
        assert ours is not theirs
        assert ours.__name__ == theirs.__name__
        assert ours.__module__.startswith("arcp_client.sync.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sync.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", BLOCKING)
def test_both_surfaces_have_the_same_members(name: str) -> None:
    assert names(getattr(sync, name)) == names(getattr(arcp_client, name))


PAIRS = [
    (name, attribute)
    for name in BLOCKING
    for attribute in sorted(
        {one for one in dir(getattr(arcp_client, name)) if not one.startswith("_")}
        | ({"__init__", "__aexit__"} if name == "Client" else set())
    )
]


@pytest.mark.parametrize(("name", "attribute"), PAIRS)
def test_a_method_has_the_same_signature(name: str, attribute: str) -> None:
    theirs = member(getattr(arcp_client, name), attribute)
    ours = member(getattr(sync, name), blocking_name(attribute))
    owner = "JobHandle" if name in ("Job", "JobView") else name
    more = MORE.get((owner, attribute), {})
    assert not inspect.iscoroutinefunction(ours)
    assert is_generator(ours) is is_generator(theirs)
    assert signature(ours, more) == signature(theirs, {})
    assert isinstance(
        inspect.getattr_static(getattr(sync, name), blocking_name(attribute)), property
    ) is isinstance(inspect.getattr_static(getattr(arcp_client, name), attribute), property)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [("Client", "events"), ("Client", "on"), ("Client", "subscribe"), ("JobHandle", "events")],
)
def test_a_method_has_the_same_overloads(name: str, attribute: str) -> None:
    theirs = get_overloads(member(getattr(arcp_client, name), attribute))
    ours = get_overloads(member(getattr(sync, name), attribute))
    more = MORE.get((name, attribute), {})
    assert len(theirs) > 5
    assert [signature(one, more) for one in ours] == [signature(one, {}) for one in theirs]


def test_handles_are_related_as_the_asynchronous_ones() -> None:
    assert sync.Job.__bases__ == sync.JobView.__bases__ == (sync.JobHandle,)
    assert set(sync_job.__all__) == set(job.__all__)


def test_a_missing_member_would_be_noticed() -> None:
    class Short:
        def close(self) -> None: ...

    assert names(Short) != names(arcp_client.Client)
    assert signature(Short.close, {}) != signature(arcp_client.Client.close, {})


def test_every_public_name_has_a_docstring() -> None:
    for cls in (*(getattr(sync, name) for name in BLOCKING), sync.Portal):
        assert cls.__doc__
        for name in names(cls):
            if not name.startswith("__"):
                assert inspect.getattr_static(cls, name).__doc__, f"{cls.__name__}.{name}"
    assert event_methods.__all__
    assert iterators.LoopObservable.__doc__


def test_importing_it_imports_no_runtime_and_no_further_library() -> None:
    code = (
        "import sys; from arcp_client.sync import Client; print([m for m in sys.modules"
        " if m.startswith(('arcp_client.runtime', 'arcp_client.testing', 'anyio'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
