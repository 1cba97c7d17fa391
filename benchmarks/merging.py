# SPDX-License-Identifier: Apache-2.0
"""Time to merge the adjustments of five plugins for one container, with the OCI view."""

from __future__ import annotations

import time
from statistics import median, quantiles

from benchmarks.findings import Finding, number
from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import CreationMerging
from tests.plugin_builders import adjust, bind, update
from tests.recording.traffic import a_container, a_pod

_PLUGINS = 5
_RLIMITS = ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_STACK", "RLIMIT_NPROC", "RLIMIT_MEMLOCK")


def measure(runs: int) -> Finding:
    """Return the median time for a container with 60 variables and 12 mounts, in ms."""
    pod = a_pod(1)
    request = api.CreateContainerRequest(pod=pod, container=a_container(pod))
    replies = [(f"{10 * n}-plugin-{n}", _reply(n)) for n in range(1, _PLUGINS + 1)]
    _work(request, replies)
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        _work(request, replies)
        times.append((time.perf_counter() - begin) * 1000)
    return Finding(
        name="merging and OCI view, 5 plugins",
        value=median(times),
        unit="ms",
        limit=2,
        detail=f"p99 {number(quantiles(times, n=100)[98])} ms of {runs:,} runs",
    )


def _reply(n: int) -> api.CreateContainerResponse:
    """Return a reply that combines the kinds of adjustments that real plugins request."""
    variables = {
        f"PLUGIN_{n}": f"value-{n}",
        f"-VARIABLE_{n:02d}": "",
        # Every plugin replaces the value of the plugin before it.
        "-VARIABLE_50": "",
        "VARIABLE_50": f"value-{n}",
    }
    hook = api.Hook(path=f"/opt/plugin-{n}", args=[f"plugin-{n}", "hook"])
    adjustment = adjust(
        env=variables,
        annotations={f"plugin-{n}.example.com/done": "true"},
        mounts=[
            bind(f"/plugin/{n}", f"/var/lib/plugin-{n}", "ro"),
            api.Mount(destination=f"-/mnt/{n:02d}"),
        ],
        devices=[api.LinuxDevice(path=f"/dev/plugin{n}", type="c", major=10, minor=n)],
        hooks=api.Hooks(create_runtime=[hook]),
        rlimits=[api.POSIXRlimit(type=_RLIMITS[n - 1], soft=n, hard=n)],
        cpu={"shares": 512, "cpus": "0-3"} if n == 1 else None,
        memory={"limit": 1 << 30} if n == 2 else None,
    )
    if n == 2:
        adjustment.linux.oom_score_adj.value = 100
    other = update(f"another-container-{n}", cpu={"shares": 256})
    return api.CreateContainerResponse(adjust=adjustment, update=[other])


def _work(
    request: api.CreateContainerRequest, replies: list[tuple[str, api.CreateContainerResponse]]
) -> None:
    """Merge a CreateContainer as a replay does, with each plugin's changes and their sum."""
    merging = CreationMerging(request)
    for plugin, reply in replies:
        merging.apply(reply, plugin)
    before = spec = oci.spec_of(request.container, request.pod)
    for _, reply in replies:
        after = oci.adjust(spec, reply.adjust)
        specs.changes(spec, after)
        spec = after
    merged = oci.adjust(before, merging.adjustment)
    if not specs.changes(before, merged) or not merging.updates:
        raise RuntimeError("nothing was merged")
