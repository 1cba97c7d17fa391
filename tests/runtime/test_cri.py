# SPDX-License-Identifier: Apache-2.0
"""``--cri`` with a real containerd: what it says of cgroups, compared with the files themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic_ns

import pytest

from nri_scope.errors import RpcError
from nri_scope.recording.query.cri_answers import CriStatus
from nri_scope.specs import agrees, value_at
from tests.cli.tap_process import PATIENCE, plugin_file, tapping
from tests.cri.driver import Resources
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.cri_answers import Answers
from tests.runtime.testbed.driver import Container, Driver
from tests.runtime.testbed.record import recording

pytestmark = pytest.mark.runtime

NOWHERE = "0" * 64
"""The id of no container."""
CPU, MEMORY = "/linux/resources/cpu", "/linux/resources/memory"
FILES = {
    f"{CPU}/shares": "cpu/{}/cpu.shares",
    f"{CPU}/quota": "cpu/{}/cpu.cfs_quota_us",
    f"{CPU}/period": "cpu/{}/cpu.cfs_period_us",
    f"{CPU}/cpus": "cpuset/{}/cpuset.cpus",
    f"{CPU}/mems": "cpuset/{}/cpuset.mems",
    f"{MEMORY}/limit": "memory/{}/memory.limit_in_bytes",
    f"{MEMORY}/reservation": "memory/{}/memory.soft_limit_in_bytes",
    f"{MEMORY}/swap": "memory/{}/memory.memsw.limit_in_bytes",
    "/linux/resources/pids/limit": "pids/{}/pids.max",
}
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers").exists()

PLUGIN = f"""\
    def __init__(self):
        self.running = {{}}

    def create_container(self, pod, container):
        if container.name == "meddling":
            # The first update is refused by the OCI runtime: there are no such processors.
            return [
                update(self.running["one"], cpu={{"cpus": "77"}}),
                update(self.running["two"], cpu={{"shares": 333}}),
                update({NOWHERE!r}, cpu={{"shares": 444}}),
            ]
        return api.ContainerAdjustment(annotations={{"example.com/asked": "yes"}})

    def post_start_container(self, pod, container):
        self.running[container.name] = container.id

    def update_container(self, pod, container, resources):
        pass
"""


def files_of(containerd: Containerd, container: Container) -> dict[str, str]:
    """Read the container's cgroups (v1)."""
    place = f"{containerd.layout.cgroup.lstrip('/')}/{container.id}"
    paths = {key: Path("/sys/fs/cgroup") / path.format(place) for key, path in FILES.items()}
    return {key: path.read_text().strip() for key, path in paths.items() if path.exists()}


def assert_same(status: CriStatus, files: dict[str, str]) -> None:
    """Compare an answer with the files, read at a time without changes in between."""
    assert status.cgroup.keys() == files.keys()
    for key, text in files.items():
        value = status.cgroup[key]
        shown = "-1" if text == "max" or text.startswith("922337203") else text
        assert str(value) == shown, key


@pytest.mark.skipif(UNIFIED, reason="reads files of cgroup v1")
@pytest.mark.parametrize("command", ["tap", "record"])
async def test_answers_are_what_took_effect(
    containerd: Containerd, driver: Driver, tmp_path: Path, command: str
) -> None:
    file, plain = tmp_path / "tap.nriscope.db", tmp_path / "record.nriscope.db"
    cri = str(containerd.layout.cri_socket)
    program = plugin_file(
        tmp_path / "40-thing", PLUGIN, start="from tests.plugin_builders import update"
    )
    with_tap = ("--cri", cri) if command == "tap" else ()
    with_record = ("--cri", cri) if command == "record" else ()
    answers = Answers(file if command == "tap" else plain)
    async with (
        recording(plain, containerd, *with_record) as record,
        tapping(*("--socket", containerd.nri_socket, "-o", file, *with_tap, "--", program)) as tap,
    ):
        await tap.wait_for_text("tapping 40-thing")
        async with asyncio.timeout(PATIENCE):
            while not containerd.connections("40-thing"):
                await asyncio.sleep(0.01)
        pod = await driver.run_pod("shop", "web")
        one, two = [
            await driver.run(pod, name, resources=Resources(cpu_shares=512, memory_limit=100 << 20))
            for name in ("one", "two")
        ]
        created = await answers.newest(one.id, lambda status: bool(status.cgroup))
        assert_same(created, files_of(containerd, one))
        assert created.spec and created.bundle_spec
        asked = value_at(created.bundle_spec, "/annotations/example.com~1asked")
        assert asked == value_at(created.spec, "/annotations/example.com~1asked") == "yes"

        meddling = await driver.create(pod, "meddling")
        before = monotonic_ns()
        await driver.start(meddling)
        if command == "tap":
            for container, shares in ((one, 512), (two, 333)):
                found = await answers.after(before, container.id)
                assert_same(found, files_of(containerd, container))
                assert agrees(f"{CPU}/shares", shares, found.cgroup[f"{CPU}/shares"])
                assert not agrees(f"{CPU}/cpus", "77", found.cgroup[f"{CPU}/cpus"])
            assert (await answers.newest(NOWHERE)).not_found
        assert not (await answers.newest(meddling.id, lambda status: bool(status.cgroup))).not_found

        with pytest.raises(RpcError):
            await containerd.cri.update_container(
                one.id, Resources(cpu_shares=301, cpuset_cpus="88")
            )
        before = monotonic_ns()
        refused = await answers.after(before, one.id)
        assert_same(refused, files_of(containerd, one))
        assert refused.cgroup[f"{CPU}/shares"] == 512

        await driver.update(one, Resources(cpu_shares=600, memory_limit=64 << 20))
        before = monotonic_ns()
        updated = await answers.after(before, one.id)
        assert_same(updated, files_of(containerd, one))
        assert updated.cgroup[f"{CPU}/shares"] == 600
        # config.json is of the creation.
        assert updated.bundle_spec
        assert value_at(updated.bundle_spec, f"{CPU}/shares") == 512
        await driver.remove_pod(pod)
        status, _, errors = await tap.interrupt()
        assert status == 0, errors
        assert await record.end() == 0
    words = errors if command == "tap" else "\n".join(record.words)
    assert "the CRI answered" in words
    assert "--cri asks the runtime" not in words
    assert "--cri asks the runtime" in ("\n".join(record.words) if command == "tap" else errors)
