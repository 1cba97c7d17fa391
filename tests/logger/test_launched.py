# SPDX-License-Identifier: Apache-2.0
"""A launched logger starts whatever its configuration says, and tells what was wrong with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.logger.launched import LaunchedPlugin
from nri_scope.logger.settings import Settings
from nri_scope.plugin import Identity, SessionEnd
from nri_scope.recorder.reader import Recording
from tests.logger.test_logger import exchange

END = SessionEnd("closed by the peer", configured=True, synchronized=True)


async def live(config: str) -> int:
    """A whole life: configured, one event, the end. Returns the mask."""
    plugin = LaunchedPlugin(Identity(index="00", name="nri-scope"))
    mask = plugin.configure(
        api.ConfigureRequest(runtime_name="containerd", runtime_version="1.7.24", config=config)
    )
    plugin.answered(exchange("Configure"))
    plugin.answered(exchange("RunPodSandbox"))
    async with asyncio.timeout(30):
        await plugin.finish(END)
    return mask


async def test_records_where_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.nriscope.db"
    assert await live(f"output: {path}") == 0x7FF
    with Recording.open(path) as recording:
        assert [event.method for event in recording.events()] == ["Configure", "RunPodSandbox"]
        assert recording.sessions()[0].end_reason == END.reason
    log = Path(f"{path}.log").read_text()
    assert "connected to containerd 1.7.24, NRI 0.6.1" in log
    assert f"recording to {path}" in log
    assert log.splitlines()[-1].endswith("ended: closed by the peer")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("events: UpdatePodSandbox", "none of the chosen events"),
        ("events: ValidateContainerAdjustment", "none of the chosen events"),
        ("max_size: 100", "too few"),
        ("nonsense: 1", "unknown key"),
    ],
)
async def test_never_refuses_its_configuration(tmp_path: Path, line: str, words: str) -> None:
    """With NRI up to 0.6 the runtime itself would not start then."""
    path = tmp_path / "x.nriscope.db"
    assert await live(f"output: {path}\n{line}\n") == 0x7FF
    assert words in Path(f"{path}.log").read_text()
    with Recording.open(path) as recording:
        assert len(list(recording.events())) == 2


async def test_broken_yaml_means_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "default.nriscope.db"
    monkeypatch.setattr(
        "nri_scope.logger.settings.Settings.__init__.__defaults__",
        (path, *(Settings.__init__.__defaults__ or ())[1:]),
    )
    assert await live("since: 2024-02-30") == 0x7FF
    assert "not YAML" in Path(f"{path}.log").read_text()
    assert path.exists()


async def test_place_that_cannot_be_written_is_told_and_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("precious")
    monkeypatch.setattr("nri_scope.logger.launched.REOPEN_PAUSE", 0.01)
    plugin = LaunchedPlugin(Identity(index="00", name="nri-scope"))
    config = f"output: {tmp_path}/file\n"
    mask = plugin.configure(
        api.ConfigureRequest(runtime_name="containerd", runtime_version="1.7.24", config=config)
    )
    assert mask == 0x7FF
    plugin.answered(exchange("Configure"))
    log = tmp_path / "file.log"
    async with asyncio.timeout(30):
        while not log.exists() or "cannot record" not in log.read_text():
            await asyncio.sleep(0.01)
        (tmp_path / "file").unlink()
        await plugin.finish(END)
    with Recording.open(tmp_path / "file") as recording:
        assert [event.method for event in recording.events()] == ["Configure"]
