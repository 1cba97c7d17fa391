# SPDX-License-Identifier: Apache-2.0
"""``record --redact``: secrets never reach the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.cli.live_process import live
from tests.cli.recording_process import recording
from tests.runtime_emulation.profiles import patient
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.small_plugin import SmallPlugin

SECRET = "correct-Horse7-battery"
RULES = """
[switches]
namespaces = true
"""


def setup() -> ProfileSetUp:
    pod = api.PodSandbox(id="pod-1", namespace="shop", name="web", uid="u1")
    container = api.Container(
        id="container-1", pod_sandbox_id="pod-1", name="app", env=[f"DB_PASSWORD={SECRET}"]
    )
    return ProfileSetUp(PROFILES["containerd-1.7"], [pod], [container])


async def start(runtime: Runtime) -> None:
    message = api.StartContainerRequest(
        pod=api.PodSandbox(id="pod-1", namespace="shop", name="web"),
        container=api.Container(
            id="c1",
            pod_sandbox_id="pod-1",
            name="app",
            args=["serve", SECRET],
            env=["LOG_LEVEL=debug", "PATH=/bin"],
        ),
    )
    await runtime.dispatch(EventKind.StartContainer, message)


def contents(path: Path) -> bytes:
    """Return all messages of a recording, and the bytes of its files."""
    with Recording.open(path) as recorded:
        messages = [
            part
            for event in recorded.events()
            for part in (recorded.request(event.id), recorded.reply(event.id))
        ]
        states = [
            message
            for session in recorded.sessions()
            for message in (
                *recorded.state(session.id).pods,
                *recorded.state(session.id).containers,
            )
        ]
    files = [file.read_bytes() for file in path.parent.iterdir() if file.is_file()]
    return b"\n".join([*messages, *states, *files])


async def test_secrets_never_reach_the_disk(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "x.nriscope.db"
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording(
            *("--socket", tmp_path / "s", "-o", path, "--print", "jsonl", "--redact"),
            environment={"XDG_STATE_HOME": str(tmp_path / "state")},
        ) as record:
            await record.wait_for_text("recording")
            await runtime.wait_plugins(1)
            await start(runtime)
            _, out, errors = await record.interrupt()
    stored = contents(path)
    assert b"StartContainer" in stored
    assert b"DB_PASSWORD=redacted-" in stored and b"serve" in stored
    assert b"LOG_LEVEL=debug" in stored and b"PATH=/bin" in stored
    assert SECRET.encode() not in stored
    assert SECRET not in out + errors
    key = tmp_path / "state" / "nri-scope" / "redaction.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_bytes() not in stored


@pytest.mark.exhaustive
async def test_filters_match_the_original_values(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording(
            *("--socket", tmp_path / "s", "-o", path, "--where", "ns:shop", "--redact", rules),
            environment={"XDG_STATE_HOME": str(tmp_path / "state")},
        ) as record:
            await record.wait_for_text("recording")
            await runtime.wait_plugins(1)
            await start(runtime)
            await record.interrupt()
    with Recording.open(path) as recorded:
        (event,) = recorded.events()
    assert event.event == "StartContainer"
    assert event.namespace.startswith("redacted-")
    assert event.pod == "web"


@pytest.mark.exhaustive
async def test_the_default_file_name_omits_the_host(tmp_path: Path) -> None:
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording(
            *("--socket", tmp_path / "s", "--redact"),
            environment={"XDG_STATE_HOME": str(tmp_path / "state")},
            cwd=tmp_path,
        ) as record:
            await record.wait_for_text("recording")
            await record.interrupt()
    (path,) = tmp_path.glob("*.nriscope.db")
    assert path.name.startswith("nri-20")


@pytest.mark.exhaustive
@pytest.mark.parametrize("redacts_first", [True, False])
async def test_redacted_and_other_events_are_not_mixed_in_one_file(
    redacts_first: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.nriscope.db"
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    flags: list[list[str]] = [["--redact"], []] if redacts_first else [[], ["--redact"]]
    async with Runtime(setup()) as runtime:
        await runtime.listen(tmp_path / "s")
        async with recording(
            "--socket", tmp_path / "s", "-o", path, *flags[0], environment=environment
        ) as record:
            await record.wait_for_text("recording")
            await record.interrupt()
        async with recording(
            "--socket", tmp_path / "s", "-o", path, *flags[1], environment=environment
        ) as record:
            status, _, errors = await record.wait_for_exit()
    assert status == 2
    assert ("is redacted" if redacts_first else "recorded without") in errors
    assert len(errors.splitlines()) == 1


async def test_invalid_rules_give_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("[switches]\n\nnamespace = true\n")
    async with recording("--redact", "rules.toml", cwd=tmp_path) as record:
        status, _, errors = await record.wait_for_exit()
    assert status == 2
    assert "rules.toml: line 3: unknown switch 'namespace'; did you mean namespaces?" in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.exhaustive
async def test_live_diff_shows_changes_with_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pod = api.PodSandbox(id="pod-1", namespace="shop", name="web")
    container = api.Container(id="c1", pod_sandbox_id="pod-1", name="app")
    profile = patient("containerd-1.7")
    adjust = api.ContainerAdjustment(env=[api.KeyValue(key="DB_PASSWORD", value=SECRET)])
    plugin = SmallPlugin("20-a", profile.mask)
    plugin.on["CreateContainer"] = lambda request: api.CreateContainerResponse(adjust=adjust)
    path = tmp_path / "kept" / "x.nriscope.db"
    path.parent.mkdir()
    async with Runtime(profile) as runtime:
        await runtime.listen(tmp_path / "s")
        await plugin.join(runtime)
        async with live("--socket", tmp_path / "s", "-o", path, "--redact", folder=tmp_path) as one:
            await runtime.wait_plugins(4)
            create = api.CreateContainerRequest(pod=pod, container=container)
            await runtime.operate(EventKind.CreateContainer, create)
            _, out, _ = await one.interrupt()
    (line,) = (line for line in out.splitlines() if "env DB_PASSWORD" in line)
    assert '"redacted-' in line
    assert SECRET.encode() not in contents(path)
