# SPDX-License-Identifier: Apache-2.0
"""The capture of a real Docker Engine, held against what became of each reply there.

The results are those of `docker create`, `docker inspect` and config.json at that time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.differ.recording_differ import histories
from nri_scope.entries import OperationFate
from nri_scope.recording.query import lookup
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import FindingKind
from tests.replay.recordings import of_capture

UNSUPPORTED = "50-case: unsupported container adjustments: "
FAILED = {
    "t-mount-rbind": '50-case: mount option "rbind" is not supported',
    "t-mount-tmpfs-src": "50-case: a tmpfs must have no source",
    "t-mount-remove": "50-case: Docker Engine refuses the removal of a mount",
    "t-annot": f"{UNSUPPORTED}annotations",
    "t-device": f"{UNSUPPORTED}linux",
    "t-hook": f"{UNSUPPORTED}hooks",
    "t-args": f"{UNSUPPORTED}args",
    "t-rlimit": f"{UNSUPPORTED}rlimits",
    "t-shares": f"{UNSUPPORTED}linux.resources.cpu",
    "t-cpuset": f"{UNSUPPORTED}linux.resources.cpu",
    "t-mem": f"{UNSUPPORTED}linux.resources.memory",
    "t-cgpath": f"{UNSUPPORTED}linux",
    "t-oom": f"{UNSUPPORTED}linux",
    "t-ioprio": f"{UNSUPPORTED}linux",
    "t-cdi": f"{UNSUPPORTED}CDI",
    "t-update-other": "50-case: container update is not supported",
}
DROPPED = {
    "t-pids": "/linux/resources/pids/limit",
    "t-unified": "/linux/resources/unified/memory.high",
    "t-blockio": "/linux/resources/blockIO",
    "t-rdtclass": "/linux/intelRdt/closID",
    "t-hugepage": "/linux/resources/hugepageLimits/2MB",
    "t-sysctl": "/linux/sysctl/net.ipv4.ip_forward",
    "t-sched": "/process/scheduler",
}
OPEN = {
    "t-env-add": "/process/env/INJ",
    "t-env-set": "/process/env/FOO",
    "t-env-replace": "/process/env/FOO",
    "t-mount-noopt": "/mounts/~1mnt~1x",
    "t-mount-ro": "/mounts/~1mnt~1x",
    "t-mount-tmpfs": "/mounts/~1mnt~1x",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_capture("docker-29.2", tmp_path_factory.mktemp("docker") / "x.nriscope.db")


def test_each_reply_has_its_outcome(path: Path) -> None:
    with Recording.open(path) as recording:
        known = {one.name: one for one in histories(recording).values()}
    steps = {
        name: {step.change.path: str(step.outcome.kind) for step in one.steps}
        for name, one in known.items()
    }
    assert {name: known[name].failure for name in FAILED} == FAILED
    assert all(set(steps[name].values()) == {"refused"} for name in FAILED if steps[name])
    assert {name: steps[name] for name in DROPPED} == {
        name: {changed: "dropped"} for name, changed in DROPPED.items()
    }
    assert {name: steps[name] for name in OPEN} == {
        name: {changed: "requested"} for name, changed in OPEN.items()
    }
    # NRI does not pass on the removal of a variable of Docker's own.
    assert steps["t-env-remove"] == {"/process/env/FOO": "dropped"}
    # (A capture has no error of a plugin.)
    assert not [name for name in known.keys() - FAILED.keys() if known[name].failure]


def test_no_event_shows_whether_a_container_was_created(path: Path) -> None:
    with Recording.open(path) as recording:
        creations = Creations(recording)
        for event in recording.events():
            if event.event == "CreateContainer":
                assert creations.outcome(event).fate is OperationFate.UNKNOWN


def test_findings_are_about_failures_and_dropped_requests_only(path: Path) -> None:
    with Recording.open(path) as recording:
        found = diagnose(recording).findings
    named = {name for one in found if one.kind is FindingKind.FAILED for name in one.containers}
    assert named == FAILED.keys()
    named = {name for one in found if one.kind is FindingKind.DROPPED for name in one.containers}
    assert named >= DROPPED.keys()
    others = {one.kind for one in found} - {FindingKind.FAILED, FindingKind.DROPPED}
    assert others <= {FindingKind.DEADLINE, FindingKind.DISCONNECTED, FindingKind.ORDER}


def test_a_container_has_the_name_that_docker_shows(path: Path) -> None:
    with Recording.open(path) as recording:
        for what in ("t-pids", "cold", "base"):
            container = lookup.find(recording, what)
            assert lookup.subject_name(container) == what  # type: ignore[arg-type]
            # The pod with the same id is not meant.
            assert lookup.find(recording, container.id) == container  # type: ignore[arg-type]
        assert "t-pids" in {lookup.subject_name(one) for one in recording.containers()}


def test_values_from_before_plugins_are_of_docker_s_client(path: Path) -> None:
    with Recording.open(path) as recording:
        created = (each for each in histories(recording).values() if each.created_event)
        owners = {str(each.base_owner) for each in created}
    assert owners and all(owner.endswith("Docker's client") for owner in owners)
