# SPDX-License-Identifier: Apache-2.0
"""Scenes of the sample recordings: situations that occur on real nodes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from nri_scope.errors import RpcError
from tests import sample_names as names
from tests.cli.tap_process import tapping
from tests.cri.driver import Resources
from tests.runtime.testbed import actor, demo_plugins
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.diffing import Diff, diffing
from tests.runtime.testbed.driver import Container, Driver
from tests.runtime.testbed.packages import TestbedError
from tests.runtime.testbed.record import PATIENCE, Record, recording
from tests.runtime.testbed.workload import ENVIRONMENT, NOTE

Scene = Callable[[Containerd, Path], Awaitable[None]]
"""Function that plays a scene on its own containerd and records it to a new file."""


async def normal_life(containerd: Containerd, file: Path) -> None:
    """Two plugins adjust a container, which is started, updated, stopped and removed in order."""
    async with _watched(containerd, file, {"20-labels": "labels", "40-limits": "limits"}) as (
        driver,
        diff,
    ):
        checkout = await driver.run_pod(
            names.NAMESPACE, names.CHECKOUT_POD, {"example.com/note": NOTE}
        )
        api = await driver.create(checkout, names.API, env=ENVIRONMENT)
        await driver.start(api)
        proxy = await driver.run(checkout, names.PROXY)
        await driver.update(api, Resources(cpu_shares=512, memory_limit=64 << 20))
        await _applied_specs(diff, api, proxy)
        for container in (proxy, api):
            await driver.stop(container)
            await driver.remove(container)
        await driver.stop_pod(checkout)
        await driver.remove_pod(checkout)


async def conflict(containerd: Containerd, file: Path) -> None:
    """Two plugins set the same variable: two creations of the container fail."""
    plugins = {"20-labels": "labels", "40-mesh": "also-labels"}
    async with _watched(containerd, file, plugins) as (driver, diff):
        checkout = await driver.run_pod(names.NAMESPACE, names.CHECKOUT_POD)
        proxy = await driver.run(checkout, names.PROXY)
        for _ in range(2):
            try:
                await driver.create(checkout, names.API, env=ENVIRONMENT)
            except RpcError:
                continue
            raise TestbedError(
                "expected a conflict between the plugins, but the creation succeeded"
            )
        await _applied_specs(diff, proxy)
        await driver.stop(proxy)
        await driver.remove_pod(checkout)


async def slow_plugin(containerd: Containerd, file: Path) -> None:
    """Let a plugin miss its deadline and be silently disconnected."""
    plugins = {"20-labels": "labels", "40-slow": "slow"}
    async with _watched(containerd, file, plugins) as (driver, diff):
        checkout = await driver.run_pod(names.NAMESPACE, names.CHECKOUT_POD)
        api = await driver.create(checkout, names.API, env=ENVIRONMENT)
        await driver.start(api)
        proxy = await driver.run(checkout, names.PROXY)
        await _applied_specs(diff, api, proxy)
        for container in (proxy, api):
            await driver.stop(container)
        await driver.remove_pod(checkout)


async def crash_loop(containerd: Containerd, file: Path) -> None:
    """Let a container fail after each start, next to one that runs."""
    async with _recorded(containerd, file) as (driver, record):
        checkout = await driver.run_pod(names.NAMESPACE, names.CHECKOUT_POD)
        proxy = await driver.run(checkout, names.PROXY)
        for _ in range(4):
            api = await driver.create(checkout, names.API, ("sh", "-c", "exit 1"), ENVIRONMENT)
            await record.saw(await driver.start_to_end(api))
            await _remove_ended(driver, api)
        await driver.stop(proxy)
        await driver.remove_pod(checkout)


async def untidy_order(containerd: Containerd, file: Path) -> None:
    """Containers and pods end in an order that plugins do not expect."""
    async with _recorded(containerd, file) as (driver, _):
        checkout = await driver.run_pod(
            names.NAMESPACE, names.CHECKOUT_POD, {"example.com/note": NOTE}
        )
        api = await driver.create(checkout, names.API, env=ENVIRONMENT)
        await driver.start(api)
        # Never runs, but gets a StopContainer event.
        await driver.create(checkout, names.NEVER_STARTED)
        nightly = await driver.run_pod(names.REPORT_NAMESPACE, names.REPORT_POD)
        upload = await driver.create(nightly, names.UPLOAD, ("/no/such/binary",))
        await driver.fail_to_start(upload)
        # The pod stops before its containers, while its successor starts.
        await driver.stop_pod(checkout)
        new = await driver.run_pod(names.NAMESPACE, names.REPLICA_POD)
        again = await driver.run(new, names.API)
        await driver.remove(api)
        await driver.remove_pod(checkout)
        # Removed while running.
        await driver.remove(again)
        await driver.remove_pod(nightly)
        await driver.remove_pod(new)


async def restart(containerd: Containerd, file: Path) -> None:
    """Restart the runtime, as for an upgrade: containers continue, plugins reconnect."""
    async with _recorded(containerd, file) as (driver, record):
        checkout = await driver.run_pod(names.NAMESPACE, names.CHECKOUT_POD)
        api = await driver.create(checkout, names.API, env=ENVIRONMENT)
        await driver.start(api)
        await driver.restart_containerd()
        await record.connected()
        await driver.stop(api)
        await driver.remove_pod(checkout)
        await driver.live(names.NAMESPACE, names.LEDGER_POD, names.POSTGRES)


async def plugin_chain(containerd: Containerd, file: Path) -> None:
    """Tap six plugins: changes with owners, a conflict, and a plugin that misses its deadline."""
    driver = await _begun(containerd)
    socket = file.parent / "tap.sock"
    async with AsyncExitStack() as stack:
        tap = await stack.enter_async_context(
            tapping("--listen", socket, "--socket", containerd.nri_socket, "-o", file)
        )
        await tap.wait_for_text("plugins can connect")
        for plugin in demo_plugins.PLUGINS:
            await _join(stack, containerd, plugin, plugin, demo_plugins.__file__, socket)
        annotations = {
            "example.com/note": NOTE,
            # For examples/python-device-injector, and for the plugins of `new-plugin`.
            f"devices.example.com/{names.API}": "fuse",
            "example.com/owner": "payments team",
        }
        checkout = await driver.run_pod(names.NAMESPACE, names.CHECKOUT_POD, annotations)
        api = await driver.create(checkout, names.API, env=ENVIRONMENT | {"FOO": "bar"})
        await driver.start(api)
        proxy = await driver.run(checkout, names.PROXY)
        await driver.update(api, Resources(cpu_shares=256, memory_limit=64 << 20))
        nightly = await driver.run_pod(names.REPORT_NAMESPACE, names.REPORT_POD)
        try:
            await driver.create(nightly, names.REPORT, env={"FOO": "bar"})
        except RpcError:
            pass
        else:
            raise TestbedError("expected a conflict between the plugins")
        replica = await driver.run_pod(names.NAMESPACE, names.REPLICA_POD)
        # 40-image-check misses its deadline, and does not see the second container.
        late = await driver.create(replica, names.API, env={"FOO": "bar"})
        await driver.start(late)
        without = await driver.run(replica, names.PROXY)
        await driver.remove_pod(nightly)
        for container in (proxy, api, without, late):
            await driver.stop(container)
            await driver.remove(container)
        for pod in (checkout, replica):
            await driver.stop_pod(pod)
            await driver.remove_pod(pod)
        status, _, errors = await tap.interrupt()
    if status:
        raise TestbedError(f"tap ended with status {status}: {errors}")


SCENES: dict[str, Scene] = {
    "normal-life": normal_life,
    "conflict": conflict,
    "slow-plugin": slow_plugin,
    "crash-loop": crash_loop,
    "untidy-order": untidy_order,
    "restart": restart,
}


@asynccontextmanager
async def _recorded(containerd: Containerd, file: Path) -> AsyncIterator[tuple[Driver, Record]]:
    """Record with `record` at index 00; one pod exists before the recording."""
    driver = await _begun(containerd)
    async with recording(file, containerd) as record:
        yield driver, record
        status = await record.end()
    if status:
        raise TestbedError(f"record ended with status {status}: {' | '.join(record.words)}")


@asynccontextmanager
async def _watched(
    containerd: Containerd, file: Path, plugins: dict[str, str]
) -> AsyncIterator[tuple[Driver, Diff]]:
    """Record with `diff --live`: probes before, between and after ``plugins``, and the CRI."""
    driver = await _begun(containerd)
    async with AsyncExitStack() as stack:
        for plugin, part in plugins.items():
            await _join(stack, containerd, plugin, part)
        diff = await stack.enter_async_context(diffing(file, containerd))
        yield driver, diff
        # Wait for the last event.
        await diff.wait_for(
            "the end",
            lambda: any(each.get("event") == "RemovePodSandbox" for each in diff.rounds),
        )
        status = await diff.end()
    if status not in (0, 1):
        raise TestbedError(f"diff ended with status {status}: {' | '.join(diff.words)}")


async def _applied_specs(diff: Diff, *containers: Container) -> None:
    """Wait until the CRI was asked about containers, as it cannot be once they are removed."""
    questions = {("ContainerStatus", container.id) for container in containers}
    await diff.wait_for("answers of the CRI", lambda: questions <= diff.reported)


async def _remove_ended(driver: Driver, container: Container) -> None:
    """Remove an exited container; retry, as the CRI notices the exit slightly later than NRI."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await driver.remove(container)
            except RpcError:
                await asyncio.sleep(0.02)


async def _begun(containerd: Containerd) -> Driver:
    driver = Driver(containerd)
    earlier = await driver.run_pod(names.NODE_NAMESPACE, names.NODE_POD)
    await driver.run(earlier, names.EXPORTER)
    return driver


async def _join(
    stack: AsyncExitStack,
    containerd: Containerd,
    plugin: str,
    part: str,
    script: str = actor.__file__,
    socket: Path | None = None,
) -> None:
    """Start a plugin and wait until it is connected, directly or through a tap's socket."""
    index, _, name = plugin.partition("-")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, script, "--index", index, "--name", name, "--once"),
        *("--socket", socket or containerd.nri_socket),
        env={**os.environ, "PART": part},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def end() -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()

    stack.push_async_callback(end)
    async with asyncio.timeout(PATIENCE):
        while not containerd.connections(plugin):
            if process.returncode is not None:
                raise TestbedError(f"{plugin} exited before it connected")
            await asyncio.sleep(0.01)
