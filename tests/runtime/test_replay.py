# SPDX-License-Identifier: Apache-2.0
"""Comparison of a real and an emulated containerd with the same two plugins."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from nri_scope.nri.events import METHODS
from nri_scope.specs import Change, Spec, changes
from tests.cri.driver import Resources
from tests.interop.build import Unavailable, Variant, build
from tests.interop.reference import ReferencePlugin, read_requests
from tests.runtime.testbed import adjuster
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.driver import Container, Driver, assert_healthy
from tests.runtime.testbed.record import PATIENCE, nri_scope, recording

pytestmark = [pytest.mark.runtime, pytest.mark.interop]

GO_EVENTS = 0x07FF
"""Events of NRI 0.6 to 0.8; with another bit, the runtime disconnects the plugin."""

GO_ADJUSTMENT = json.dumps(
    {
        # No key of the other plugin: containerd adds and removes in the random order of Go's maps.
        "annotations": {"go.example.com/was": "here", "-io.kubernetes.cri.image-name": ""},
        "env": [
            {"key": "GO", "value": "1"},
            {"key": "-SHARED"},
            {"key": "SHARED", "value": "of-go"},
        ],
        "mounts": [
            {
                "destination": "/etc/go",
                "source": "/etc/hostname",
                "type": "bind",
                "options": ["rbind", "ro"],
            }
        ],
        "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}],
        "linux": {"resources": {"memory": {"limit": {"value": 128 << 20}}}},
    }
)
GO_UPDATE = json.dumps({"cpu": {"quota": {"value": 40_000}, "period": {"value": 100_000}}})


class Files(NamedTuple):
    """Files with the plugins' requests and replies."""

    python: Path
    go: Path

    def read(self) -> list[str]:
        """Return the notes of both plugins as lines, with messages in protobuf's text format."""
        notes: list[str] = []
        for line in self.python.read_text().splitlines():
            note = json.loads(line)
            notes += [f"python: {note['event']}", *note["request"], "replied", *note["reply"]]
        for one in read_requests(self.go):
            # Configure contains the paths of the files, which differ between runs.
            if one.method != "Configure":
                known = METHODS[one.method]
                request, reply = (
                    known.request.FromString(one.request),
                    known.reply.FromString(one.reply),
                )
                notes += [f"go: {one.method}", str(request), "replied", str(reply)]
        return "\n".join(notes).splitlines()


@pytest.fixture
def live(tmp_path: Path) -> Files:
    return Files(tmp_path / "live.python", tmp_path / "live.go")


@pytest.fixture
def again(tmp_path: Path) -> Files:
    return Files(tmp_path / "again.python", tmp_path / "again.go")


@asynccontextmanager
async def plugins(containerd: Containerd, files: Files) -> AsyncIterator[None]:
    """Start both plugins, the one in Python first in the chain."""
    socket = containerd.nri_socket
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, adjuster.__file__, "--socket", socket, "--once"),
        env={**os.environ, "NOTES": str(files.python)},
        stdout=DEVNULL,
    )
    try:
        await connected(containerd, "10-adjuster")
        async with await ReferencePlugin.connect(
            socket,
            Variant.NRI_0_8,
            index="20",
            events=GO_EVENTS,
            requests=files.go,
            adjust=GO_ADJUSTMENT,
            update_before=GO_UPDATE,
        ):
            await connected(containerd, "20-reference")
            yield
    finally:
        process.terminate()
        await process.wait()


async def connected(containerd: Containerd, plugin: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not containerd.connections(plugin):
            await asyncio.sleep(0.01)


class Real:
    """Specs of the containers created by the real runtime."""

    def __init__(self, containerd: Containerd) -> None:
        self._containerd = containerd
        self.created: dict[str, Spec] = {}
        """Specs passed to runc, by name."""
        self.last: dict[str, Spec] = {}
        """Latest specs reported by the runtime, by name."""

    async def look(self, *containers: Container) -> None:
        for container in containers:
            spec = container.pod.spec
            name = f"{spec.namespace}/{spec.name}/{container.name}"
            details = await self._containerd.cri.container_status(container.id)
            self.last[name] = cast("Spec", details.runtime_spec)
            (config,) = self._containerd.layout.state.glob(f"*/k8s.io/{container.id}/config.json")
            self.created[name] = json.loads(config.read_text())


@pytest.fixture
def go_plugin() -> Path:
    try:
        return build(Variant.NRI_0_8).plugin
    except Unavailable as error:
        pytest.skip(str(error))


async def test_replies_and_containers_match_the_real_runtime(
    containerd: Containerd,
    driver: Driver,
    tmp_path: Path,
    live: Files,
    again: Files,
    go_plugin: Path,
) -> None:
    file = tmp_path / "real.nriscope.db"
    real = Real(containerd)
    old = await driver.run_pod("shop", "old")
    main = await driver.run(old, "main")
    async with recording(file, containerd) as record, plugins(containerd, live):
        pod = await driver.run_pod("shop", "cart", {"example.com/note": "of the pod"})
        first = await driver.create(pod, "first", env={"FOO": "of-the-pod", "BAR": "stays"})
        await driver.start(first)
        second = await driver.run(pod, "second")
        await real.look(second)
        await driver.update(first, Resources(cpu_shares=512, memory_limit=64 << 20))
        await driver.stop(second)
        await driver.remove(second)
        await real.look(main, first)
        await driver.stop(first)
        await driver.remove(first)
        await driver.remove_pod(pod)
        await driver.stop(main)
        await driver.remove_pod(old)
        assert await record.end() == 0
    result = await replayed(file, again, go_plugin)

    assert result["ok"], result["failures"]
    same = list(unified_diff(live.read(), again.read(), "live", "replayed", n=2, lineterm=""))
    assert not same, "\n".join(same)
    specs = {name: one["spec"] for name, one in result["containers"].items()}
    assert set(specs) == {"shop/old/main", "shop/cart/first", "shop/cart/second"}
    for name, spec in specs.items():
        assert differences(real.last[name], spec) == []
    # This container was never updated, so its spec is still the one passed to runc.
    assert differences(real.created["shop/cart/second"], specs["shop/cart/second"]) == []
    lost = LOST[containerd.binaries.series]
    assert {one["path"] for event in result["events"] for one in event["dropped"]} == lost
    assert_adjusted(real, lost)

    await assert_healthy(containerd)


FOO, MQUEUE = "/process/env/FOO", "/mounts/~1dev~1mqueue"
LOST = {"1.7": {FOO, MQUEUE}, "2.1": {FOO}}
"""Removals that upstream loses if no plugin sets another value."""


def assert_adjusted(real: Real, lost: set[str]) -> None:
    """Check that the plugins adjusted the containers, so that the comparison is meaningful."""
    cpu = {name: resources_of(spec)["cpu"] for name, spec in real.last.items()}
    # Requested in different events: Synchronize and StopContainer, CreateContainer.
    assert cpu["shop/old/main"] == {"shares": 900, "quota": 50_000, "period": 100_000}
    # UpdateContainer and StopContainer of one plugin, CreateContainer of the other.
    assert cpu["shop/cart/first"] == {"shares": 900, "quota": 40_000, "period": 100_000}
    made = real.created["shop/cart/first"]
    process = cast("dict[str, Any]", made["process"])
    names = [one.partition("=")[0] for one in process["env"]]
    assert {"PYTHON", "GO", "BAR"} <= set(names)
    assert ("FOO" in names) == (FOO in lost)
    assert "SHARED=of-go" in process["env"]
    assert {"RLIMIT_NOFILE", "RLIMIT_CORE"} <= {one["type"] for one in process["rlimits"]}
    mounts = [one["destination"] for one in cast("list[dict[str, str]]", made["mounts"])]
    assert {"/etc/python", "/etc/go"} <= set(mounts)
    assert ("/dev/mqueue" in mounts) == (MQUEUE in lost)
    annotations = cast("dict[str, str]", made["annotations"])
    assert annotations["python.example.com/was"] == annotations["go.example.com/was"] == "here"
    assert "io.kubernetes.cri.image-name" not in annotations
    created = resources_of(made)
    assert (created["cpu"]["shares"], created["memory"]["limit"]) == (700, 128 << 20)


def resources_of(spec: Spec) -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", cast("dict[str, Any]", spec["linux"])["resources"])


UNSEEN = (
    "/ociVersion",
    "/process/capabilities/",
    "/process/cwd",
    "/process/user",
    "/root",
)
"""Paths that NRI does not contain."""


def differences(real: Spec, replayed: Spec) -> list[Change]:
    """Differences of two specs, without paths that NRI lacks and without empty values."""
    return [
        change
        for change in changes(real, replayed)
        if not change.path.startswith(UNSEEN) and (change.before or change.after)
    ]


async def replayed(file: Path, files: Files, go_plugin: Path) -> dict[str, Any]:
    python = [sys.executable, adjuster.__file__]
    go = [str(go_plugin), f"-events={GO_EVENTS}", f"-requests={files.go}"]
    go += [f"-adjust={GO_ADJUSTMENT}", f"-update-before={GO_UPDATE}"]
    output = await nri_scope(
        # The live plugins connected by themselves, so that the runtime synchronized them.
        *(
            "replay",
            file,
            "--profile",
            "recorded+sync",
            "--format",
            "json",
            "--env",
            f"NOTES={files.python}",
        ),
        *("--plugin", f"10={shlex.join(python)}", "--plugin", f"20={shlex.join(go)}"),
    )
    return cast("dict[str, Any]", json.loads(output))
