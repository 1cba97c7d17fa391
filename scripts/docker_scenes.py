# SPDX-License-Identifier: Apache-2.0
"""Scenes of the sample recordings on a real Docker Engine (`tests.docker`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.plugin import Identity, serve, unix_socket
from tests.docker.engine import ApiError, Engine
from tests.docker.experiment import command
from tests.plugin_builders import adjust
from tests.runtime.testbed.workload import SECRET

ENVIRONMENT = [f"DB_PASSWORD={SECRET}", "FOO=of-the-client"]


class _Labels:
    """Plugin that sets variables, and mounts the certificates of the host."""

    def create_container(
        self, _: api.PodSandbox, container: api.Container
    ) -> api.ContainerAdjustment | None:
        if container.name == "/payments-job":
            # As for other runtimes.
            return adjust(annotations={"example.com/owner": "payments"})
        path = "/etc/ssl/certs"
        certificates = api.Mount(destination=path, type="bind", source=path, options=["ro"])
        return adjust(env={"OWNER": "shop", "-FOO": "", "FOO": "by-labels"}, mounts=[certificates])


class _Limits:
    """Plugin that sets limits, which Docker Engine drops or refuses."""

    def create_container(
        self, _: api.PodSandbox, container: api.Container
    ) -> api.ContainerAdjustment | None:
        if container.name == "/payments-db":
            return adjust(cpu={"cpus": "0"})
        return adjust(pids=100)


async def replies(engine: Engine, file: Path) -> None:
    """Two tapped plugins adjust containers: of their requests, some are refused or dropped."""
    tap = engine.folder / "tap.sock"
    options = ("--socket", str(engine.nri_socket), "--listen", str(tap), "-o", str(file))
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(engine.create, "registry", Env=ENVIRONMENT)
        await stack.enter_async_context(command("tap", *options, says="plugins can connect"))
        for index, name, plugin in (("20", "labels", _Labels()), ("40", "limits", _Limits())):
            serving = serve(plugin, Identity(index, name), unix_socket(tap))
            stack.callback(asyncio.create_task(serving).cancel)
        await asyncio.sleep(1)
        for name in ("payments-api", "payments-db", "payments-job"):
            with suppress(ApiError):
                await asyncio.to_thread(engine.create, name, Env=ENVIRONMENT)
        await asyncio.sleep(0.5)


async def restart(engine: Engine, file: Path) -> None:
    """Docker Engine reloads its configuration: two sessions with a gap between them."""
    options = ("--socket", str(engine.nri_socket), "-o", str(file))
    async with command("record", *options, says="recording"):
        await asyncio.to_thread(engine.create, "payments-api", Env=ENVIRONMENT)
        await asyncio.to_thread(engine.reload)
        await asyncio.sleep(2)
        await asyncio.to_thread(engine.create, "payments-db", Env=ENVIRONMENT)
        await asyncio.sleep(0.5)


SCENES: dict[str, Callable[[Engine, Path], Coroutine[None, None, None]]] = {
    scene.__name__: scene for scene in (replies, restart)
}
"""Scenes by name."""
