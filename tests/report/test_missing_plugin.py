# SPDX-License-Identifier: Apache-2.0
"""Containers created while a plugin was not connected, held against what recordings show."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.recording.reader import Recording
from nri_scope.report.missing_plugin import Creation, Presence, creations

RECORDINGS = Path(__file__).parents[2] / "recordings"


def found(name: str, plugin: str) -> dict[str, Creation]:
    with Recording.open(RECORDINGS / name) as recording:
        return {one.container: one for one in creations(recording, plugin)}


FAILED = "containerd-2.1-conflict.nriscope.zip"
CREATED = {"shop/web/app", "shop/web/sidecar"}


@pytest.mark.parametrize("plugin", ["30-env-injector", "cpu-policy", "20-device-injector"])
def test_a_validator_proves_that_a_plugin_was_connected(plugin: str) -> None:
    every = found("containerd-2.4.nriscope.zip", plugin)
    assert every.keys() >= CREATED
    assert {every[name].presence for name in CREATED} == {Presence.CONNECTED}
    evidence = {every[name].evidence for name in CREATED}
    assert evidence <= {"named to the validator", "it changed the container"}


@pytest.mark.parametrize("plugin", ["never-connected", "31-env-injector"])
def test_a_validator_proves_that_a_plugin_was_not_connected(plugin: str) -> None:
    every = found("containerd-2.4.nriscope.zip", plugin)
    for name in CREATED:
        assert every[name].presence is Presence.MISSING
        assert "30-env-injector" in every[name].evidence


def test_containers_that_existed_before_are_unknown() -> None:
    every = found("containerd-2.4.nriscope.zip", "never-connected")
    old = every["kube-system/old-1/main"]
    assert old.presence is Presence.UNKNOWN
    assert "created before the recorder connected" in old.evidence


def test_a_tap_proves_only_that_its_plugin_was_connected() -> None:
    every = found("demo.nriscope.db", "40-image-check")
    assert every["shop/web/app"].presence is Presence.CONNECTED
    late = every["shop/api/sidecar"]
    assert late.presence is Presence.UNKNOWN
    assert "its tap's session 4 had ended" in late.evidence


def test_without_evidence_nothing_is_claimed() -> None:
    every = found("containerd-2.1.nriscope.db", "any")
    assert {one.presence for one in every.values()} == {Presence.UNKNOWN}


def test_failed_creations_are_left_out() -> None:
    with Recording.open(RECORDINGS / FAILED) as recording:
        asked = {
            f"{one.namespace}/{one.pod}/{one.container}"
            for one in recording.events()
            if one.event == "CreateContainer"
        }
        created = {
            f"{one.namespace}/{one.pod}/{one.container}"
            for one in recording.events()
            if one.event == "PostCreateContainer"
        }
    every = found(FAILED, "any")
    assert asked > created
    assert set(every) & asked == created
