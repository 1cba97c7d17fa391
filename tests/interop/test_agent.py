# SPDX-License-Identifier: Apache-2.0
"""The agent's gRPC service with a client in Go: grpcurl, which finds everything by reflection."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.recording.reading.reader import Recording
from tests.agent.agent_process import agent
from tests.agent.certificates import Certificates
from tests.cli.running import PATIENCE
from tests.demo_recording import DEMO_EVENTS
from tests.interop.build import Unavailable, build_grpcurl

RECORDING = Path(__file__).parents[2] / "recordings" / "demo.nriscope.db"
pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def grpcurl() -> Path:
    try:
        return build_grpcurl()
    except Unavailable as error:
        pytest.skip(f"grpcurl cannot be built: {error}")


async def run(*command: str | Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


def documents(text: str) -> Iterator[dict[str, object]]:
    """Yield the JSON objects in a text."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        found, end = decoder.raw_decode(text)
        yield found
        text = text[end:]


async def test_a_go_client_finds_and_calls_everything(grpcurl: Path, tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path)
    async with agent(tmp_path, "--unredacted", "--node", "worker-1") as one:
        address = f"127.0.0.1:{one.port}"

        async def call(method: str, request: str = "{}") -> list[dict[str, object]]:
            status, out, errors = await run(grpcurl, "-plaintext", "-d", request, address, method)
            assert status == 0, errors
            return list(documents(out))

        status, out, _ = await run(grpcurl, "-plaintext", address, "list")
        assert (status, set(out.split())) == (
            0,
            {
                "grpc.health.v1.Health",
                "nri_scope.agent.v1.Agent",
            },
        )
        status, out, _ = await run(
            grpcurl, "-plaintext", address, "describe", "nri_scope.agent.v1.Agent"
        )
        assert status == 0
        assert "rpc GetEvents ( .nri_scope.agent.v1.GetEventsRequest ) returns ( stream" in out
        assert await call("grpc.health.v1.Health/Check") == [{"status": "SERVING"}]
        (answer,) = await call("nri_scope.agent.v1.Agent/GetStatus")
        assert answer["node"] == "worker-1"
        sent = await call("nri_scope.agent.v1.Agent/GetEvents", '{"where": "event:StopContainer"}')
        found = [message["event"] for message in sent if "event" in message]
        with Recording.open(RECORDING) as recording:
            expected = [
                (str(event.id), request, reply)
                for event, request, reply in recording.exchanges()
                if event.event == "StopContainer"
            ]
        assert [
            (
                event["id"],
                base64.b64decode(event.get("request", "")),
                base64.b64decode(event.get("reply", "")),
            )
            for event in found
            if isinstance(event, dict)
        ] == expected
        pieces = await call("nri_scope.agent.v1.Agent/GetRecording")
        bundle = tmp_path / "bundle.nriscope.zip"
        bundle.write_bytes(b"".join(base64.b64decode(str(piece["data"])) for piece in pieces))
        with Recording.open(bundle) as recording:
            assert len(list(recording.events())) == DEMO_EVENTS
        status, _, errors = await run(
            grpcurl, "-plaintext", "-d", '{"where": "("}', address,
            "nri_scope.agent.v1.Agent/GetEvents",
        )  # fmt: skip
        assert status
        assert "InvalidArgument" in errors


async def test_a_go_client_with_mutual_tls(grpcurl: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    certificates = Certificates(folder)
    async with agent(tmp_path, *certificates.options()) as one:
        address = f"127.0.0.1:{one.port}"
        options: list[str | Path] = ["-cacert", folder / "ca.crt", "-max-time", "10"]
        good: list[str | Path] = ["-cert", folder / "good.crt", "-key", folder / "good.key"]
        assert (await run(grpcurl, *options, *good, address, "list"))[0] == 0
        assert (await run(grpcurl, *options, address, "list"))[0] != 0
