# SPDX-License-Identifier: Apache-2.0
"""Commands use no network, and write and run only what was named.

The kernel kills each process that makes a socket of another family than AF_UNIX.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.recording.traffic import a_container, a_pod, an_item, record

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
# BPF (linux/filter.h) that loads the system call's number, then its first argument.
_WITHOUT_NETWORK = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 1, 0, 1),
         (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
for option in (38, 1, 0, 0, 0), (22, 2, program, 0, 0):
    assert libc.prctl(*option) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""
# Each Python process logs the files it opens and the programs it starts.
_WATCH = """
import os, sys
def watch(event, arguments):
    if event in {"open", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.system",
                 "os.listdir", "os.scandir", "ctypes.dlopen"}:
        os.write(FILE, repr((event, arguments[:2])).encode() + b"\\n")
FILE = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.addaudithook(watch)
"""
COMMANDS = {
    "log FILE": (),
    "report FILE -o report.html": ("report.html",),
    "export FILE --redact -o bundle.nriscope.zip": ("bundle.nriscope.zip",),
    "replay FILE --junit results.xml -- ./plugin": ("results.xml",),
    "report FILE": (),
    "diff FILE": (),
    "blame FILE shop/web": (),
    "sql FILE SELECT": (),
    "report FILE -o report.md --redact": ("report.md",),
    "export FILE --redact -o redacted.nriscope.db": ("redacted.nriscope.db",),
    "export FILE -o bundle.nriscope.zip": ("bundle.nriscope.zip",),
    "export FILE --format perfetto -o trace": ("trace",),
    "export FILE --redact --format jsonl -o events": ("events",),
    "export BUNDLE -o unpacked.nriscope.db": ("unpacked.nriscope.db",),
    "doctor": (),
    "demo": (),
}


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment in which all usual places for files are in ``folder``."""
    places = {
        "HOME": "home",
        "TMPDIR": "tmp",
        **{f"XDG_{of}": "home" for of in ("STATE_HOME", "CONFIG_HOME", "CACHE_HOME", "DATA_HOME")},
    }
    for place in places.values():
        (folder / place).mkdir(exist_ok=True)
    return {**os.environ, **{name: str(folder / place) for name, place in places.items()}}


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def _without_network(
    command: list[str], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_NETWORK, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        umask=0,
    )


@pytest.mark.parametrize("family", sampled(["AF_INET", "AF_INET6", "AF_NETLINK"]))
def test_the_kernel_kills_a_process_that_opens_a_network_socket(
    family: str, tmp_path: Path
) -> None:
    code = f"import socket; socket.socket(socket.AF_UNIX); socket.socket(socket.{family})"
    done = _without_network([sys.executable, "-c", code], tmp_path, dict(os.environ))

    assert done.returncode == -31


@pytest.mark.parametrize("line", sampled(COMMANDS, 4))
def test_commands_use_no_network_and_write_only_named_files(line: str, tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path / "FILE")
    environment = _environment(tmp_path)
    if "BUNDLE" in line:
        pack = [NRI_SCOPE, "export", "FILE", "-o", "x.nriscope.zip"]
        subprocess.run(pack, cwd=tmp_path, check=True, capture_output=True)
        (tmp_path / "x.nriscope.zip").rename(tmp_path / "BUNDLE")
    (tmp_path / "plugin").write_text("#!/bin/sh\nexec false\n")
    (tmp_path / "plugin").chmod(0o755)
    words = [word.replace("SELECT", "SELECT * FROM events") for word in line.split()]
    before, content = _files(tmp_path), (tmp_path / "FILE").read_bytes()

    done = _without_network([NRI_SCOPE, *words], tmp_path, environment)

    assert done.returncode in {0, 1, 2} and "Traceback" not in done.stderr, done.stderr
    assert done.stdout or done.stderr
    assert (tmp_path / "FILE").read_bytes() == content
    written = _files(tmp_path) - before
    assert not [file for file in written if (tmp_path / file).stat().st_mode & 0o077]
    if line == "demo":
        assert all(file.startswith("tmp/") for file in written)
    else:
        assert written <= {*COMMANDS[line]}
        assert written or not COMMANDS[line] or "replay" in line


def test_doctor_uses_a_network_for_metrics(tmp_path: Path) -> None:
    command = [NRI_SCOPE, "doctor", "--metrics", "http://127.0.0.1:9/"]
    done = _without_network(command, tmp_path, _environment(tmp_path))
    assert done.returncode == -31


@pytest.mark.exhaustive
def test_replay_runs_and_opens_nothing_that_a_recording_names(tmp_path: Path) -> None:
    trap, started = tmp_path / "trap", tmp_path / "started"
    trap.mkdir()
    for name in "hook", "program", "library.so":
        (trap / name).write_text(f"#!/bin/sh\necho {name} >> {started}\n")
        (trap / name).chmod(0o755)
    pod = a_pod()
    container = a_container(pod)
    container.args[:] = [f"{trap}/program", f"$({trap}/program)", f"`{trap}/program`"]
    container.env.extend([f"LD_PRELOAD={trap}/library.so", f"PATH={trap}"])
    container.hooks.prestart.add(path=f"{trap}/hook", args=["hook"])
    container.mounts.add(destination="/a", source=f"{trap}/mount", type="bind")
    requests = {
        "Synchronize": api.SynchronizeRequest(),
        "RunPodSandbox": api.RunPodSandboxRequest(pod=pod),
        "CreateContainer": api.CreateContainerRequest(pod=pod, container=container),
        "StartContainer": api.StartContainerRequest(pod=pod, container=container),
    }
    record(tmp_path / "FILE", [an_item(method, of) for method, of in requests.items()])
    (tmp_path / "plugin").write_text(
        f"#!{sys.executable}\n"
        "from nri_scope.plugin import api, run\n"
        "class Plugin:\n"
        "    def create_container(self, pod, container):\n"
        "        print('creating', container.name, *container.args[:1], flush=True)\n"
        "        return api.ContainerAdjustment(env=[api.KeyValue(key='ADDED', value='1')])\n"
        "run(Plugin(), name='plugin')\n"
    )
    (tmp_path / "plugin").chmod(0o755)
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(_WATCH)
    environment = _environment(tmp_path) | {
        "PYTHONPATH": os.pathsep.join([str(watch), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "WATCHED": str(tmp_path / "watched"),
    }

    done = _without_network([NRI_SCOPE, "replay", "FILE", "--", "./plugin"], tmp_path, environment)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{trap}/program" in done.stdout
    assert not started.exists()
    watched = (tmp_path / "watched").read_text().splitlines()
    assert not [line for line in watched if "trap/" in line]
    programs = [line for line in watched if not line.startswith(("('open'", "('os."))]
    ours = [line for line in programs if "subprocess.Popen" in line]
    assert ours and all("plugin" in line or sys.executable in line for line in ours), ours
