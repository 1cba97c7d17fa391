# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events of a pod are in its log and below its findings, as far as they can be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.cluster.pod_events import PodEvent, PodEvents
from nri_scope.recording.reading.reader import Recording
from tests.amount import sampled
from tests.cluster.fake_kubectl import change
from tests.cluster.plugin_command import KUBECTL, RECORDING, Done, cluster, port, run
from tests.sample_names import CHECKOUT, CHECKOUT_API, CHECKOUT_POD, NAMESPACE, REPLICA_POD

__all__ = ["cluster", "port"]


def event(at_ns: int, message: str, **more: Any) -> dict[str, Any]:
    at = datetime.fromtimestamp(at_ns // 10**9, UTC).isoformat().replace("+00:00", "Z")
    return {
        "metadata": {"namespace": NAMESPACE, "name": f"{CHECKOUT_POD}.{at_ns}"},
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": CHECKOUT_POD},
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "lastTimestamp": at,
        **more,
    }


def creation() -> int:
    """Return the time of the first creation in the pod."""
    with Recording.open(RECORDING) as recording:
        return next(
            one.at_ns
            for one in recording.events()
            if one.event == "CreateContainer" and one.pod == CHECKOUT_POD
        )


async def log(cluster: dict[str, str], *words: str) -> Done:
    return await run(KUBECTL, "log", CHECKOUT, *words, environment=cluster)


@pytest.mark.parametrize(
    "series",
    sampled([None, {"count": 3, "lastObservedTime": None}], 1),
)
async def test_they_are_lines_between_the_events(
    cluster: dict[str, str], series: dict[str, Any] | None
) -> None:
    plain = (await log(cluster, "--format", "jsonl")).output.splitlines()
    last = json.loads(plain[-1])["at"]
    at_ns = creation()
    words = "plugins 10-a and 20-b both tried\n\x1b[31mto set \u202e it"
    about = {
        "kind": "Pod",
        "namespace": NAMESPACE,
        "name": CHECKOUT_POD,
        "fieldPath": "spec.containers{checkout-api}",
    }
    more = {"series": series, "count": 3, "involvedObject": about}
    events = [event(2 * 10**18, "late"), event(at_ns + 10**9, words, **more)]
    other = event(at_ns, "of another pod")
    other["involvedObject"] = {**about, "name": REPLICA_POD}
    change(cluster, events=[*events, other])
    done = await log(cluster, "--format", "jsonl")
    lines = done.output.splitlines()
    found = [json.loads(line) for line in lines]
    assert [line for line in lines if "kubernetes_event" not in line] == plain
    assert found[-1]["kubernetes_event"]["message"] == "late"
    own = next(one["kubernetes_event"] for one in found if "kubernetes_event" in one)
    assert (own["message"], own["count"], own["part"]) == (
        words,
        3,
        "spec.containers{checkout-api}",
    )
    times = [(one.get("kubernetes_event") or one)["at"] for one in found if "gap" not in one]
    place = times.index(own["at"])
    assert all(at <= own["at"] for at in times[:place]) and own["at"] < times[place + 1] <= last
    text = (await log(cluster)).output
    assert "Warning Failed ×3 spec.containers{checkout-api}: plugins 10-a and 20-b both" in text
    assert "\x1b" not in text and "\u202e" not in text
    for options in (("--where", "event:CreateContainer"), ("--until", "2000-01-01")):
        done = await log(cluster, *options)
        assert "k8s" not in done.output
    done = await run(KUBECTL, "log", CHECKOUT_API, environment=cluster)
    assert "both tried" in done.output and "late" not in done.output


async def test_without_the_permission_a_note_says_so(cluster: dict[str, str]) -> None:
    plain = await log(cluster)
    refusal = 'events is forbidden: User "jane" cannot list resource "events"'
    change(cluster, events=f"Error from server (Forbidden): {refusal}")
    done = await log(cluster)
    assert (done.status, done.output) == (0, plain.output)
    assert done.errors == f"Kubernetes Events are not shown: kubectl get events: {refusal}\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"lastTimestamp": None},
        {"lastTimestamp": "yesterday"},
        {"lastTimestamp": "1960-01-01T00:00:00Z"},
        {"lastTimestamp": "9999-01-01T00:00:00Z"},
        {"series": "x"},
        {"count": "x"},
        {"lastTimestamp": 5},
        {"metadata": None, "lastTimestamp": None},
    ],
)
async def test_events_that_no_api_server_sends_are_a_note(
    cluster: dict[str, str], wrong: dict[str, Any]
) -> None:
    change(cluster, events=[event(10**18, "x") | wrong])
    done = await log(cluster)
    assert done.status == 0 and "k8s" not in done.output
    assert done.errors == (
        "Kubernetes Events are not shown: kubectl get events: it printed something else\n"
    )


async def test_only_the_newest_are_shown(cluster: dict[str, str]) -> None:
    change(cluster, events=[event((10**9 + at) * 10**9, f"n{at}.") for at in range(502)])
    done = await log(cluster)
    assert done.errors == "2 older Kubernetes Events not shown\n"
    assert "n1." not in done.output and "n2." in done.output and "n501." in done.output


@pytest.mark.exhaustive
async def test_findings_are_followed_by_them(cluster: dict[str, str]) -> None:
    words = ("report", CHECKOUT, "--diagnose")
    nothing = await run(KUBECTL, *words, environment=cluster)
    assert f"Kubernetes Events of {CHECKOUT}: none now; clusters delete them" in nothing.output
    change(cluster, events=[event(10**18, "Error: no such device")])
    done = await run(KUBECTL, *words, environment=cluster)
    assert done.status == nothing.status
    assert f"Kubernetes Events of {CHECKOUT}:\n" in done.output
    assert "Warning Failed: Error: no such device" in done.output
    done = await run(KUBECTL, *words, "--format", "json", environment=cluster)
    found = json.loads(done.output)["kubernetes_events"]
    assert [one["message"] for one in found] == ["Error: no such device"]
    done = await run(KUBECTL, *words, "--redact", environment=cluster)
    assert "no such device" not in done.output


TIMES = st.lists(st.integers(0, 20)).map(sorted)


@given(TIMES, TIMES, st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_merging_keeps_the_order_and_the_limits(
    items: list[int], events: list[int], since: int, until: int, is_end: bool
) -> None:
    found = PodEvents("p", tuple(PodEvent(at, "", "", "", 1, "") for at in events))
    times = (since, until)
    merged = [*found.merged(items, int, times, skip_earlier=is_end)]
    shown = [one.at_ns for one in merged if isinstance(one, PodEvent)]
    assert [one for one in merged if not isinstance(one, PodEvent)] == items
    order = [one.at_ns if isinstance(one, PodEvent) else one for one in merged]
    assert order == sorted(order)
    low = items[0] if is_end and items else 0
    assert shown == [at for at in events if since <= at < (until or 21) and at >= low]
