# SPDX-License-Identifier: Apache-2.0
"""Hand-made rounds for the renderers."""

from __future__ import annotations

from dataclasses import replace

from nri_scope.differ.attribution.attributed_changes import (
    REQUESTED,
    ChangeStep,
    Claim,
    Evidence,
    Failure,
    FailureKind,
    OutcomeKind,
    PluginSpan,
    RequestOutcome,
    RoundDiff,
    Shows,
    dropped,
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
from nri_scope.events import Event, Status
from nri_scope.specs import Change, ChangeKind, Json

AT_NS = 1_700_000_000 * 10**9
APP, SIDECAR, POD = "a" * 64, "b" * 64, "c" * 64
NAMES = {APP: "shop/web/app", SIDECAR: "shop/web/sidecar", POD: "shop/web"}

ENV, CPU = plugin("30-env-injector"), plugin("60-cpu-policy")
RANGE = Owner(OwnerKind.ONE_OF, first="01", last="29", ties=("00", "30"))
CHOICE = one_of("30-env-injector", "60-cpu-policy")
SEEN = RequestOutcome(OutcomeKind.SEEN, "", Shows.CHAIN, 14, AT_NS)


def by_cri(kind: OutcomeKind, reason: str = "", actual: Json = None) -> RequestOutcome:
    return RequestOutcome(kind, reason, Shows.CRI, 20, AT_NS, actual)


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
    outcome: RequestOutcome = SEEN,
) -> ChangeStep:
    change = Change(path, before, after, kind, at)
    by = evidence or (Evidence.TAP,)
    return ChangeStep(container, change, owner, by, event, AT_NS, outcome=outcome)


def answer(number: int) -> Event:
    """Return the event of an answer of the CRI."""
    name = "ContainerStatus"
    return Event(
        number, 1, number, AT_NS, number, "cri", "containerd", name, name, "shop", "web", "app",
        POD, APP, 0, 0, 0, Status.OK, 0, "", "",
    )  # fmt: skip


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
    step("/process/env/FOO", "bar", "baz", outcome=by_cri(OutcomeKind.IN_EFFECT)),
    step(
        "/mounts/~1data", None, MOUNT, "added", at=7,
        outcome=by_cri(OutcomeKind.DROPPED, "the earlier value is there"),
    ),
    step("/mounts/~1dev", 3, 1, "moved", CHOICE, at=1),
    replace(
        step("/annotations/x.io~1y", "v", None, "removed", UNKNOWN, Evidence.EVENTS),
        note="it was gone in the next event",
    ),
    replace(
        step(
            "/linux/resources/cpu/shares", None, 512, "added", CPU,
            outcome=by_cri(OutcomeKind.SUPERSEDED, "another value is there", 1024),
        ),
        disputed=(Claim(Evidence.VALIDATOR, ENV, 512), Claim(Evidence.PROBES, CPU, None)),
    ),
    step("/process/oomScoreAdj", 0, 5, "changed", RUNTIME, Evidence.CRI),
    step(
        "/linux/resources/memory/limit", 1, 2, "changed", REQUEST, Evidence.REQUEST,
        outcome=REQUESTED,
    ),
    step("/linux/resources/cpu/cpus", "0-1", "1", "changed", CPU, container=SIDECAR),
    step(
        "/linux/resources/cpu/mems", None, "0", "added", CPU, container=SIDECAR,
        outcome=dropped("it is gone"),
    ),
)  # fmt: skip

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
    settled=(),
    spans=(
        PluginSpan(ENV, "", "", 52_000, 2 * 10**9),
        PluginSpan(RANGE, "00-probe-a", "30-env-injector", 1_400_000_000, 2 * 10**9),
    ),
    cause=None,
    remarks=("nobody saw what plugins after 60 did",),
)
CALM = RoundDiff(
    17, (17,), "StartContainer", AT_NS, APP, POD, ("00-probe-a",), (), (), (), (), (), None
)
POD_EVENT = replace(CALM, event=18, events=(18,), name="StopPodSandbox", container="")
FAILED = replace(
    CALM,
    event=19,
    events=(19,),
    cause=Failure(FailureKind.PLUGIN_ERROR, "30-env-injector returned an error: no\x1b[2Jway"),
)
ANSWER = replace(
    CALM, event=20, events=(20,), name="ContainerStatus", settled=(STEPS[1], STEPS[2], STEPS[5])
)
"""An answer of the CRI, which settles requests of `CREATION`."""


def with_step(one: ChangeStep) -> RoundDiff:
    return replace(CALM, event=14, events=(14,), name="CreateContainer", steps=(one,))
