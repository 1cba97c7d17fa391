# SPDX-License-Identifier: Apache-2.0
"""Tests that replay pods requesting CDI devices."""

from __future__ import annotations

import pytest
from nri_scope.errors import UsageError
from nri_scope.plugin import api
from nri_scope.pytest_plugin import NriReplay

from cdi_injector import KEY, CdiInjector

pytestmark = pytest.mark.nri_recording("pods.yaml")


def test_replies_are_those_of_upstream_s_device_injector(nri_replay: NriReplay) -> None:
    result = nri_replay(CdiInjector())
    result.assert_golden("goldens/upstream.yaml")
    solver = result.container("hpc/solver/solver")
    assert [change.path for change in solver.changes] == [
        "/cdiDevices/example.com~1gpu=0",
        "/cdiDevices/example.com~1gpu=1",
    ]


def test_the_configuration_limits_the_devices(nri_replay: NriReplay) -> None:
    result = nri_replay(CdiInjector(), config="# for jobs\nexample.com/gpu=*\n")
    problems = {reply.subject: reply.problem for reply in result.replies if reply.problem}
    assert problems.keys() == {"hpc/tuner/tuner", "data/greedy/app"}
    assert (
        "pod: device 'example.com/fpga=all' is not allowed on this node"
        in (problems["hpc/tuner/tuner"])
    )


def adjustment(**annotations: str) -> api.ContainerAdjustment | None:
    pod = api.PodSandbox(annotations={f"{KEY}{key}": value for key, value in annotations.items()})
    return CdiInjector().create_container(pod, api.Container(name="app"))


@pytest.mark.parametrize(
    ("annotations", "device"),
    [
        ({"/container.app": "[a.b/c=1]", "/pod": "[a.b/c=2]", "": "[a.b/c=3]"}, "a.b/c=1"),
        ({"/container.other": "[a.b/c=1]", "/pod": "[a.b/c=2]", "": "[a.b/c=3]"}, "a.b/c=2"),
        ({"": "[a.b/c=3]"}, "a.b/c=3"),
        # An empty list for one container excludes it.
        ({"/container.app": "", "/pod": "[a.b/c=2]"}, ""),
        ({}, ""),
    ],
)
def test_the_most_specific_annotation_is_used(annotations: dict[str, str], device: str) -> None:
    expected = api.ContainerAdjustment(CDI_devices=[api.CDIDevice(name=device)])
    assert adjustment(**annotations) == (expected if device else None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.b/c=1", "'a.b/c=1' is not a list of device names; write - VENDOR/CLASS=NAME"),
        ("[1]", "is not a list of device names"),
        ("- a: [", "not YAML: while parsing"),
    ],
)
def test_an_invalid_annotation_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        adjustment(**{"/pod": text})
    assert problem in str(caught.value)
