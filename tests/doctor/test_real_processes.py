# SPDX-License-Identifier: Apache-2.0
"""doctor and real processes, in namespaces of their own where they are the only ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare"
)

RUNTIME = """
import asyncio, sys
from pathlib import Path
from nri_scope.runtime import EmulatedRuntime, Profile

async def main(socket):
    async with EmulatedRuntime(Profile.of("new", "containerd", "2.1.9", "0.8.0")) as runtime:
        if socket:
            Path(socket).parent.mkdir(parents=True, mode=0o700)
            await runtime.listen(Path(socket))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)

Path("/proc/self/comm").write_text("containerd")
asyncio.run(main(sys.argv[1]))
"""
"""A process with the name of containerd; its arguments: a socket to serve, and those of containerd.
"""

EXAMINATION = """
import contextlib, io, json, os, subprocess, sys
from nri_scope.cli.main import run

command, folder, as_user = json.loads(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
with subprocess.Popen(
    command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
) as runtime:
    runtime.stdout.readline()
    if as_user:
        # Import all modules first: this user may not be able to.
        with contextlib.redirect_stdout(io.StringIO()):
            run(["doctor"]), run(["doctor", "--install"])
        os.seteuid(65534)
    for options in ([], ["--install"]):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            status = run(["doctor", "--format", "json", *options])
        print(json.dumps({"pid": runtime.pid, "status": status, **json.loads(text.getvalue())}))
    os.seteuid(0)
    runtime.communicate()
"""


def examine(
    folder: Path, *command: str, in_namespace: str = "", as_user: bool = False
) -> tuple[dict[str, object], dict[str, dict[str, str]], dict[str, object]]:
    """Return what doctor prints of a process in ``folder``, its checks, and what to install.

    ``in_namespace``: a shell command that it runs first, in a mount namespace of its own.
    """
    words = [sys.executable, "-c", RUNTIME, *command]
    if in_namespace:
        words = ["unshare", "--mount", "sh", "-ec", f'{in_namespace}; exec "$@"', "sh", *words]
    done = subprocess.run(
        [
            *("unshare", "--mount", "--pid", "--fork", "--mount-proc", sys.executable),
            *("-c", EXAMINATION, json.dumps([words, str(folder), as_user])),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, plan = map(json.loads, done.stdout.splitlines())
    return found, {check["name"]: check for check in found["checks"]}, plan


@pytest.mark.parametrize("option", [["-c", "c.toml"], ["--config=./c.toml"]])
def test_a_relative_configuration_is_read_from_the_process_s_folder(
    tmp_path: Path, option: list[str]
) -> None:
    file = tmp_path / "c.toml"
    file.write_text('version = 2\n[plugins."io.containerd.nri.v1.nri"]\n  disable = true\n')
    _, checks, _ = examine(tmp_path, "", *option)
    assert checks["containerd-config"]["detail"].endswith(f"reads {file}")
    assert (
        f'disable in [plugins."io.containerd.nri.v1.nri"] of {file}'
        in (checks["containerd-enabled"]["detail"])
    )
    assert checks["containerd-enabled"]["fix"].startswith(f"set this in the table of {file}")


def test_a_relative_configuration_in_a_folder_that_cannot_be_read_is_unknown(
    tmp_path: Path,
) -> None:
    tmp_path.joinpath("c.toml").write_text("version = 2\n")
    _, checks, _ = examine(tmp_path, "", "-c", "c.toml", as_user=True)
    config = checks["containerd-config"]
    assert config["status"] == "unknown"
    assert config["detail"].endswith("/cwd/c.toml: permission denied")
    assert checks["containerd-enabled"]["status"] == "unknown"


def test_a_runtime_in_another_mount_namespace_is_examined_there(tmp_path: Path) -> None:
    inside = (
        "mount -t tmpfs tmpfs /run; mkdir /run/containerd;"
        "echo 'version = 3' > /run/containerd/c.toml"
    )
    found, checks, plan = examine(
        tmp_path, "/run/nri/nri.sock", "-c", "/run/containerd/c.toml", in_namespace=inside
    )
    root = f"/proc/{found['pid']}/root"
    assert checks["socket"]["detail"].startswith(f"{root}/run/nri/nri.sock is a socket")
    assert (checks["registration"]["status"], found["status"]) == ("ok", 0)
    assert checks["containerd-config"]["detail"].endswith("reads /run/containerd/c.toml")
    assert checks["containerd-mounts"]["fix"].startswith(f"use --socket {root}/run/nri/nri.sock")
    assert (plan["recommended"], plan["status"]) == ("", 1)


def test_a_socket_below_another_root_is_not_looked_up_in_this_one(tmp_path: Path) -> None:
    inside = "mount -t tmpfs tmpfs /run"
    found, checks, _ = examine(tmp_path, "", in_namespace=inside)
    assert checks["socket"]["status"] == "fail"
    assert (
        f"/proc/{found['pid']}/root/run/nri/nri.sock does not exist" in (checks["socket"]["detail"])
    )
    assert "enable NRI in the runtime if it is off" in checks["socket"]["fix"]


def test_a_runtime_in_this_namespace_is_preferred(tmp_path: Path) -> None:
    _, checks, plan = examine(tmp_path, "/run/nri/nri.sock")
    assert checks["socket"]["detail"].startswith("/var/run/nri/nri.sock is a socket")
    assert "containerd-mounts" not in checks
    assert "accepts external plugins" in str(plan["facts"])
