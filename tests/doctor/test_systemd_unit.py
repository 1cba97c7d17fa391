# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: systemd's own checks, and its command with the rights that it leaves."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nri_scope.cli.record import command as record
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.cli.container_events import create
from tests.cli.running import PATIENCE, running
from tests.docs.readme import ROOT, blocks
from tests.runtime_emulation.runtime import Runtime

UNIT = ROOT / "deploy/systemd/nri-scope.service"
DROP_INS = blocks("ini", (ROOT / "docs/systemd.md").read_text(encoding="utf-8"))
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount namespace")


def analyze(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


@needs_systemd
def test_systemd_accepts_every_line(tmp_path: Path) -> None:
    # systemd looks for the program in /usr/local/bin and /usr/bin.
    text = UNIT.read_text().replace("ExecStart=nri-scope", f"ExecStart={sys.executable}")
    (tmp_path / UNIT.name).write_text(text)
    analyze("verify", tmp_path / UNIT.name)


@needs_systemd
@pytest.mark.parametrize("drop_in", DROP_INS)
def test_systemd_accepts_the_documented_changes(tmp_path: Path, drop_in: str) -> None:
    (options,) = re.findall(r'"OPTIONS=(.*)"', drop_in)
    context = click.Context(record, info_name="record")
    record.parse_args(context, ["--output=x.nriscope.db", *shlex.split(options)])
    text = UNIT.read_text().replace("ExecStart=nri-scope", f"ExecStart={sys.executable}")
    (tmp_path / UNIT.name).write_text(f"{text}\n{drop_in}")
    analyze("verify", tmp_path / UNIT.name)


@needs_systemd
def test_the_exposure_is_that_of_root_in_the_host_s_folders_only() -> None:
    # In tenths of systemd's scale from 0 to 10.
    analyze("security", "--offline=yes", "--threshold=10", "--no-pager", UNIT)


@needs_root
async def test_the_command_needs_no_capability_and_writes_only_to_its_folder(
    tmp_path: Path,
) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["CapabilityBoundingSet"] == "" and service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict" and service["PrivateNetwork"] == "yes"
    folder = tmp_path / service["StateDirectory"]
    folder.mkdir(mode=int(service["StateDirectoryMode"], 8))
    line = service["ExecStart"].replace("%S", str(tmp_path)).replace("%H", "node")
    options = "--max-size=256M"
    program, *arguments = shlex.split(line.replace("$OPTIONS", options))
    assert program == "nri-scope"
    rights = "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all"
    mounts = f"mount --bind {folder} {folder} && mount -o remount,bind,ro /"
    sandbox = ("unshare", "--mount", "--net", "sh", "-c", f'{mounts} && exec {rights} -- "$@"')
    (tmp_path / "nri").mkdir(mode=0o700)
    socket = tmp_path / "nri" / "nri.sock"
    async with running(
        *arguments,
        "--redact",
        f"--socket={socket}",
        prefix=(*sandbox, "sh"),
        environment={"XDG_STATE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    ) as recorder:
        await recorder.wait_for_text("waiting")
        async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
            await runtime.listen(socket)
            await runtime.wait_plugins(1)
            await create(runtime, "A=b")
            status, _, _ = await recorder.interrupt(signal.SIGTERM)
    assert status == 0
    with Recording.open(folder / "nri-node.nriscope.db") as recording:
        assert "CreateContainer" in [event.event for event in recording.events()]
    names = {path.name for path in folder.iterdir()}
    assert names == {"nri-node.nriscope.db", "redaction.key"}
