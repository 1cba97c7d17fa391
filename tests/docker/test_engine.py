# SPDX-License-Identifier: Apache-2.0
"""Commands against a real Docker Engine: recording across a reload, doctor, names."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording

from .engine import IMAGE_VARIABLE, ApiError, Engine
from .experiment import command

pytestmark = pytest.mark.runtime

NAME = "payments-prod_checkout-api.1"


async def test_a_recorder_connects_again_after_a_reload(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    options = ("--socket", str(engine.nri_socket), "-o", str(path))
    async with command("record", *options, says="recording"):
        before = await asyncio.to_thread(engine.create, "before")
        reloaded_ns = time.time_ns()
        await asyncio.to_thread(engine.reload)
        lost = await asyncio.to_thread(engine.create, "lost")
        await asyncio.sleep(2)
        after = await asyncio.to_thread(engine.create, NAME)
    with Recording.open(path) as recording:
        first, second = recording.sessions()
        (gap,) = recording.gaps()
        created = {event.container_id: event for event in recording.events() if event.container}
    assert first.end_reason == "the runtime's socket was made anew"
    assert gap.reason == f"not connected to the runtime: {first.end_reason}"
    # It begins with the last event that came, and ends with the new session.
    assert created[before].at_ns <= gap.from_ns <= reloaded_ns + 600_000_000
    assert gap.to_ns <= (second.synced_ns or 0)
    assert (created[before].session, created[after].session) == (first.id, second.id)
    assert lost not in created
    for container in (before, lost, after):
        engine.remove(container)


async def test_names_are_those_of_docker(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.nriscope.db"
    options = ("--socket", str(engine.nri_socket), "-o", str(path))
    existing = await asyncio.to_thread(engine.create, "existing")
    async with command("record", *options, says="recording"):
        container = await asyncio.to_thread(engine.create, NAME)
        again = await asyncio.to_thread(engine.create, "again")
        engine.remove(again)
        again = await asyncio.to_thread(engine.create, "again")
    for known in (existing, container, again):
        engine.remove(known)
    file = str(path)
    assert run(["log", file]) == 0
    assert f"CreateContainer      {NAME}\n" in capsys.readouterr().out
    # By name, by a prefix of the id, and of one in Synchronize.
    for what, name in ((NAME, NAME), (container[:12], NAME), ("existing", "existing")):
        assert run(["blame", file, what]) == 0
        assert capsys.readouterr().out.startswith(f"{name} ")
    assert run(["blame", file, "again"]) == 0
    out, errors = capsys.readouterr()
    assert out.startswith(f"again {again[:12]}")
    assert "the recording has 2 containers called again" in errors
    assert run(["report", file, "--diagnose"]) == 0


def test_the_api_refuses_what_a_container_may_not_have(engine: Engine) -> None:
    """Check the engine of the tests itself."""
    with pytest.raises(ApiError, match="invalid reference format"):
        engine.call("POST", "/containers/create", {"Image": "A B"})
    container = engine.create("own")
    variables = engine.inspect(container)["Config"]["Env"]  # type: ignore[index]
    assert IMAGE_VARIABLE in variables
    engine.remove(container)


def test_doctor_finds_nri(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--socket", str(engine.nri_socket)]) == 0
    out = capsys.readouterr().out
    assert f"dockerd (process {engine.pid}) listens" in out
    assert "registration: Docker Engine 29.2.0" in out
    assert "docker-config: Docker Engine 29.2.0" in out
    assert "docker-connections: external plugins may connect" in out
    # Docker's own containerd is a part of it.
    assert "containerd-" not in out
    assert str(engine.plugins) in out
