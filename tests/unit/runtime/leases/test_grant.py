"""What a job may do, until when, and for how much (§9)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.errors import (
    BudgetExhausted,
    InvalidRequest,
    JobFailed,
    LeaseExpired,
    LeaseSubsetViolation,
    PermissionDenied,
)
from arcp_client.models import Lease
from arcp_client.runtime import JobContext, Limits
from arcp_client.runtime._leases.grant import Budget, Grant, parse_grant
from arcp_client.runtime._leases.patterns import Targets, covers, normal_path, normal_url
from tests.unit.runtime.jobs.test_cancel import opened, virtual
from tests.unit.runtime.peer import bodies, seqs

NOW = datetime(2026, 5, 13, 12, tzinfo=UTC)


def grant(lease: dict[str, list[str]], expires_at: str | None = None) -> Grant:
    return parse_grant(lease, {"expires_at": expires_at}, NOW)


@pytest.mark.parametrize(
    ("namespace", "pattern", "target", "allowed"),
    [
        ("fs.read", "/a/b/**", "/a/b/c/d", True),
        ("fs.read", "/a/b/**", "/a/b", True),
        ("fs.read", "/a/b/**", "/a/bc", False),
        ("fs.read", "/a/b/**", "/a/b/../c", False),
        ("fs.read", "/a/b/**", "/a/b/./c/../d", True),
        ("fs.read", "/a/b/**", "//a//b//c", True),
        ("fs.read", "/a/*", "/a/b", True),
        ("fs.read", "/a/*", "/a/b/c", False),
        ("fs.read", "/a/**/z", "/a/z", True),
        ("fs.read", "/a/**/z", "/a/b/c/z", True),
        ("fs.read", "/a/?.py", "/a/b.py", True),
        ("fs.read", "/a/?.py", "/a/bc.py", False),
        ("fs.read", "/**", "/etc/passwd", True),
        ("fs.read", "/**", "../etc/passwd", False),
        ("fs.read", "src/**", "src/a.py", True),
        ("fs.read", "src/**", "src/../../etc", False),
        ("fs.read", "/a/**", "/a/b\0c", False),
        ("fs.read", "/a/**", "", False),
        ("fs.write", "/a/[bc]", "/a/b", False),
        ("net.fetch", "https://api.example.com/**", "https://api.example.com/v1/x?q=1#f", True),
        ("net.fetch", "https://api.example.com/**", "https://API.EXAMPLE.COM:443/v1", True),
        ("net.fetch", "https://api.example.com/**", "https://api.example.com.evil.net/", False),
        ("net.fetch", "https://api.example.com/**", "https://api.example.com@evil.net/", False),
        ("net.fetch", "https://api.example.com/**", "http://api.example.com/", False),
        ("net.fetch", "https://api.example.com/v1/**", "https://api.example.com/v1/../v2", False),
        (
            "net.fetch",
            "https://api.example.com/v1/**",
            "https://api.example.com/v1/%2e%2e/x",
            False,
        ),
        ("net.fetch", "https://*.example.com/**", "https://a.example.com/x", True),
        ("net.fetch", "https://*.example.com/**", "https://evil.net/.example.com/x", False),
        ("net.fetch", "https://h/**", "https://h\\@evil/", False),
        ("net.fetch", "**", "https://anything:8443/at/all", True),
        ("tool.call", "search.*", "search.web", True),
        ("tool.call", "search.*", "searching", False),
        ("tool.call", "*", "any/thing", True),
        ("model.use", "anthropic/claude-*", "anthropic/claude-5", True),
        ("model.use", "anthropic/claude-*", "openai/gpt", False),
    ],
)
def test_a_pattern_covers_what_it_should(
    namespace: str, pattern: str, target: str, allowed: bool
) -> None:
    assert grant({namespace: [pattern]}).allows(namespace, target) is allowed


def test_a_budget_of_any_length_is_charged_exactly() -> None:
    held = grant({"cost.budget": [f"USD:{'9' * 40}.{'9' * 40}", "кредиты:1"]})
    budget = Budget(held.limits)
    budget.charge("USD", Decimal("0." + "0" * 39 + "9"))
    assert str(budget.remaining["USD"]) == "9" * 40 + "." + "9" * 39 + "0"
    assert budget.remaining["кредиты"] == 1


def test_nothing_is_allowed_that_no_pattern_names() -> None:
    held = grant({"fs.read": ["/a/**"]})
    assert not held.allows("fs.write", "/a/b")
    assert not held.allows("tool.call", "x")
    assert not grant({}).allows("fs.read", "/a")


@pytest.mark.parametrize(
    ("lease", "expires_at"),
    [
        ({"": ["x"]}, None),
        ({"Fs.Read": ["x"]}, None),
        ({"fs.read": [""]}, None),
        ({"fs.read": ["/a/../b"]}, None),
        ({"fs.read": ["/a/"]}, None),
        ({"fs.read": ["x" * 600]}, None),
        ({"fs.read": ["/x"] * 300}, None),
        ({"cost.budget": ["USD"]}, None),
        ({"cost.budget": ["USD:"]}, None),
        ({"cost.budget": ["USD:-1"]}, None),
        ({"cost.budget": ["USD:1e3"]}, None),
        ({"cost.budget": ["USD:1", "USD:2"]}, None),
        ({}, "2026-05-13T11:59:59Z"),
        ({}, "2026-05-13T12:00:00Z"),
        ({}, "2026-05-13T13:00:00"),
        ({}, "2026-05-13T14:30:00+02:00"),
        ({}, "tomorrow"),
    ],
)
def test_what_breaks_the_grammar_is_refused(lease: Any, expires_at: str | None) -> None:
    with pytest.raises(InvalidRequest):
        grant(lease, expires_at)


def test_vendor_namespaces_are_kept() -> None:
    assert grant({"x-vendor.acme.gpu": ["a100"]}).allows("x-vendor.acme.gpu", "a100")


# ------------------------------------------------------------------------- subsetting


@pytest.mark.parametrize(
    ("parent", "child", "fits"),
    [
        ({"fs.read": ["/a/**"]}, {"fs.read": ["/a/b/**"]}, True),
        ({"fs.read": ["/a/**"]}, {"fs.read": ["/a/**"]}, True),
        ({"fs.read": ["/a/b/**"]}, {"fs.read": ["/a/**"]}, False),
        ({"fs.read": ["/a/*"]}, {"fs.read": ["/a/**"]}, False),
        ({"fs.read": ["/a/**"]}, {"fs.read": ["/**"]}, False),
        ({"fs.read": ["/a/b/**"]}, {"fs.read": ["/a/bc/**"]}, False),
        ({"fs.read": ["/a/**", "/b/**"]}, {"fs.read": ["/b/x", "/a/y"]}, True),
        ({"fs.read": ["/a/*.py"]}, {"fs.read": ["/a/test_*.py"]}, True),
        ({"fs.read": ["/a/test_*.py"]}, {"fs.read": ["/a/*.py"]}, False),
        ({"fs.read": ["/a/?"]}, {"fs.read": ["/a/*"]}, False),
        ({"tool.call": ["search.*"]}, {"tool.call": ["search.web"]}, True),
        ({"tool.call": ["search.*"]}, {"tool.call": ["*"]}, False),
        ({"tool.call": ["search.*"]}, {"fs.read": ["/a"]}, False),
        ({"model.use": ["claude-*"]}, {"model.use": ["claude-5-*"]}, True),
        ({"model.use": ["claude-*"]}, {"model.use": ["gpt"]}, False),
        ({"cost.budget": ["USD:5.00"]}, {"cost.budget": ["USD:2.00"]}, True),
        ({"cost.budget": ["USD:5.00"]}, {"cost.budget": ["USD:2.01"]}, False),
        ({"tool.call": ["*"]}, {"cost.budget": ["EUR:9"]}, True),
        ({"tool.call": ["*"]}, {}, True),
    ],
)
def test_a_child_gets_at_most_what_its_parent_holds(parent: Any, child: Any, fits: bool) -> None:
    held = grant(parent)
    budget = Budget(held.limits)
    budget.charge("USD", Decimal("3.00"))
    if fits:
        held.derive(grant(child), budget)
    else:
        with pytest.raises(LeaseSubsetViolation):
            held.derive(grant(child), budget)


def test_a_child_expires_no_later_than_its_parent() -> None:
    early, late = "2026-05-13T13:00:00Z", "2026-05-13T14:00:00Z"
    parent = grant({}, early)
    budget = Budget({})
    assert parent.derive(grant({}), budget).expires_at == parent.expires_at
    with pytest.raises(LeaseSubsetViolation):
        parent.derive(grant({}, late), budget)
    assert grant({}, late).derive(grant({}, early), budget).expires_at == parent.expires_at
    assert grant({}).derive(grant({}, late), budget).wire_constraints() == {
        "expires_at": "2026-05-13T14:00:00.000Z"
    }


words = st.text("ab/*?", min_size=1, max_size=6)
plain = st.text("ab/", min_size=1, max_size=6)


@given(outer=words, inner=words, target=plain, namespace=st.sampled_from(["fs.read", "tool.call"]))
def test_what_a_covered_pattern_covers_its_cover_covers(
    outer: str, inner: str, target: str, namespace: str
) -> None:
    if covers(namespace, outer, inner) and covers(namespace, inner, target):
        assert covers(namespace, outer, target)


def _reference(namespace: str, pattern: str, target: str) -> bool:
    """The rule as it is written, without a thought of time."""
    if namespace.startswith(("fs.", "net.")):
        return _segments(pattern.split("/"), target.split("/"))
    return _text(pattern.replace("**", "*"), target.replace("**", "*"))


def _segments(pattern: list[str], target: list[str]) -> bool:
    if not pattern:
        return not target
    if pattern[0] == "**":
        return any(_segments(pattern[1:], target[n:]) for n in range(len(target) + 1))
    return (
        bool(target)
        and target[0] != "**"
        and _text(pattern[0], target[0])
        and _segments(pattern[1:], target[1:])
    )


def _text(pattern: str, target: str) -> bool:
    if not pattern:
        return not target
    if pattern[0] == "*":
        return any(_text(pattern[1:], target[n:]) for n in range(len(target) + 1))
    if not target:
        return False
    same = target[0] != "*" if pattern[0] == "?" else target[0] == pattern[0]
    return same and _text(pattern[1:], target[1:])


@given(
    namespace=st.sampled_from(["fs.read", "net.fetch", "tool.call"]),
    patterns=st.lists(st.text("ab/*?", max_size=8), max_size=3),
    targets=st.lists(st.text("ab/*?", max_size=8), min_size=1, max_size=4),
)
def test_all_targets_at_once_are_covered_as_each_of_them_by_the_plain_rule(
    namespace: str, patterns: list[str], targets: list[str]
) -> None:
    alone = [any(_reference(namespace, p, target) for p in patterns) for target in targets]
    expected = None if all(alone) else targets[alone.index(False)]
    assert Targets(namespace, targets).uncovered(patterns) == expected


@given(
    namespace=st.sampled_from(["fs.read", "tool.call"]),
    pattern=st.text("aä€😀/*", min_size=1, max_size=6),
    target=st.text("aä€😀/", min_size=1, max_size=6),
)
def test_characters_of_any_width_count_as_one(namespace: str, pattern: str, target: str) -> None:
    assert covers(namespace, pattern, target) == _reference(namespace, pattern, target)


@pytest.mark.parametrize(
    "lease",
    [
        {"tool.call": ["x"] * 257},
        {"tool.call": ["x"] * 200, "model.use": ["x"] * 57},
        {f"x.n{n}": [] for n in range(257)},
        {"tool.call": ["x" * 512] * 256},
        {"tool.call": ["€" * 512] * 86},
        {"x." + "n" * 128 * 1024: []},
    ],
)
def test_a_lease_over_its_bounds_is_refused(lease: Any) -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        grant(lease)


def test_a_lease_at_its_bounds_is_accepted_and_inherited() -> None:
    many = {"tool.call": [f"{n:03}*" for n in range(256)]}
    assert grant(many).derive(grant(many), Budget({})).lease.get("tool.call")[-1] == "255*"
    long = {"x.y": [f"{n:03}" + "a*" * 253 for n in range(257 - 3)] + ["b" * 512]}
    assert grant(long).derive(grant(long), Budget({})).lease.get("x.y")[-1] == "b" * 512


def test_a_delegation_that_takes_long_to_compare_is_refused() -> None:
    """R7."""
    stars = grant({"x.y": ["a*" * 255 + f"{n:02}" for n in range(80)]})
    for patterns in (["a" * 500 + "b"], ["a" * 500 + "b"] * 8, ["a" * 500 + "b"] * 80):
        with pytest.raises(InvalidRequest, match="too long to be compared"):
            stars.derive(grant({"x.y": patterns}), Budget({}))
    # What differs in its first letters takes no time.
    plain = grant({"x.y": [f"{n:03}/" + "a" * 400 + "*" for n in range(256)]})
    plain.derive(grant({"x.y": ["255/" + "a" * 500]}), Budget({}))


def test_the_bound_on_comparing_is_one_for_all_namespaces() -> None:
    names = [f"x.n{n}" for n in range(40)]
    held = grant({name: ["a*" * 255] for name in names})
    held.derive(grant({names[0]: ["a" * 500]}), Budget({}))
    with pytest.raises(InvalidRequest, match="too long to be compared"):
        held.derive(grant({name: ["a" * 500] for name in names}), Budget({}))


async def test_the_bounds_of_a_lease_are_the_runtimes_to_set(make: Any, open_peer: Any) -> None:
    """R7."""
    default = Lease({"tool.call": ("*",)})
    runtime = make(limits=Limits(lease_patterns=2, lease_bytes=20, default_lease=default))

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None: ...

    peer = await open_peer(runtime)
    await peer.run("a")
    await peer.run("a", lease_request={"tool.call": ["x", "y"]})
    for lease in ({"tool.call": ["x", "y", "z"]}, {"tool.call": ["x" * 12]}):
        refused = await peer.ask("job.submit", {"agent": "a", "lease_request": lease})
        assert refused["payload"]["code"] == "INVALID_REQUEST"
        assert "at most" in refused["payload"]["message"]
    with pytest.raises(ValueError, match="default_lease"):
        Limits(lease_patterns=2)


@given(path=st.text("ab./", max_size=12))
def test_a_normal_path_is_normal(path: str) -> None:
    plain_path = normal_path(path)
    if plain_path is not None:
        assert normal_path(plain_path) == plain_path
        assert ".." not in plain_path.split("/")
        assert "//" not in plain_path


def test_urls_that_readers_disagree_on_are_nobody() -> None:
    for url in ("https://", "no scheme", "https://h/a b", "https://[::1", "https://h:x/", "//h/a"):
        assert normal_url(url) is None
    assert normal_url("https://[::1]:443/a/") == "https://[::1]/a/"


# ------------------------------------------------------------------------- enforcement


async def test_an_operation_outside_the_lease_is_refused_before_it_happens(
    runtime: Any, open_peer: Any
) -> None:
    done = []

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        job.authorize("fs.read", "/data/x")
        with pytest.raises(PermissionDenied):
            job.authorize("fs.read", "/etc/passwd")
        async with job.tool("search.web", {"q": 1}) as call:
            done.append("search")
            call.result = {"hits": 3}
        with pytest.raises(PermissionDenied):
            async with job.tool("shell", {}):
                done.append("shell")
        return "survived"

    peer = await open_peer(runtime)
    lease = {"fs.read": ["/data/**"], "tool.call": ["search.*"]}
    _, frames = await peer.run("a", lease_request=lease)
    assert done == ["search"]
    assert frames[-1]["payload"]["result"] == "survived"
    calls, results = bodies(frames, "tool_call"), bodies(frames, "tool_result")
    assert [c["tool"] for c in calls] == ["search.web", "shell"]
    assert [c["call_id"] for c in calls] == [r["call_id"] for r in results]
    assert results[0]["result"] == {"hits": 3}
    assert results[1]["error"]["code"] == "PERMISSION_DENIED"
    assert results[1]["error"]["retryable"] is False


async def test_a_refusal_that_nobody_catches_ends_the_job_with_its_code(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        job.authorize("fs.write", "/x")

    peer = await open_peer(runtime)
    accepted = await peer.submit("a", lease_request={})
    assert accepted["payload"]["lease"] == {}
    (error,) = await peer.follow(accepted["payload"]["job_id"])
    assert error["payload"]["code"] == "PERMISSION_DENIED"
    assert error["payload"]["final_status"] == "error"


async def test_a_tool_that_raises_is_a_result_without_its_text(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        async with job.tool("t"):
            raise OSError("/home/secret")

    peer = await open_peer(runtime)
    _, frames = await peer.run("a")
    assert bodies(frames, "tool_result")[0]["error"]["code"] == "INTERNAL_ERROR"
    assert "secret" not in str(frames)


async def test_a_submit_without_a_lease_gets_the_default_and_sees_it(
    make: Any, open_peer: Any
) -> None:
    runtime = make(limits=Limits(default_lease=Lease({"tool.call": ("t",)})))

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None: ...

    peer = await open_peer(runtime)
    accepted = await peer.submit("a")
    assert accepted["payload"]["lease"] == {"tool.call": ["t"]}


def test_an_expired_lease_refuses_and_ends_the_job_after_the_grace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="arcp_client.runtime")

    async def scenario(runtime: Any) -> None:
        @runtime.agent("indexer")
        async def indexer(input: Any, job: JobContext) -> None:
            async with job.tool("t"):
                pass
            await asyncio.sleep(100)
            with pytest.raises(LeaseExpired):
                async with job.tool("t"):
                    raise AssertionError
            await asyncio.Event().wait()

        peer = await opened(runtime)
        soon = (datetime.now(UTC) + timedelta(seconds=100)).isoformat().replace("+00:00", "Z")
        accepted = await peer.submit("indexer", lease_constraints={"expires_at": soon})
        assert accepted["payload"]["lease_constraints"]["expires_at"].endswith("Z")
        frames = await peer.follow(accepted["payload"]["job_id"])
        assert asyncio.get_running_loop().time() == pytest.approx(101, abs=0.1)
        results = bodies(frames, "tool_result")
        assert results[1]["error"]["code"] == "LEASE_EXPIRED"
        assert results[1]["error"]["retryable"] is False
        assert frames[-1]["payload"]["code"] == "LEASE_EXPIRED"
        assert frames[-1]["payload"]["final_status"] == "error"
        assert frames[-1]["payload"]["retryable"] is False

    virtual(scenario)
    assert "the lease of job" in caplog.text


def test_a_job_that_went_on_after_expiry_does_not_succeed() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("a")
        async def a(input: Any, job: JobContext) -> str:
            await asyncio.sleep(10.1)
            with pytest.raises(LeaseExpired):
                job.authorize("tool.call", "t")
            return "in time, it thinks"

        peer = await opened(runtime)
        soon = (datetime.now(UTC) + timedelta(seconds=10)).isoformat().replace("+00:00", "Z")
        _, frames = await peer.run("a", lease_constraints={"expires_at": soon})
        assert frames[-1]["payload"]["code"] == "LEASE_EXPIRED"

    virtual(scenario)


def test_a_job_that_ended_before_expiry_hears_no_more_of_it() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("a")
        async def a(input: Any, job: JobContext) -> None: ...

        peer = await opened(runtime)
        soon = (datetime.now(UTC) + timedelta(seconds=10)).isoformat().replace("+00:00", "Z")
        await peer.run("a", lease_constraints={"expires_at": soon})
        await asyncio.sleep(50)
        await peer.send("session.ping", {"nonce": "n"})
        assert (await peer.read())["type"] == "session.pong"

    virtual(scenario)


# ----------------------------------------------------------------------------- budgets


async def test_costs_are_taken_off_exactly_and_what_is_left_follows(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        await job.metric("cost.search", 0.42, "USD")
        await job.metric("latency", 3, "s")
        await job.metric("cost.search", 1, "EUR")  # not budgeted
        assert job.budget == {"USD": Decimal("0.58"), "credits": Decimal(1000)}
        async with job.tool("fetch.url"):
            await job.metric("cost.fetch", 0.70, "USD")
        with pytest.raises(BudgetExhausted):
            async with job.tool("fetch.url"):
                raise AssertionError
        with pytest.raises(ValueError, match="negative"):
            await job.metric("cost.refund", -5, "USD")
        with pytest.raises(ValueError, match="finite"):
            await job.metric("cost.x", float("nan"), "USD")
        with pytest.raises(ValueError, match="runtime"):
            await job.emit("metric", {"name": "cost.budget.remaining", "value": 9, "unit": "USD"})
        return "partial"

    peer = await open_peer(runtime)
    lease = {"tool.call": ["*"], "cost.budget": ["USD:1.00", "credits:1000"]}
    accepted = await peer.submit("a", lease_request=lease)
    assert accepted["payload"]["budget"] == {"USD": 1.0, "credits": 1000}
    frames = await peer.follow(accepted["payload"]["job_id"])
    assert [(m["name"], m["value"]) for m in bodies(frames, "metric")] == [
        ("cost.search", 0.42),
        ("cost.budget.remaining", 0.58),
        ("latency", 3),
        ("cost.search", 1),
        ("cost.fetch", 0.7),
        ("cost.budget.remaining", -0.12),
    ]
    error = bodies(frames, "tool_result")[-1]["error"]
    assert error == {
        "code": "BUDGET_EXHAUSTED",
        "message": "the USD budget is exhausted",
        "retryable": False,
    }
    assert frames[-1]["payload"]["result"] == "partial"


async def test_an_observer_reads_the_present_counters(runtime: Any, open_peer: Any) -> None:
    spent = asyncio.Event()
    end = asyncio.Event()

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        await job.metric("cost.x", 0.1, "USD")
        spent.set()
        await end.wait()

    owner, observer = await open_peer(runtime), await open_peer(runtime)
    accepted = await owner.submit("a", lease_request={"cost.budget": ["USD:0.3"]})
    await spent.wait()
    answer = await observer.ask("job.subscribe", {"job_id": accepted["payload"]["job_id"]})
    assert answer["payload"]["budget"] == {"USD": 0.2}
    end.set()
    await owner.until("job.result")


# -------------------------------------------------------------------------- delegation


async def test_a_child_runs_under_a_part_of_the_lease_in_the_same_session(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("child", "1")
    async def child(input: Any, job: JobContext) -> Any:
        await job.metric("cost.x", 0.5, "USD")
        return {"doubled": input * 2, "lease": job.lease.root, "trace": job.trace_id}

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        made = await job.delegate(
            "child@1", 21, lease={"tool.call": ["search.*"], "cost.budget": ["USD:2"]}
        )
        value = await made.result()
        assert made.status == "success"
        assert job.budget == {"USD": Decimal("4.5")}
        return value

    peer = await open_peer(runtime)
    lease = {"tool.call": ["*"], "agent.delegate": ["child"], "cost.budget": ["USD:5"]}
    accepted = await peer.submit("parent", lease_request=lease)
    parent_id = accepted["payload"]["job_id"]
    told = await peer.until("job.accepted")
    child_id = told["payload"]["job_id"]
    assert told["payload"]["parent_job_id"] == parent_id
    assert told["payload"]["agent"] == "child@1"
    assert told["payload"]["budget"] == {"USD": 2}
    assert "request_id" not in told["payload"]
    frames = []
    while not frames or frames[-1].get("job_id") != parent_id or frames[-1]["type"] == "job.event":
        frames.append(await peer.read())
    assert seqs(frames) == list(range(1, len(frames) + 1))
    (delegated,) = bodies(frames, "delegate")
    assert delegated["child_job_id"] == child_id
    assert delegated["delegate_id"] == told["payload"]["delegate_id"]
    remaining = [
        (f["job_id"], f["payload"]["body"]["value"])
        for f in frames
        if f["payload"].get("body", {}).get("name") == "cost.budget.remaining"
    ]
    assert remaining == [(child_id, 1.5), (parent_id, 4.5)]
    result = frames[-1]["payload"]["result"]
    assert result["doubled"] == 42
    assert result["lease"] == {"tool.call": ["search.*"], "cost.budget": ["USD:2"]}
    assert result["trace"] == accepted["payload"]["trace_id"]
    listed = (await peer.ask("session.list_jobs"))["payload"]["jobs"]
    assert [(j["job_id"], j["parent_job_id"]) for j in listed] == [
        (parent_id, None),
        (child_id, parent_id),
    ]


async def test_a_delegation_beyond_the_lease_is_refused(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("child")
    async def child(input: Any, job: JobContext) -> None: ...

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> str:
        with pytest.raises(LeaseSubsetViolation):
            await job.delegate("child", lease={"fs.read": ["/**"]})
        with pytest.raises(LeaseSubsetViolation):
            await job.delegate("child", lease={"cost.budget": ["USD:9"]})
        with pytest.raises(PermissionDenied):
            await job.delegate("stranger")
        with pytest.raises(InvalidRequest):
            await job.delegate("No Agent")
        await job.delegate("child", lease={"fs.read": ["/src/x/**"]})
        return "done"

    peer = await open_peer(runtime)
    lease = {"fs.read": ["/src/**"], "agent.delegate": ["child"], "cost.budget": ["USD:5"]}
    _, frames = await peer.run("parent", lease_request=lease)
    assert frames[-1]["payload"].get("result") == "done", frames[-1]


async def test_children_need_no_slot_of_their_own(make: Any, open_peer: Any) -> None:
    runtime = make(limits=Limits(max_concurrent_jobs=1))

    @runtime.agent("nest")
    async def nest(input: Any, job: JobContext) -> int:
        if input == 0:
            return 0
        inner = await job.delegate("nest", input - 1)
        deeper: int = await inner.result()
        return deeper + 1

    peer = await open_peer(runtime)
    _, frames = await peer.run("nest", 5)
    assert frames[-1]["payload"]["result"] == 5


async def test_cancelling_a_parent_cancels_its_children(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("child")
    async def child(input: Any, job: JobContext) -> None:
        await asyncio.Event().wait()

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> None:
        made = await job.delegate("child")
        await made.result()

    peer = await open_peer(runtime)
    accepted = await peer.submit("parent")
    told = await peer.until("job.accepted")
    await peer.ask("job.cancel", {"job_id": accepted["payload"]["job_id"]})
    ends = [await peer.until("job.error") for _ in range(2)]
    assert {end["job_id"] for end in ends} == {
        accepted["payload"]["job_id"],
        told["payload"]["job_id"],
    }
    assert {end["payload"]["code"] for end in ends} == {"CANCELLED"}


async def test_a_child_can_be_cancelled_alone_and_its_parent_learns_how_it_ended(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("child")
    async def child(input: Any, job: JobContext) -> None:
        await asyncio.Event().wait()

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        made = await job.delegate("child")
        with pytest.raises(JobFailed) as failed:
            await made.result()
        return failed.value.code

    peer = await open_peer(runtime)
    accepted = await peer.submit("parent")
    told = await peer.until("job.accepted")
    answer = await peer.ask("job.cancel", {"job_id": told["payload"]["job_id"]})
    assert answer["type"] == "job.cancelled"
    frames = await peer.follow(accepted["payload"]["job_id"])
    assert frames[-1]["payload"]["result"] == "CANCELLED"


async def test_a_streamed_result_of_a_child_is_joined(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("text")
    async def text(input: Any, job: JobContext) -> Any:
        yield "a"
        yield "é"

    @runtime.agent("binary")
    async def binary(input: Any, job: JobContext) -> Any:
        yield "a"
        yield b"\xff"

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        first = await (await job.delegate("text")).result()
        second = await (await job.delegate("binary")).result()
        return [first, list(second)]

    peer = await open_peer(runtime)
    _, frames = await peer.run("parent")
    assert frames[-1]["payload"]["result"] == ["aé", [97, 255]]


async def test_a_client_may_submit_a_child_too(runtime: Any, open_peer: Any) -> None:
    end = asyncio.Event()

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> Any:
        if input:
            await end.wait()
        return job.lease.root

    owner, other = await open_peer(runtime), await open_peer(runtime)
    lease = {"fs.read": ["/a/**"]}
    parent_id = (await owner.submit("a", True, lease_request=lease))["payload"]["job_id"]
    request = {"agent": "a", "parent_job_id": parent_id}
    accepted = await owner.ask("job.submit", request)
    assert accepted["payload"]["parent_job_id"] == parent_id
    assert accepted["payload"]["lease"] == lease
    beyond = request | {"lease_request": {"fs.read": ["/**"]}}
    refused = await owner.ask("job.submit", beyond)
    assert refused["payload"]["code"] == "LEASE_SUBSET_VIOLATION"
    refused = await other.ask("job.submit", request)
    assert refused["payload"]["code"] == "PERMISSION_DENIED"
    end.set()
    await owner.follow(parent_id)
    refused = await owner.ask("job.submit", request)
    assert refused["payload"]["code"] == "INVALID_REQUEST"
