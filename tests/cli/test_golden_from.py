# SPDX-License-Identifier: Apache-2.0
"""``replay --golden`` with a recording: a plugin's replies compared with those in production."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from tests.amount import sampled
from tests.replay.recordings import BUNDLED, as_tapped, of_capture
from tests.sample_names import CHECKOUT, CHECKOUT_API, CHECKOUT_PROXY, PROXY

PLUGIN = """#!{python}
import os
from nri_scope.errors import RpcError
from nri_scope.plugin import api, run

def cpu_shares(container_id, shares):
    update = api.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.shares.value = shares
    return update

class Plugin:
    def synchronize(self, pods, containers):
        shares = int(os.environ.get("SHARES", "7"))
        return [cpu_shares(one.id, shares) for one in containers]

    def create_container(self, pod, container):
        if container.name == os.environ.get("REFUSED"):
            raise RpcError(9, "never")
        variable = api.KeyValue(key=os.environ.get("VARIABLE", "ADDED"), value="1")
        return api.ContainerAdjustment(env=[variable])

run(Plugin(), name="plugin")
"""


EVERYTHING = """#!{python}
import os
from nri_scope.plugin import api, run

SHARES = int(os.environ.get("SHARES", "7"))

def cpu_shares(container_id, shares):
    update = api.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.shares.value = shares
    return update

class Plugin:
    def run_pod_sandbox(self, pod): pass
    def stop_pod_sandbox(self, pod): pass
    def remove_pod_sandbox(self, pod): pass
    def create_container(self, pod, container):
        return api.ContainerAdjustment(env=[api.KeyValue(key="ADDED", value="1")])
    def post_create_container(self, pod, container): pass
    def start_container(self, pod, container): pass
    def post_start_container(self, pod, container): pass
    def update_container(self, pod, container, resources):
        return [cpu_shares(container.id, SHARES)]
    def post_update_container(self, pod, container): pass
    def stop_container(self, pod, container): pass
    def remove_container(self, pod, container): pass
    def validate_container_adjustment(self, request): pass

run(Plugin(), name="everything")
"""


QUIET = """#!{python}
from nri_scope.plugin import run

class Plugin:
    def create_container(self, pod, container): pass

run(Plugin(), name="quiet")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plugin, and taps of it: TAP, and CHAIN with two plugins."""
    folder = tmp_path_factory.mktemp("production")
    program = folder / "plugin"
    program.write_text(PLUGIN.format(python=sys.executable))
    program.chmod(0o755)
    unsolicited = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="nobody")])
    for name, plugins in {
        "TAP": f"-- {program}",
        "CHAIN": f"--plugin '30={program}' --plugin '20={program}' --env REFUSED={PROXY}",
    }.items():
        recorded = folder / f"{name}.replay"
        run(["replay", str(BUNDLED["containerd-2.1"]), "-o", str(recorded), *shlex.split(plugins)])
        as_tapped(recorded, folder / name, unsolicited)
    return folder


@pytest.fixture(autouse=True)
def _current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def run_replay(line: str, capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    capsys.readouterr()
    assert run(["replay", *shlex.split(line)]) == status
    captured = capsys.readouterr()
    return captured.out if status < 2 else captured.err


def test_equal_replies_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    text = run_replay("TAP --golden TAP -- ./plugin", capsys)
    assert text.endswith("replies equal those of 10-plugin in TAP, session 1\n")


@pytest.mark.exhaustive
def test_a_synchronize_that_a_launched_plugin_does_not_get_is_not_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = tmp_path / "old.replay"
    run(
        [
            "replay",
            str(BUNDLED["containerd-1.7"]),
            "-o",
            str(recorded),
            "--profile",
            "recorded+sync",
            "--",
            "./plugin",
        ]
    )
    old = as_tapped(recorded, tmp_path / "OLD")
    for option in ("", "--profile recorded+sync"):
        text = run_replay(f"{old} --golden {old} {option} -- ./plugin", capsys)
        assert "replies equal those of 10-plugin" in text


def test_a_different_reply_is_shown_with_the_recorded_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = run_replay("TAP --golden TAP --env VARIABLE=OTHER -- ./plugin", capsys, 1)
    assert f"10-plugin {CHECKOUT_API} CreateContainer: differs in 2 places" in text
    assert "expected (the tap in TAP):" in text
    assert text.endswith("replies differ from those of 10-plugin in TAP, session 1\n")
    found = json.loads(
        run_replay("TAP --golden TAP --format json --env VARIABLE=OTHER -- ./plugin", capsys, 1)
    )
    golden = found["golden"]
    assert golden["tapped"] == [{"plugin": "10-plugin", "tapped": "10-plugin", "sessions": [1]}]
    assert {one["event"] for one in golden["mismatches"]} == {"CreateContainer"}


def test_replies_to_synchronize_are_compared_only_in_full_replays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = run_replay("TAP --golden TAP --env SHARES=8 -- ./plugin", capsys, 1)
    assert "10-plugin session Synchronize: differs" in text
    part = f"TAP --golden TAP --env SHARES=8 --only {CHECKOUT_PROXY} -- ./plugin"
    assert "Synchronize: differs" not in run_replay(part, capsys)


def test_a_part_is_compared_with_the_same_part(capsys: pytest.CaptureFixture[str]) -> None:
    # The first of several events of one container is not the first one that is played.
    text = run_replay(
        f"TAP --golden TAP --where 'event:CreateContainer container:{PROXY}' -- ./plugin",
        capsys,
    )
    assert text.endswith("replies equal those of 10-plugin in TAP, session 1\n")


def test_recorded_replies_may_be_errors(capsys: pytest.CaptureFixture[str]) -> None:
    line = "CHAIN --golden CHAIN --index 20 -- ./plugin"
    text = run_replay(line, capsys, 1)
    assert f"20-plugin {CHECKOUT_PROXY} CreateContainer" in text
    assert "error: 'rpc error: code 9: never'" in text
    run_replay(f"{line[:-11]} --env REFUSED={PROXY} -- ./plugin", capsys)


@pytest.mark.parametrize(
    ("change", "status"),
    sampled(
        [
            # A late reply is still a reply.
            ({"status_code": 4, "status_message": "answered after the deadline"}, 1),
            ({"status_code": 4, "reply": b""}, 0),
            ({"status_code": 14, "status_message": "the runtime closed", "reply": b""}, 0),
            ({"reply": b"\xff"}, 0),
            ({"status_code": 2, "reply": b""}, 1),
        ],
        2,
    ),
)
def test_a_call_without_a_usable_reply_expects_nothing_but_success(
    change: dict[str, int | str | bytes], status: int, folder: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = as_tapped(
        folder / "TAP.replay",
        tmp_path / "changed",
        change=lambda item: item._replace(**change) if item.method == "CreateContainer" else item,  # type: ignore[arg-type]
    )
    run_replay(f"{path} --golden {path} --env VARIABLE=OTHER -- ./plugin", capsys, status)
    # But an error is always a mismatch.
    run_replay(f"{path} --golden {path} --env REFUSED={PROXY} -- ./plugin", capsys, 1)


def test_notes_of_the_tap_are_printed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_tapped(folder / "TAP.replay", tmp_path / "noted", note="injecting faults")
    capsys.readouterr()
    assert run(["replay", str(path), "--golden", str(path), "--", "./plugin"]) == 0
    assert capsys.readouterr().err == (f"note in {path}, session 1: injecting faults\n")


@pytest.mark.exhaustive
def test_another_recording_may_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    file = BUNDLED["containerd-2.1"]
    text = run_replay(f"{file} --golden TAP --name renamed -- ./plugin", capsys)
    assert text.endswith("replies of 10-renamed equal those of 10-plugin in TAP, session 1\n")
    run_replay(f"{file} --golden TAP --only {CHECKOUT} -- ./plugin", capsys)
    run_replay(f"{file} --golden TAP --env VARIABLE=OTHER -- ./plugin", capsys, 1)
    text = run_replay(f"{file} --golden TAP --since 12 -- ./plugin", capsys, 2)
    assert "matched by counting events; leave out --where and --since" in text


@pytest.mark.exhaustive
def test_each_plugin_of_a_chain_is_compared_with_its_own_replies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain = f"--plugin 20=./plugin --plugin 30=./plugin --env REFUSED={PROXY}"
    text = run_replay(f"CHAIN --golden CHAIN {chain}", capsys)
    assert "replies equal those of 20-plugin in CHAIN, session 1\n" in text
    assert "replies equal those of 30-plugin in CHAIN, session 2\n" in text
    Path("other").unlink(missing_ok=True)
    Path("other").symlink_to("plugin")
    text = run_replay(f"CHAIN --golden CHAIN {chain.replace('30=./plugin', '30=./other')}", capsys)
    assert "replies of 30-other equal those of 30-plugin in CHAIN, session 2\n" in text


@pytest.mark.exhaustive
def test_nothing_is_expected_of_events_that_are_not_sent(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = tmp_path / "everything"
    everything.write_text(EVERYTHING.format(python=sys.executable))
    everything.chmod(0o755)
    # The first plugin subscribes to creations only.
    chain = f"--plugin 20={folder / 'quiet'} --plugin 30={everything}"
    (folder / "quiet").write_text(QUIET.format(python=sys.executable))
    (folder / "quiet").chmod(0o755)
    run_replay(f"{BUNDLED['containerd-2.1']} -o {tmp_path}/replayed {chain}", capsys)
    tap = as_tapped(tmp_path / "replayed", tmp_path / "tap")
    text = run_replay(f"{tap} --golden {tap} {chain}", capsys)
    assert "replies equal those of 30-everything" in text


def test_session_or_name_selects_the_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_replay("CHAIN --golden CHAIN -- ./plugin", capsys, 2) == (
        "nri-scope: CHAIN has replies of 20-plugin (session 1), 30-plugin (session 2), not of "
        "10-plugin; select one with --session, or set the plugin's name with --index and --name\n"
    )
    text = run_replay(f"CHAIN --golden CHAIN --session 2 --env REFUSED={PROXY} -- ./plugin", capsys)
    assert "replies of 10-plugin equal those of 30-plugin in CHAIN, session 2" in text
    run_replay(f"CHAIN --golden CHAIN --index 30 --env REFUSED={PROXY} -- ./plugin", capsys)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("TAP --golden FILE -- ./plugin", "FILE: contains no replies of a plugin"),
        ("TAP --golden NONE -- ./plugin", "NONE"),
        ("TAP --golden-from TAP -- ./plugin", "no option --golden-from any more; use --golden REC"),
        ("FILE --golden TAP --update-golden -- ./plugin", "--golden TAP: a recording"),
        ("CHAIN --golden CHAIN --listen s", "it is unclear which to compare; select one"),
    ],
)
def test_invalid_input_prints_one_line(
    line: str, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (folder / "FILE").exists():
        (folder / "FILE").symlink_to(BUNDLED["containerd-2.1"])
    text = run_replay(line, capsys, 2)
    assert problem in text
    assert text.count("\n") == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("capture", ["containerd-1.7.24", "cri-o-1.37"])
def test_unchanged_plugin_has_equal_replies_on_every_runtime(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = tmp_path / "everything"
    everything.write_text(EVERYTHING.format(python=sys.executable))
    everything.chmod(0o755)
    file = of_capture(capture, tmp_path / "captured")
    run_replay(f"{file} -o {tmp_path}/replayed -- {everything}", capsys)
    tap = as_tapped(tmp_path / "replayed", tmp_path / "tap")
    run_replay(f"{tap} --golden {tap} -- {everything}", capsys)
    run_replay(f"{file} --golden {tap} -- {everything}", capsys)
    # CRI-O also validates adjustments; there are no recorded replies to that.
    run_replay(f"{tap} --golden {tap} --profile cri-o -- {everything}", capsys)
    run_replay(f"{tap} --golden {tap} --env SHARES=8 -- {everything}", capsys, 1)


def test_a_tap_of_a_real_chain_can_be_replayed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_capture("containerd-1.7.24", folder / "REAL")
    text = run_replay("REAL --golden REAL --index 60 --name cpu-policy -- ./plugin", capsys, 1)
    assert "replies differ from those of 60-cpu-policy in REAL" in text
    # Updates of containers other than the created one are included.
    assert "shop/web/app:" in text
