# SPDX-License-Identifier: Apache-2.0
"""Requests of NRI 0.1 that `replay` makes from NRI events, compared with upstream's types."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.request_subject import decode_request
from nri_scope.replay.v01 import ADAPTED, adapted
from tests.interop.build import Unavailable, Variant, build
from tests.recording.traffic import RUNTIMES, captured

pytestmark = pytest.mark.interop

FULL = api.LinuxResources(
    cpu=api.LinuxCPU(
        shares=api.OptionalUInt64(value=2),
        quota=api.OptionalInt64(value=-1),
        realtime_period=api.OptionalUInt64(value=5),
        cpus="0-1",
        mems="0",
    ),
    memory=api.LinuxMemory(
        limit=api.OptionalInt64(value=1 << 62),
        kernel_tcp=api.OptionalInt64(value=4),
        swappiness=api.OptionalUInt64(value=0),
        disable_oom_killer=api.OptionalBool(value=False),
    ),
    hugepage_limits=[api.HugepageLimit(page_size="2MB", limit=7)],
    unified={"memory.high": "5"},
    devices=[
        api.LinuxDeviceCgroup(allow=True, type="c", major=api.OptionalInt64(value=1), access="rwm"),
        api.LinuxDeviceCgroup(access="rwm"),
    ],
    blockio_class=api.OptionalString(value="fast"),
)
"""Each kind of resources that upstream converts, and a class, which it does not."""


def cases() -> Iterator[tuple[str, str, bytes]]:
    """Yield the name, method and request of events of real runtimes, and of made ones."""
    for runtime in RUNTIMES:
        for _, item in captured(runtime):
            yield decode_request(item.method, item.request).event, item.method, item.request
    for limit in (None, -1, 0, 5):
        resources = api.LinuxResources()
        resources.CopyFrom(FULL)
        if limit is not None:
            resources.pids.limit = limit
        pod = api.PodSandbox(id="p", linux=api.LinuxPodSandbox(resources=resources))
        linux = api.LinuxContainer(
            resources=resources, namespaces=[api.LinuxNamespace(type="pid")], cgroups_path="/x"
        )
        container = api.Container(id="c", pod_sandbox_id="p", pid=7, linux=linux)
        stop = api.StopContainerRequest(pod=pod, container=container)
        yield "StopContainer", "StopContainer", stop.SerializeToString()
        run = api.StateChangeEvent(event=api.Event.RUN_POD_SANDBOX, pod=pod)
        yield "RunPodSandbox", "StateChange", run.SerializeToString()


def test_requests_are_those_of_upstreams_types() -> None:
    try:
        program = build(Variant.NRI_0_12).adapter
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    lines: list[str] = []
    ours: list[dict[str, Any] | None] = []
    for name, method, request in cases():
        if name not in ADAPTED:
            continue
        decoded = decode_request(method, request)
        case = {"state": ADAPTED[name]}
        for part, message in (("pod", decoded.pod), ("container", decoded.container)):
            if message is not None and (part == "pod" or name.endswith("Container")):
                case[part] = base64.b64encode(message.SerializeToString()).decode()
        lines.append(json.dumps(case))
        ours.append(adapted(name, method, request))
    assert program is not None
    done = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == ours
    assert len(ours) > 30
