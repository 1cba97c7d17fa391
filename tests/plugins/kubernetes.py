# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API and a kubelet as a plugin needs to start: nothing exists in it.

``python -m tests.plugins.kubernetes FOLDER`` serves both until ^C. A plugin gets
``FOLDER/kubeconfig``, and a DRA driver ``FOLDER/kubelet`` as the kubelet's folder.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import BoolValue
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, StreamTerminatedError

from nri_scope.specs import Json

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: test, user: {{}}}}]
"""
_NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "node", "uid": "77dc79db-9714-45f7-8c90-ad5f3deb8132"},
}
_LIST: Json = {
    "kind": "ResourceSliceList",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"resourceVersion": "1"},
    "items": [],
}
_NOT_FOUND: Json = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
_POLL_S = 0.1


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[None]:
    """Serve an API, whose address is in ``kubeconfig``, and a kubelet for the plugins of nodes."""
    registry = folder / "kubelet/plugins_registry"
    registry.mkdir(parents=True, exist_ok=True)
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (folder / "kubeconfig").write_text(KUBECONFIG.format(port=port))
    kubelet = asyncio.create_task(_register(registry))
    try:
        yield
    finally:
        kubelet.cancel()
        server.close()
        await asyncio.gather(kubelet, return_exceptions=True)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        if "watch=" in target:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            # Nothing happens until the client leaves.
            await reader.read()
        else:
            is_list = method == "GET" and "/resourceslices" in target
            is_node = method == "GET" and "/nodes/" in target
            body = json.dumps(_LIST if is_list else _NODE if is_node else _NOT_FOUND).encode()
            status = "200 OK" if is_list or is_node else "404 Not Found"
            start = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            writer.write(f"{start}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
    writer.close()


async def _register(registry: Path) -> None:
    """Tell each plugin that appears in the kubelet's folder that it is registered."""
    told: set[tuple[str, int]] = set()
    while True:
        for path in registry.glob("*.sock"):
            # A plugin may end while it is told, and its next process uses the same name.
            with suppress(OSError, GRPCError, StreamTerminatedError):
                sock = path.name, path.stat().st_ctime_ns
                if sock not in told:
                    await _tell(path)
                    told.add(sock)
        await asyncio.sleep(_POLL_S)


async def _tell(path: Path) -> None:
    async with Channel(path=str(path)) as channel:
        # A RegistrationStatus has one field, too.
        name = "/pluginregistration.Registration/NotifyRegistrationStatus"
        tell = UnaryUnaryMethod(channel, name, BoolValue, Empty)
        await tell(BoolValue(value=True))


async def _serve(folder: Path) -> None:
    async with serving(folder):
        sys.stdout.write(f"{folder}/kubeconfig\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(Path(sys.argv[1])))
