# SPDX-License-Identifier: Apache-2.0
"""A real containerd with NRI, in its own folder, as a child process of the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from nri_scope.errors import NriScopeError, RpcError
from tests.cri.driver import CriDriver

from . import leftovers
from .config import Layout, render
from .images import BUSYBOX, PAUSE, write_images
from .packages import Binaries, TestbedError

BOOT_TIMEOUT = 60.0
"""Seconds for containerd to report that it serves; it takes well under one."""

STOP_TIMEOUT = 20.0
"""Seconds between SIGTERM and SIGKILL."""


class Containerd:
    """One containerd; start it with :func:`running`.

    ``plugins`` and ``plugin_configs`` of :attr:`layout` may be filled before :meth:`start` or
    between :meth:`stop` and :meth:`start`: containerd reads them when it starts.
    """

    def __init__(
        self,
        binaries: Binaries,
        folder: Path,
        registration: str,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.binaries = binaries
        self._environment = environment
        self.layout = Layout(folder)
        self._process: asyncio.subprocess.Process | None = None
        self._cri: CriDriver | None = None
        self._earlier_sockets = leftovers.shim_sockets()
        for path in (self.layout.plugins, self.layout.plugin_configs):
            path.mkdir()
        self.layout.log.touch()
        self.layout.config.write_text(render(binaries.series, self.layout, registration))

    @property
    def cri(self) -> CriDriver:
        """The CRI client, which survives restarts."""
        if self._cri is None:
            raise TestbedError("containerd has not been started yet")
        return self._cri

    @property
    def nri_socket(self) -> Path:
        return self.layout.nri_socket

    @property
    def pid(self) -> int:
        if self._process is None:
            raise TestbedError("containerd does not run")
        return self._process.pid

    async def start(self) -> None:
        """Start containerd; returns when it serves CRI and NRI and has the images."""
        process = await self._boot()
        self._process = process
        if self._cri is None:
            self._cri = await self._connect()
            await self._import_images()
        if not await self.cri.ready():
            raise self._failure("containerd serves, but reports that it is not ready")

    async def stop(self, *, kill: bool = False) -> None:
        """Stop containerd only, as for an upgrade: pods and containers continue in their shims."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def restart(self, *, kill: bool = False) -> None:
        """Stop and start again, with the same state, plugins and drop-in configuration."""
        await self.stop(kill=kill)
        await self.start()

    def connections(self, plugin: str) -> int:
        """Return how often containerd has added ``NN-name`` to the chain, according to its log.

        Plugins cannot know this: even their reply to Synchronize comes earlier.
        """
        words = f'"plugin \\"{plugin}\\" connected'
        return self.layout.log.read_text(errors="replace").count(words)

    async def remove_pods(self) -> None:
        """Stop and remove every pod, with all containers in it."""
        for pod in await self.cri.list_pods():
            await self.cri.stop_pod(pod.id)
            await self.cri.remove_pod(pod.id)

    async def take_down(self) -> None:
        """Stop everything and remove the folder, in any state.

        :raises TestbedError: processes, mounts, cgroups or files are left behind.
        """
        # Remaining processes are killed below.
        with contextlib.suppress(NriScopeError, TestbedError):
            if self._process is not None and self._process.returncode is None:
                await self.remove_pods()
        await self.stop()
        if self._cri is not None:
            self._cri.close()
        leftovers.clear(self.layout, self._earlier_sockets)
        shutil.rmtree(self.layout.folder)
        if left := self.leftovers():
            raise TestbedError(f"left behind: {'; '.join(left)}")

    def leftovers(self) -> list[str]:
        """Describe what exists of this containerd now; empty after `take_down`."""
        return leftovers.find(self.layout, self._earlier_sockets)

    async def _boot(self) -> asyncio.subprocess.Process:
        """Start the process and wait for its notification (sd_notify) that it serves."""
        self.layout.notify_socket.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as ready:
            ready.bind(str(self.layout.notify_socket))
            # containerd finds its shim, and the shim finds runc, by PATH.
            path = os.pathsep.join((str(self.binaries.bin), os.environ.get("PATH", os.defpath)))
            with self.layout.log.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *(self.binaries.bin / "containerd", "--config", self.layout.config),
                    env={
                        "PATH": path,
                        "NOTIFY_SOCKET": str(self.layout.notify_socket),
                        **self._environment,
                    },
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C must reach only the test, which takes containerd down.
                    start_new_session=True,
                )
            try:
                await asyncio.wait_for(_wait_ready(ready, process), BOOT_TIMEOUT)
            except (TimeoutError, TestbedError):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                raise self._failure("containerd did not come up") from None
        return process

    async def _connect(self) -> CriDriver:
        # containerd 1.6 notifies before its CRI service is initialized.
        async with asyncio.timeout(BOOT_TIMEOUT):
            while True:
                try:
                    return await CriDriver.connect(self.layout.cri_socket)
                except RpcError as error:
                    if "not initialized" not in error.message:
                        raise
                await asyncio.sleep(0.01)

    async def _import_images(self) -> None:
        archive = self.layout.folder / "images.tar"
        write_images(archive)
        command = [
            *(self.binaries.bin / "ctr", "--address", self.layout.cri_socket),
            # --no-unpack: CRI unpacks into its own snapshotter when it needs the image.
            *("--namespace", "k8s.io", "images", "import", "--no-unpack"),
            # The transfer service of 2.x would still unpack for another snapshotter.
            *(() if self.binaries.series.startswith("1.") else ("--local",)),
            archive,
        ]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        if process.returncode:
            raise self._failure(f"ctr images import: {output.decode(errors='replace').strip()}")
        archive.unlink()
        # CRI is notified of imported images by an event, shortly afterwards.
        async with asyncio.timeout(BOOT_TIMEOUT):
            while not {BUSYBOX, PAUSE} <= set(await self.cri.list_images()):
                await asyncio.sleep(0.01)

    def _failure(self, problem: str) -> TestbedError:
        lines = self.layout.log.read_text(errors="replace").splitlines()
        return TestbedError("\n".join([problem, *lines[-15:]]))


@asynccontextmanager
async def running(
    binaries: Binaries,
    *,
    start: bool = True,
    registration: str = "30s",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Containerd]:
    """Provide a containerd for the duration of a block, and remove it completely afterwards.

    ``start=False``: do not start it, so that plugins can be installed before. ``registration``:
    registration timeout. The default of 5 s is too short for Python plugins on a busy machine.
    ``environment``: variables for containerd.
    """
    # Not $TMPDIR: paths of unix sockets are limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="nst-", dir="/tmp"))
    containerd = Containerd(binaries, folder, registration, environment)
    try:
        if start:
            await containerd.start()
        yield containerd
    finally:
        # Shielded: a cancelled test must not leave containers behind.
        await asyncio.shield(asyncio.ensure_future(containerd.take_down()))


async def _wait_ready(ready: socket.socket, process: asyncio.subprocess.Process) -> None:
    """Wait for READY=1.

    :raises TestbedError: the process ended before.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.ensure_future(process.wait())
    try:
        while True:
            message = asyncio.ensure_future(loop.sock_recv(ready, 4096))
            await asyncio.wait({ended, message}, return_when=asyncio.FIRST_COMPLETED)
            if not message.done():
                message.cancel()
                raise TestbedError("ended")
            if b"READY=1" in message.result().split(b"\n"):
                return
    finally:
        ended.cancel()
