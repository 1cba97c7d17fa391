# SPDX-License-Identifier: Apache-2.0
"""A launched logger starts with any configuration, and logs what is wrong in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import REDACTED
from nri_scope.logger.launched import LaunchedPlugin
from nri_scope.plugin import Identity, SessionEnd
from nri_scope.recording.reading.reader import Recording
from nri_scope.writer.background_output import log_beside
from tests.logger.default_recording import replace_default
from tests.logger.list_sink import exchange

END = SessionEnd("closed by the peer", configured=True, synchronized=True)


@pytest.fixture(autouse=True)
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Default path of the recording."""
    return replace_default(tmp_path, monkeypatch)


async def run_plugin(config: str, runtime: str = "containerd") -> int:
    """Configure a plugin, let it answer one event, and end it; return the mask."""
    plugin = LaunchedPlugin(Identity(index="00", name="nri-scope"))
    mask = plugin.configure(
        api.ConfigureRequest(runtime_name=runtime, runtime_version="1.7.24", config=config)
    )
    plugin.answered(exchange("Configure"))
    plugin.answered(exchange("RunPodSandbox"))
    async with asyncio.timeout(30):
        await plugin.finish(END)
    return mask


async def test_records_to_the_configured_output(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    assert await run_plugin(f"output: {path}") == 0x7FF
    with Recording.open(path) as recording:
        assert [event.method for event in recording.events()] == ["Configure", "RunPodSandbox"]
        assert recording.sessions()[0].end_reason == END.reason
    log = Path(f"{path}.log").read_text()
    assert "connected to containerd 1.7.24, NRI 0.6.1" in log
    assert f"recording to {path}" in log
    assert log.splitlines()[-1].endswith("ended: closed by the peer")
    assert {one.name for one in tmp_path.iterdir()} == {path.name, f"{path.name}.log"}


async def test_an_unknown_runtime_is_said_to_be_treated_like_containerd(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    await run_plugin(f"output: {path}", runtime="newd")
    log = Path(f"{path}.log").read_text()
    assert "connected to newd 1.7.24, NRI unknown (unknown, treated like containerd)\n" in log


async def test_redacts_if_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "x.nriscope.db"
    await run_plugin(f"output: {path}\nredact: true")
    with Recording.open(path) as recording:
        assert [note.text for note in recording.notes()] == [REDACTED]
        assert len(list(recording.events())) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("events: UpdatePodSandbox", "none of the chosen events"),
        ("events: ValidateContainerAdjustment", "none of the chosen events"),
        ("max_size: 100", "too small; use 1M"),
        ("nonsense: 1", "unknown key"),
    ],
)
async def test_invalid_lines_are_logged_and_never_refused(
    tmp_path: Path, line: str, words: str
) -> None:
    """With NRI up to 0.6 a refused configuration would keep the runtime itself from starting."""
    path = tmp_path / "x.nriscope.db"
    assert await run_plugin(f"output: {path}\n{line}\n") == 0x7FF
    assert words in Path(f"{path}.log").read_text()
    with Recording.open(path) as recording:
        assert len(list(recording.events())) == 2


async def test_invalid_yaml_selects_the_defaults(default: Path) -> None:
    assert await run_plugin("since: 2024-02-30") == 0x7FF
    assert "not YAML" in Path(f"{default}.log").read_text()
    assert default.exists()
    assert default.parent.stat().st_mode & 0o777 == 0o700


async def open_later(path: Path, default: Path, remedy: Callable[[], object]) -> list[str]:
    """Run a plugin that can record only after ``remedy``; return the lines of the default log."""
    plugin = LaunchedPlugin(Identity(index="00", name="nri-scope"))
    mask = plugin.configure(
        api.ConfigureRequest(
            runtime_name="containerd", runtime_version="1.7.24", config=f"output: {path}\nx: 1\n"
        )
    )
    assert mask == 0x7FF
    plugin.answered(exchange("Configure"))
    log = Path(f"{default}.log")
    async with asyncio.timeout(30):
        while not log.exists() or "not recording yet" not in log.read_text():
            await asyncio.sleep(0.01)
        logged = log.read_text().splitlines()
        remedy()
        await plugin.finish(END)
    with Recording.open(path) as recording:
        assert [event.method for event in recording.events()] == ["Configure"]
    return logged


async def test_a_foreign_file_and_its_folder_are_not_changed(
    tmp_path: Path, default: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.logger.launched.REOPEN_PAUSE_S", 0.01)
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "file"
    path.write_text("precious")

    def remedy() -> None:
        assert [one.name for one in folder.iterdir()] == ["file"]
        assert path.read_text() == "precious"
        path.unlink()

    logged = await open_later(path, default, remedy)
    assert "unknown key 'x'" in logged[0]
    assert f"{path}: the file exists and is not an nri-scope recording" in logged[-1]
    # The log beside the recording contains all lines from the start.
    log = log_beside(path).read_text()
    assert log.startswith("\n".join(logged))
    assert f"recording to {path}" in log
    assert "ended: closed by the peer" in log


@pytest.mark.exhaustive
async def test_a_missing_folder_is_logged_and_not_created(
    tmp_path: Path, default: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.logger.launched.REOPEN_PAUSE_S", 0.01)
    path = tmp_path / "disk" / "recordings" / "x.nriscope.db"

    def remedy() -> None:
        assert not (tmp_path / "disk").exists()
        path.parent.mkdir(parents=True)

    logged = await open_later(path, default, remedy)
    assert f"{path}: no such folder: {path.parent}; create it first" in logged[-1]


async def test_a_plugin_that_never_recorded_writes_the_default_log(default: Path) -> None:
    plugin = LaunchedPlugin(Identity(index="00", name="nri-scope"))
    async with asyncio.timeout(30):
        await plugin.finish(SessionEnd("gone", configured=False, synchronized=False))
    assert Path(f"{default}.log").read_text().endswith("Z ended: gone\n")
    assert not default.exists()
