# SPDX-License-Identifier: Apache-2.0
"""Hand-made rounds for the renderers."""

from __future__ import annotations

from dataclasses import replace

from nri_scope.differ.attribution.attributed_changes import (
    Applied,
    ChangeStep,
    Claim,
    Evidence,
    PluginRequest,
    RoundDiff,
    Span,
)
from nri_scope.differ.attribution.owner import (
    REQUEST,
    RUNTIME,
    UNKNOWN,
    Owner,
    OwnerKind,
    one_of,
    plugin,
)
from nri_scope.specs import Change, ChangeKind, Json

AT_NS = 1_700_000_000 * 10**9
APP, SIDECAR, POD = "a" * 64, "b" * 64, "c" * 64
NAMES = {APP: "shop/web/app", SIDECAR: "shop/web/sidecar", POD: "shop/web"}

ENV, CPU = plugin("30-env-injector"), plugin("60-cpu-policy")
RANGE = Owner(OwnerKind.ONE_OF, first="01", last="29", ties=("00", "30"))
CHOICE = one_of("30-env-injector", "60-cpu-policy")


def name_of(object_id: str) -> str:
    return NAMES.get(object_id, object_id[:12])


def step(
    path: str,
    before: Json,
    after: Json,
    kind: ChangeKind = "changed",
    owner: Owner = ENV,
    *evidence: Evidence,
    at: int | None = None,
    container: str = APP,
    event: int = 14,
) -> ChangeStep:
    change = Change(path, before, after, kind, at)
    return ChangeStep(container, change, owner, evidence or (Evidence.TAP,), event, AT_NS)


DEVICE: Json = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
MOUNT: Json = {
    "destination": "/data",
    "type": "tmpfs",
    "source": "tmpfs",
    "options": ["rw", "size=1m"],
}
RLIMIT: Json = {"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}

STEPS = (
    step("/linux/devices/~1dev~1x", None, DEVICE, "added", RANGE, Evidence.PROBES),
    replace(step("/process/env/FOO", "bar", "baz"), applied=Applied.YES),
    replace(step("/mounts/~1data", None, MOUNT, "added", at=7), applied=Applied.NO),
    step("/mounts/~1dev", 3, 1, "moved", CHOICE, at=1),
    replace(
        step("/annotations/x.io~1y", "v", None, "removed", UNKNOWN, Evidence.EVENTS),
        note="it was gone in the next event",
    ),
    replace(
        step("/linux/resources/cpu/shares", None, 512, "added", CPU),
        applied=Applied.DIFFERENTLY,
        actual=1024,
        disputed=(Claim(Evidence.VALIDATOR, ENV, 512), Claim(Evidence.PROBES, CPU, None)),
    ),
    step("/process/oomScoreAdj", 0, 5, "changed", RUNTIME, Evidence.CRI),
    step("/linux/resources/memory/limit", 1, 2, "changed", REQUEST, Evidence.REQUEST),
    step("/linux/resources/cpu/cpus", "0-1", "1", "changed", CPU, container=SIDECAR),
)

CREATION = RoundDiff(
    event=14,
    events=(14, 15, 16),
    name="CreateContainer",
    at_ns=AT_NS,
    container=APP,
    pod=POD,
    seen_by=("00-probe-a", "30-env-injector", "60-cpu-policy"),
    missed_by=("99-late",),
    chain=("00-probe-a", "20-device", "30-env-injector", "60-cpu-policy"),
    steps=STEPS,
    asked=(
        PluginRequest(
            SIDECAR, CPU, "/linux/resources/cpu/mems", "0", "it is gone", Evidence.TAP, 26
        ),
    ),
    spans=(
        Span(ENV, "", "", 52_000, 2 * 10**9),
        Span(RANGE, "00-probe-a", "30-env-injector", 1_400_000_000, 2 * 10**9),
    ),
    failure="",
    remarks=("nobody saw what plugins after 60 did",),
)
CALM = RoundDiff(
    17, (17,), "StartContainer", AT_NS, APP, POD, ("00-probe-a",), (), (), (), (), (), ""
)
POD_EVENT = replace(CALM, event=18, events=(18,), name="StopPodSandbox", container="")
FAILED = replace(
    CALM, event=19, events=(19,), failure="30-env-injector returned an error: no\x1b[2Jway"
)
JUDGED = replace(
    CALM, event=20, events=(20,), name="ContainerStatus", steps=(STEPS[1], STEPS[2], STEPS[5])
)


def with_step(one: ChangeStep) -> RoundDiff:
    return replace(CALM, event=14, events=(14,), name="CreateContainer", steps=(one,))
