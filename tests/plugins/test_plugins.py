# SPDX-License-Identifier: Apache-2.0
"""Other people's plugins under replay and tap, and on a real containerd.

``NRI_SCOPE_PLUGIN_RESULTS=write`` renews results.json, from which docs/plugins.md is made.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import yaml

from nri_scope.errors import RpcError
from nri_scope.specs import Json, Spec, label
from nri_scope.specs.apply_changes import apply
from nri_scope.specs.differences import Change
from tests.cli.tap_process import PATIENCE, tapping
from tests.kubernetes.programs import newest_containerd
from tests.runtime.testbed import mount_namespace
from tests.runtime.testbed.containerd import running
from tests.runtime.testbed.cri_answers import Answers
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import TestbedError, check_machine

from . import kubernetes
from .programs import build
from .table import NOT_RUN, PLUGINS, PROGRAMS

pytestmark = pytest.mark.plugins

ROOT = Path(__file__).parent.parent.parent
RECORDING = ROOT / "recordings/containerd-2.4.nriscope.zip"
RESULTS = Path(__file__).with_name("results.json")
CGROUPS = {
    "destination": "/sys/fs/cgroup",
    "type": "cgroup",
    "source": "cgroup",
    "options": ["nosuid", "noexec", "nodev", "relatime", "ro"],
}
RESOURCES = {"memory": {"limit": 200_000_000}, "cpu": {"shares": 512}}
IMAGE = {"io.kubernetes.cri.image-name": "localhost/busybox:1"}

Row = dict[str, Json]


class Bench:
    """A plugin with its program, and the files that it needs."""

    def __init__(self, name: str, folder: Path, program: Path) -> None:
        self.name = name
        self.plugin = PLUGINS[name]
        self.folder = folder
        self._program = program
        for path, text in self.plugin.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._filled(text))
            file.chmod(0o755)

    @property
    def command(self) -> list[str | Path]:
        return [self._program, *map(self._filled, self.plugin.arguments)]

    @property
    def shown_command(self) -> str:
        """The command for a page, with files in the present folder."""
        words = [word.replace("{folder}", ".") for word in self.plugin.arguments]
        options = " ".join(["FILE", *self.options])
        return " ".join([f"nri-scope replay {options} -- ./{self.name}", *words])

    @property
    def options(self) -> list[str]:
        return ["--external"] if self.plugin.external else []

    @property
    def environment(self) -> dict[str, str]:
        """Variables for what plugins leave behind."""
        return {"TMPDIR": str(self.folder)}

    @property
    def seen_work(self) -> str:
        """What is seen of the plugin's work if it changes nothing."""
        file = f", and `{self.plugin.leaves}` that it made" if self.plugin.leaves else ""
        return f"its replies{file}{', and its requests' if self.plugin.serves else ''}"

    @property
    def registered(self) -> str:
        return self.plugin.registers or f"10-{self.name}"

    def scenario(self) -> Path:
        """Write a pod that the plugin acts on, from its creation to its end."""
        container = {
            "args": ["sleep", "1000000"],
            "annotations": IMAGE,
            "mounts": [CGROUPS],
            "linux": {"resources": RESOURCES},
        }
        pod = {"annotations": dict(self.plugin.annotations), "containers": {"app": container}}
        text = {"scenario": 1, "runtime": "containerd-2.4", "pods": {"shop/web": pod}}
        path = self.folder / "scenario.yaml"
        path.write_text(yaml.safe_dump({**text, "until": "removed"}))
        return path

    def replay(self, *options: str | Path) -> subprocess.CompletedProcess[str]:
        """Replay to the plugin, with a working directory of its own."""
        command = (sys.executable, "-m", "nri_scope", "replay", *options, *self.options)
        return subprocess.run(
            [*command, "--", *self.command],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | self.environment,
            capture_output=True,
            text=True,
        )

    def effects(self, changed: dict[str, Json]) -> list[Json]:
        """Check what the plugin has changed against what it should; return its labels."""
        labels = {label(path): value for path, value in changed.items()}
        assert {**labels, **self.plugin.effects} == labels
        return [*sorted(labels)]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[list[str]]:
        """Serve the plugin's socket; return the requests."""
        requests: list[str] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            (length,) = (
                int(line.partition(":")[2])
                for line in head.splitlines()
                if line.startswith("Content-Length:")
            )
            requests.append((await reader.readexactly(length)).decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        if not self.plugin.serves:
            yield requests
            return
        async with await asyncio.start_unix_server(answer, self.folder / self.plugin.serves):
            yield requests

    def _filled(self, text: str) -> str:
        return text.replace("{folder}", str(self.folder))


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """The plugin of this test; skips where its program cannot be had."""
    name = str(request.param)
    try:
        check_machine()
        program = build(PROGRAMS, name)
    except TestbedError as error:
        pytest.skip(str(error))
    # A short path, as plugins make sockets in it.
    folder = Path(tempfile.mkdtemp(prefix="nsp-", dir="/tmp"))
    etc = tmp_path / "etc"
    etc.mkdir()
    with mount_namespace.private_etc(etc):
        # Some plugins mount a folder of theirs with its later mounts.
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "--make-shared", folder], check=True)
        try:
            yield Bench(name, folder, program)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
            shutil.rmtree(folder)


@pytest.mark.parametrize("bench", PLUGINS, indirect=True)
async def test_a_plugin_works_under_replay_and_tap(bench: Bench) -> None:
    plugin = bench.plugin
    row: Row = {"source": plugin.program.source.title, "does": plugin.does, "needs": plugin.needs}
    row["command"] = bench.shown_command
    async with AsyncExitStack() as stack:
        requests = await stack.enter_async_context(bench.served())
        if plugin.kubernetes:
            await stack.enter_async_context(kubernetes.serving(bench.folder))
        row["replay"] = await asyncio.to_thread(replay_bundled, bench)
        row["golden"] = await asyncio.to_thread(check_golden, bench)
        row["requests"] = await asyncio.to_thread(replay_scenario, bench)
        check_work(bench, requests)
        row["tap"] = await tap(bench) or bench.seen_work
        check_work(bench, requests)
    check_row(bench.name, row)


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_plugin_that_is_not_run_has_a_reason(name: str) -> None:
    source, reason = NOT_RUN[name]
    check_row(name, {"source": source, "reason": reason})


def replay_bundled(bench: Bench) -> str:
    """Replay a bundled recording by one command; return what it says."""
    done = bench.replay(RECORDING, "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    assert bench.registered in [each["plugin"] for each in result["plugins"]], done.stderr
    left = [each["left_behind"] for each in result["plugins"] if each["left_behind"]]
    verdicts = [reply["verdict"] for event in result["events"] for reply in event["replies"]]
    assert verdicts, "it has replied to nothing"
    bad = len(verdicts) - verdicts.count("ok")
    assert done.returncode == (1 if bad or left else 0)
    words = [f"{len(verdicts)} replies", f"{bad} of them errors" if bad else ""]
    return ", ".join(filter(None, [*words, "leaves a process behind" if left else ""]))


def check_golden(bench: Bench) -> str:
    """Write a golden, and hold two more replays against it."""
    golden = bench.folder / "golden.yaml"
    scenario = bench.scenario()
    done = bench.replay(scenario, "--golden", golden, "--update-golden")
    assert golden.exists(), done.stdout + done.stderr
    if pattern := bench.plugin.varies:
        golden.write_text(re.sub(pattern, f"!regex '^{pattern}$'", golden.read_text()))
    for _ in range(2):
        done = bench.replay(scenario, "--golden", golden)
        assert done.returncode == 0, done.stdout + done.stderr
    return "holds twice"


def replay_scenario(bench: Bench) -> Json:
    """Replay the scenario; check and return the changes, and errors."""
    done = bench.replay(bench.scenario(), "--format", "json")
    result = json.loads(done.stdout)
    failures = [event["failure"] for event in result["events"] if event["failure"]]
    if bench.plugin.refuses:
        assert any(bench.plugin.refuses in failure for failure in failures), failures
        return []
    assert not failures
    made = result["containers"]["shop/web/app"]["changes"]
    assert {change["plugin"] for change in made} <= {bench.registered}
    return bench.effects({change["path"]: change["after"] for change in made})


def check_work(bench: Bench, requests: list[str]) -> None:
    """Check what the plugin has done besides its replies, and forget it."""
    if bench.plugin.leaves:
        assert (bench.folder / bench.plugin.leaves).exists()
    if bench.plugin.serves:
        assert set(requests) == set(bench.plugin.annotations.values())
        requests.clear()


async def tap(bench: Bench) -> Json:
    """Run a pod of a real containerd with the tapped plugin; return what the tap tells."""
    plugin = bench.plugin
    if plugin.undone:
        return f"not run: needs {plugin.undone}"
    file = bench.folder / "tap.nriscope.db"
    async with AsyncExitStack() as stack:
        containerd = await stack.enter_async_context(running(newest_containerd()))
        options: tuple[str | Path, ...] = (
            "--socket",
            containerd.nri_socket,
            "--cri",
            containerd.layout.cri_socket,
            "-o",
            file,
            *bench.options,
        )
        command = tapping(*options, "--", *bench.command, environment=bench.environment)
        tapped = await stack.enter_async_context(command)
        async with asyncio.timeout(PATIENCE):
            while not containerd.connections(bench.registered):
                assert tapped.process.returncode is None, await tapped.wait_for_exit()
                await asyncio.sleep(0.01)
        driver = Driver(containerd)
        refusal, spec = "", None
        try:
            pod = await driver.run_pod("shop", "web", plugin.annotations)
            app = await driver.run(pod, "app")
            info = json.loads(await containerd.cri.container_info(app.id))
            spec = cast(Spec, info["runtimeSpec"])
            if plugin.effects or plugin.varies:
                await Answers(file).newest(app.id, lambda status: bool(status.bundle_spec))
            await driver.remove_pod(pod)
        except RpcError as error:
            refusal = error.message
        await tapped.interrupt()
    # The recorded replies are a golden, too.
    if not plugin.varies and bench.name != "differ":
        done = await asyncio.to_thread(bench.replay, file, "--golden", file)
        if "--profile verbatim" in done.stderr:
            # It subscribes to no CreateContainer.
            verbatim = ("--profile", "verbatim")
            done = await asyncio.to_thread(bench.replay, file, "--golden", file, *verbatim)
        assert done.returncode == 0, done.stdout + done.stderr
    told = await asyncio.to_thread(nri_scope, "report", file, "--diagnose", "--format", "json")
    findings = [each for each in json.loads(told)["findings"] if each["level"] == "problem"]
    if plugin.refuses:
        assert plugin.refuses in refusal
        (finding,) = findings
        assert plugin.refuses in finding["title"]
        return f"its refusal: {plugin.refuses}"
    assert spec is not None, refusal
    assert not findings
    lines = await asyncio.to_thread(nri_scope, "log", file, "--format", "jsonl")
    if not any(json.loads(line).get("container") for line in lines.splitlines()):
        return []
    return await asyncio.to_thread(owned_changes, bench, file, spec)


def owned_changes(bench: Bench, file: Path, spec: Spec) -> Json:
    """Return what blame says of the container; check that config.json agrees."""
    history = json.loads(nri_scope("blame", file, "shop/web/app", "--format", "json"))
    owned: dict[str, Json] = {}
    for change in [*history["changes"], *history["requests"]]:
        assert change["owner"] == bench.registered
        path, after = change["path"], change["after"]
        if path.startswith("/cdiDevices/"):
            made = [Change("/process/env/GPU", None, "0", "added")]
        else:
            assert change["outcome"]["kind"] in ("seen", "in effect"), change
            made = [Change(path, None, after, "added")]
        assert apply(spec, made) == spec, change
        owned[path] = after
    return bench.effects(owned)


def nri_scope(*arguments: str | Path) -> str:
    """Run a command, whose status 1 says that it has something to tell."""
    done = subprocess.run(
        (sys.executable, "-m", "nri_scope", *arguments), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def check_row(name: str, row: Mapping[str, Json]) -> None:
    """Compare with the stored result, or store it."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if os.environ.get("NRI_SCOPE_PLUGIN_RESULTS") == "write":
        stored = {each: {**stored, name: row}.get(each, {}) for each in (*PLUGINS, *NOT_RUN)}
        RESULTS.write_text(json.dumps(stored, indent=2) + "\n")
    assert stored[name] == row
