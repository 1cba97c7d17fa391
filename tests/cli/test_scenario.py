# SPDX-License-Identifier: Apache-2.0
"""``nri-scope scenario``, and scenarios in place of recordings."""

from __future__ import annotations

import io
import json
import re
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording
from tests.cli.tap_process import plugin_file
from tests.sample_names import API, CHECKOUT, CHECKOUT_API, CHECKOUT_POD
from tests.tui.terminal import needs_tmux, terminal

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
SCENARIO = """\
scenario: 1
runtime: containerd-2.1
pods:
  shop/web:
    labels: {app: web}
    containers:
      app: {args: [nginx], env: {A: '1'}}
"""
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
    - name: app
      image: nginx
      env: [{name: A, value: '1'}]
"""
CONFIG_MAP = """\
kind: ConfigMap
data:
  quoted: |
    {"scenario": 1}
---
"""
PRINTS = """\
    def create_container(self, pod, container):
        print(pod.name, container.name, *[one for one in container.env if one < "B"], flush=True)
        return api.ContainerAdjustment(env=[api.KeyValue(key="MINE", value="1")])
"""
FAILS = """\
    def post_start_container(self, pod, container):
        raise ValueError("cannot start " + container.name)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    Path("web.yaml").write_text(SCENARIO)
    Path("pod.yaml").write_text(MANIFEST)
    Path("config.yaml").write_text(CONFIG_MAP + MANIFEST)
    plugin_file(Path("plugin"), PRINTS)


def standard_input(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))


def leftovers(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "tmp").iterdir())


# -- its own commands -------------------------------------------------------------------------


def test_compile_writes_a_marked_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "compile", "web.yaml", "-o", "web.nriscope.db"]) == 0
    assert capsys.readouterr().err == "web.nriscope.db: written, with 7 events\n"
    assert stat.S_IMODE(Path("web.nriscope.db").stat().st_mode) == 0o600
    with Recording.open("web.nriscope.db") as recording:
        (session,), (note,) = recording.sessions(), recording.notes()
        assert (session.role, session.plugin) == ("scenario", "00-scenario")
        assert note.text == "made from a scenario; no runtime sent these requests: web.yaml"
        assert [event.method for event in recording.events()][2:] == [
            "StateChange", "CreateContainer", *["StateChange"] * 3,
        ]  # fmt: skip
    for command in (["log"], ["report"], ["report", "--diagnose"]):
        assert run([*command[:1], "web.nriscope.db", *command[1:]]) == 0
        told = capsys.readouterr().out
        assert "containerd" not in told or "a scenario, not observed" in told
    assert run(["report", "web.nriscope.db", "-o", "x.md"]) == 0
    assert "scenario, not observed" in Path("x.md").read_text()


def test_no_command_invents_times_or_observations(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "compile", "web.yaml", "-o", "web.nriscope.db"]) == 0
    capsys.readouterr()
    for command in (["log"], ["report"], ["show", "3"], ["report", "-o", "x.md"]):
        assert run([command[0], "web.nriscope.db", *command[1:]]) == 0
    told = capsys.readouterr().out + Path("x.md").read_text()
    assert "0ns" not in told
    assert "events    7, made from a scenario: no runtime sent them\n" in told
    assert "replies" not in told, "nothing replied"
    assert re.search("RunPodSandbox +1 +0 +- +- +- ", told)
    assert "     3 00:00:00.011      -   RunPodSandbox        shop/web\n" in told
    assert "  took_us: null\n" in told
    assert re.search(r"`00-scenario` .* not measured \|", told)
    assert run(["report", "web.nriscope.db", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["took_us"]["max"] is None


def test_unmeasured_times_stay_so_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "compile", "web.yaml", "-o", "web.nriscope.db"]) == 0
    assert run(["export", "web.nriscope.db", "--format", "jsonl", "-o", "web.jsonl"]) == 0
    lines = Path("web.jsonl").read_text().splitlines()
    assert {one["event"]["took_us"] for one in map(json.loads, lines) if "event" in one} == {None}
    assert run(["export", "web.jsonl", "-o", "again.nriscope.db"]) == 0
    with Recording.open("again.nriscope.db") as recording:
        assert {event.took_ns for event in recording.events()} == {0}


def test_commands_on_recordings_say_how_to_open_a_scenario(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["report", "web.yaml"]) == 2
    assert capsys.readouterr().err == (
        "nri-scope: web.yaml: not an nri-scope recording; open a scenario or manifest with "
        "`tui`, or make it a recording with `scenario compile`\n"
    )


def test_compile_keeps_existing_files(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["scenario", "compile", "web.yaml", "-o", "web.nriscope.db"]
    assert run(command) == 0
    first = Path("web.nriscope.db").read_bytes()
    assert run(command) == 2
    assert "web.nriscope.db exists; name another file" in capsys.readouterr().err
    assert run([*command, "--force", "--set", "shop/web/app:env.A=2"]) == 0
    assert Path("web.nriscope.db").read_bytes() != first
    assert run(["scenario", "compile", "web.yaml", "-o", "no/web.nriscope.db"]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_from_recording_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    change = f"{CHECKOUT_API}:annotations.x=y"
    assert run(["scenario", "from-recording", str(RECORDING), "--set", change]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# Made from a recording: containerd-2.1.nriscope.db\nscenario: 1\n")
    assert "          x: 'y'\n" in text
    Path("all.yaml").write_text(text)
    assert run(["scenario", "compile", "all.yaml", "-o", "all.nriscope.db"]) == 0
    with Recording.open("all.nriscope.db") as one, Recording.open(RECORDING) as other:
        kinds = [
            [(event.event, event.container_id) for event in each.events()] for each in (one, other)
        ]
        assert kinds[0] == kinds[1]


def test_from_recording_writes_a_private_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["scenario", "from-recording", str(RECORDING), "--only", CHECKOUT, "-o", "x.yaml"]
    assert run(command) == 0
    assert stat.S_IMODE(Path("x.yaml").stat().st_mode) == 0o600
    assert run(command) == 2
    assert "x.yaml exists; name another file" in capsys.readouterr().err
    assert run([*command, "--force"]) == 0


def test_from_pod_reads_a_manifest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["scenario", "from-pod", "pod.yaml", "--profile", "cri-o"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("# Made from a manifest: pod.yaml\n")
    assert "runtime: cri-o\npods:\n  shop/web:\n" in first
    standard_input(MANIFEST.replace(", namespace: shop", ""), monkeypatch)
    assert run(["scenario", "from-pod", "-", "-n", "shop", "--profile", "cri-o"]) == 0
    second = capsys.readouterr().out
    assert [line for line in second.splitlines() if line[0] != "#"] == [
        line for line in first.splitlines() if line[0] != "#"
    ]
    assert run(["scenario", "from-pod", "pod.yaml", "--cgroup-driver", "cgroupfs"]) == 0
    assert ".slice" in first and ".slice" not in capsys.readouterr().out


def test_from_pod_takes_the_memory_of_the_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    resources = "image: nginx\n      resources: {requests: {memory: 4Gi}}"
    Path("pod.yaml").write_text(MANIFEST.replace("image: nginx", resources))
    words = "a node with 16 GiB of memory is assumed; `scenario from-pod --node-memory` sets it\n"
    assert run(["scenario", "from-pod", "pod.yaml"]) == 0
    told = capsys.readouterr()
    assert "oom_score_adj: 750\n" in told.out
    assert f"note: oom_score_adj: {words}" in told.err
    for size in ("64GiB", "64Gi", "64G"):
        assert run(["scenario", "from-pod", "pod.yaml", "--node-memory", size]) == 0
        told = capsys.readouterr()
        assert "oom_score_adj: 938\n" in told.out
        assert "node-memory" not in told.out + told.err
    assert run(["replay", "pod.yaml", "--", "./plugin"]) == 0
    assert f"pod.yaml: oom_score_adj: {words}" in capsys.readouterr().err


# -- in place of a recording ------------------------------------------------------------------


@pytest.mark.parametrize("file", ["web.yaml", "pod.yaml", "config.yaml"])
def test_replay_plays_it(file: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["replay", file, "--", "./plugin"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("a scenario of containerd 2.")
    assert re.search(r"\bweb app A=1$", told.out, re.M)
    assert "shop/web/app" in told.out and "MINE" in told.out
    assert str(tmp_path) not in told.out
    assert leftovers(tmp_path) == []


def test_quiet_prints_no_remarks_on_a_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "pod.yaml", "--", "./plugin"]) == 0
    assert capsys.readouterr().err.startswith("pod.yaml: ")
    assert run(["replay", "pod.yaml", "--format", "problems", "--", "./plugin"]) == 0
    assert capsys.readouterr().err == ""


def test_replay_reads_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    standard_input(SCENARIO, monkeypatch)
    assert run(["replay", "-", "--set", "shop/web/app:env.A=new", "--", "./plugin"]) == 0
    assert re.search(r"\bweb app A=new$", capsys.readouterr().out, re.M)


def test_changes_of_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    set_it = ["--set", f"{CHECKOUT_API}:env={{A: changed}}", "--session", "1"]
    assert run(["replay", str(RECORDING), *set_it, "--", "./plugin"]) == 0
    assert re.search(rf"\b{CHECKOUT_POD} {API} A=changed$", capsys.readouterr().out, re.M)


def test_options_of_replay_apply_to_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--only", "shop/web/app", "--profile", "cri-o", "--where", "event:CreateContainer"]
    assert run(["replay", "web.yaml", *options, "--", "./plugin"]) == 0
    assert "as CRI-O 1.37.0" in capsys.readouterr().out
    assert run(["replay", "pod.yaml", "--profile", "cri-o", "--", "./plugin"]) == 0
    assert "a scenario of CRI-O 1.37.0" in capsys.readouterr().out
    assert run(["replay", "web.yaml", "--only", "shop/wep", "--", "./plugin"]) == 2
    error = capsys.readouterr().err
    assert "web.yaml: session 1 has no event of shop/wep; did you mean shop/web?" in error


def test_a_restart_of_the_runtime_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    app = "shop/web/app"
    steps = ["{run: shop/web}", f"{{create: {app}}}", "{restart: runtime}", f"{{start: {app}}}"]
    Path("web.yaml").write_text(f"{SCENARIO}steps: [{', '.join(steps)}]\n")
    assert run(["replay", "web.yaml", "--format", "json", "--", "./plugin"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    names = [event["event"] for event in replayed["events"]]
    assert names.count("Synchronize") == 2
    assert names[-2:] == ["StartContainer", "PostStartContainer"]
    assert "the runtime restarts" in [event["note"] for event in replayed["events"]]
    assert not any(event["fault"] for event in replayed["events"])
    assert replayed["containers"]["shop/web/app"]


def test_tui_prints_its_log_without_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["tui", "web.yaml"]) == 0
    told = capsys.readouterr()
    assert "running `log web.yaml` instead" in told.err
    assert "PostStartContainer   shop/web/app" in told.out
    assert leftovers(tmp_path) == []


@pytest.mark.exhaustive
@needs_tmux
async def test_tui_shows_it(tmp_path: Path) -> None:
    async with terminal(tmp_path, "tui web.yaml", (130, 24)) as window:
        await window.shows("scenario", "containerd 2.1.9", "CreateContainer", "shop/web/app")
        await window.shows("web.yaml", "not observed")
        await window.press("4")
        await window.shows("made from a scenario; no runtime and no plugin took part")
        assert "0ns" not in await window.screen()
        await window.press("q")
        await window.shows("ended with 0")


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scenario: 2\n", "bad.yaml:1: scenario: version 2 is not supported: this nri-scope reads"),
        ("scenario: 1\npods: {a: {x: y}}\n", "bad.yaml:2: pods.a.x: unknown key"),
        ("scenario: 1\nsteps: [{run: a}]\n", "bad.yaml:2: steps[0].run: there is no pod 'a'"),
        ("a: [\n", "bad.yaml:2: not YAML"),
        ("hello: world\n", "not a scenario: the key scenario is missing"),
        ("kind: Service\napiVersion: v1\nmetadata: {name: x}\n", "bad.yaml:1: kind: a Service has"),
        ("\x1b[31m\n", "bad.yaml:1: not YAML"),
    ],
)
def test_a_bad_file_is_one_line(
    text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.yaml").write_text(text)
    for command in (
        ["replay", "bad.yaml", "--", "./plugin"],
        ["tui", "bad.yaml"],
        ["scenario", "compile", "bad.yaml", "-o", "x.db"],
    ):
        assert run(command) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith("nri-scope: ") and problem in line and "\x1b" not in line


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("replay none.yaml -- ./plugin", "none.yaml: no such file"),
        ("replay . --set a:b=c -- ./plugin", ".: "),
        ("replay web.yaml --set x -- ./plugin", "--set 'x': not a change; write it as"),
        ("replay web.yaml --set a/b:pid=1 -- ./plugin", "there is no pod or container 'a/b'"),
        ("replay web.yaml --session 2 -- ./plugin", "web.yaml: contains no session 2"),
        ("replay pod.yaml --session 2 -- ./plugin", "pod.yaml: contains no session 2"),
        ("replay pod.yaml --only x/y -- ./plugin", "pod.yaml: session 1 has no event"),
        ("replay pod.yaml --max-idle 1s -- ./plugin", "use --speed 1x:MAX"),
        ("replay pod.yaml --golden none -- ./plugin", "none: "),
        ("replay pod.yaml --format json --since 99 -- ./plugin", "no event of session 1 is"),
        ("replay pod.yaml", "neither COMMAND, --plugin nor --listen was given"),
        ("replay pod.yaml --fault x -- ./plugin", "x"),
        ("replay pod.yaml --profile containerd -- ./plugin", "there is no profile 'containerd'"),
        ("scenario compile web.yaml -o x.zip", "a recording must not be named *.zip"),
        ("scenario compile web.yaml", "Missing option '-o'"),
        ("scenario from-recording web.yaml", "web.yaml: "),
        ("scenario from-pod web.yaml", "web.yaml: a scenario already, not a manifest; `replay`"),
        (f"scenario from-pod {RECORDING}", ": a recording, not text; `scenario from-recording`"),
        (f"scenario compile {RECORDING} -o x.db", ": a recording, not text; `scenario from-rec"),
        ("scenario from-pod pod.yaml --node-memory much", "'much' is not a size"),
        ("scenario from-pod pod.yaml --profile new", "there is no profile 'new'"),
        ("scenario compil web.yaml", "No such command 'compil'. Did you mean 'compile'?"),
    ],
)
def test_a_bad_command_is_one_line(
    command: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1
    assert problem in told.err
