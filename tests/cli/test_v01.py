# SPDX-License-Identifier: Apache-2.0
"""NRI 0.1 from the command line: install, call, record, read, tap, restore."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from nri_scope.cli.main import run
from nri_scope.cli.record import command as record_command
from nri_scope.cli.record import record_options
from nri_scope.logger.run import RecordOptions
from nri_scope.logger.v01_spool import locked_folder
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.detail.tab_lines import Tab, TabRequest, detail
from nri_scope.tui.plugins.plugin_board import PluginBoard
from nri_scope.tui.store.reader_thread import CancelFlag
from nri_scope.tui.text.styled_line import text_of
from nri_scope.tui.widgets.messages import SetFilter
from tests.amount import sampled
from tests.tui.boards import showing
from tests.tui.detail.tab_lines import a_row

SECRET = "hunter2-hunter2"
QUIET = """\
#!/bin/sh
echo '{"plugin": "quiet", "version": "0.1", "error": ""}'
"""
PLUGIN = """\
#!/bin/sh
read -r request
echo "called with $* and $VARIABLE" >&2
case $request in
    *c-fail*) echo '{"plugin": "konfine", "version": "0.1", "error": "no luck"}'; exit 3;;
    *c-nonsense*) echo hello; exit 0;;
    *c-flood*) head -c 5000000 /dev/zero; exit 0;;
    *c-kill*) kill -9 $$;;
    *c-hang*) echo $$ >"$PIDS"; exec sleep 1000;;
esac
echo '{"plugin": "konfine", "version": "0.1", "error": "", "metadata": {"k": "v"}}'
exit 4
"""


def request(container: str = "c1", state: str = "create") -> bytes:
    annotations = {
        "io.kubernetes.cri.sandbox-name": "web",
        "io.kubernetes.cri.sandbox-namespace": "shop",
        "io.kubernetes.cri.container-name": "app",
        "db-password": SECRET,
    }
    return json.dumps(
        {
            "version": "0.1",
            "state": state,
            "id": container,
            "sandboxID": "p1",
            "pid": 7,
            "spec": {"resources": {}, "annotations": annotations},
            "labels": {"app": "web", "example.org/token": SECRET},
        }
    ).encode()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.nriscope.db"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "konfine"
    path.parent.mkdir()
    path.write_text(PLUGIN)
    path.chmod(0o755)
    return path


def call(
    program: Path | str, content: bytes, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Execute a plugin as the runtime's client does."""
    return subprocess.run(
        [program, "invoke"], input=content, capture_output=True, env={**os.environ, **variables}
    )


def record(spool: Path, file: Path, *options: str) -> int:
    arguments = ("--spool", spool, "-o", file, "--socket", file.parent / "none", *options)
    return run(["record", *map(str, arguments), "--duration", "300ms"])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    assert run([str(each) for each in arguments]) == 0
    return capsys.readouterr().out


def error_line(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    assert run([str(each) for each in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a pod with one container, and of a malformed request."""
    folder = tmp_path_factory.mktemp("calls")
    program, spool, file = folder / "quiet", folder / "spool", folder / "a.nriscope.db"
    program.write_text(QUIET)
    program.chmod(0o755)
    assert run(["tap", "--wrap", str(program), "--v01", str(spool)]) == 0
    for container, state in (("p1", "create"), ("c1", "create"), ("c1", "delete")):
        call(program, request(container, state))
    call(program, f'{{"password": "{SECRET}"'.encode())
    with redirect_stderr(StringIO()) as printed_lines, redirect_stdout(StringIO()):
        assert record(spool, file) == 0
        assert run(["tap", "--unwrap", str(program)]) == 0
    assert "recorded 4 events in 1 session" in printed_lines.getvalue()
    assert program.read_text() == QUIET
    assert [*(spool / "quiet").iterdir()] == []
    return file


@pytest.fixture
def recorded(calls: Path, file: Path) -> Path:
    return Path(shutil.copy(calls, file))


def test_all_views_of_a_recording_show_the_calls(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "log", recorded)
    assert "session 1: quiet on unknown runtime, NRI 0.1, from" in text
    assert "Invoke/delete        shop/web/app" in text
    assert "Invoke                 malformed request, kept raw" in text
    shown = json.loads(printed(capsys, "show", recorded, "2", "--format", "json"))
    assert shown["request"] == json.loads(request("c1"))
    assert shown["event"]["container"] == "app"
    assert shown["reply"]["plugin"] == "quiet"
    assert "Invoke/create" in printed(capsys, "report", recorded)
    query = "SELECT nri_json(e.id), s.role FROM event AS e, session AS s WHERE e.id = 2"
    rows = printed(capsys, "sql", recorded, query)
    assert '"id": "c1"' in rows
    assert "v0.1" in rows
    printed(capsys, "report", recorded, "-o", tmp_path / "r.md")
    row = r"^\| `quiet` \| plugin of NRI 0\.1 \|.*\| no deadline \|$"
    assert re.search(row, (tmp_path / "r.md").read_text(), re.MULTILINE)
    for form in ("jsonl", "otlp-json", "perfetto", "sqlite-expanded"):
        printed(capsys, "export", recorded, "--format", form, "-o", tmp_path / form)
        assert b"Invoke/create" in (tmp_path / form).read_bytes()
    part = tmp_path / "part.nriscope.zip"
    printed(capsys, "export", recorded, "--where", "event:Invoke/delete", "-o", part)
    assert "Invoke/delete" in printed(capsys, "log", part)


def test_the_terminal_interface_shows_the_spec(recorded: Path) -> None:
    with Recording.open(recorded) as recording:
        event = recording.event(2)
        lines = [
            text_of(line)
            for tab in (Tab.CONTAINER, Tab.RAW, Tab.SUMMARY)
            for line in detail(recording, TabRequest(a_row(event), tab, 80), CancelFlag())
        ]
    assert "spec:" in lines
    assert "request:" in lines
    assert any(line.startswith("plugin") and "(v0.1)" in line for line in lines)


@pytest.mark.parametrize("at_source", sampled([False, True]))
def test_secrets_are_redacted_and_ids_are_kept(
    recorded: Path,
    spool: Path,
    plugin: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    at_source: bool,
) -> None:
    target = tmp_path / "b.nriscope.db"
    if at_source:
        assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
        call(plugin, request("p1"))
        call(plugin, request("c1"))
        assert record(spool, target, "--redact") == 0
    else:
        printed(capsys, "export", recorded, "--redact", "-o", target)
    assert SECRET.encode() not in target.read_bytes()
    shown = json.loads(printed(capsys, "show", target, "2", "--format", "json"))
    assert (shown["request"]["id"], shown["request"]["sandboxID"]) == ("c1", "p1")
    assert (shown["event"]["method"], shown["event"].get("mark")) == ("Invoke/create", None)
    assert shown["event"]["container"] == "app"
    annotations = shown["request"]["spec"]["annotations"]
    assert annotations["db-password"].startswith("redacted-")
    assert shown["request"]["labels"]["app"] == "web"
    bundle = tmp_path / "c.nriscope.zip"
    printed(capsys, "export", target, "--redact", "-o", bundle)


def test_a_recording_of_calls_has_no_changes_and_is_not_replayed_as_nri(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no events in which plugins can make changes" in error_line(capsys, "diff", recorded)
    for options in ((), ("--session", "1")):
        assert error_line(capsys, "replay", recorded, *options, "--", "/bin/true") == (
            f"nri-scope: {recorded}: contains only calls of NRI 0.1; "
            "use a recording with NRI events; `log` shows the calls"
        )


def test_lists_and_bad_spools_are_one_line(
    tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "conf.json"
    conf.write_text('{"plugins": []}')
    assert f"{conf} is not executable" in error_line(capsys, "tap", "--wrap", conf, "--v01", spool)
    assert "is not wrapped" in error_line(capsys, "tap", "--unwrap", conf)
    refused = error_line(capsys, "tap", "--unwrap", conf, "--v01", spool)
    assert "--unwrap and --v01 exclude each other" in refused
    assert conf.read_text() == '{"plugins": []}'
    assert "`tap --wrap PLUGIN --v01` makes a spool" in error_line(
        capsys, "record", "--spool", tmp_path / "no"
    )
    spool.mkdir()
    spool.chmod(0o777)
    assert "other users can write" in error_line(capsys, "record", "--spool", spool)


def test_a_spool_below_a_folder_of_others_is_refused(
    tmp_path: Path, plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    spool = shared / "own" / "spool"
    spool.mkdir(mode=0o700, parents=True)
    shared.chmod(0o777)
    for command in (
        ("tap", "--wrap", plugin, "--v01", spool),
        ("tap", "--wrap", plugin, "--v01", shared / "new" / "spool"),
        ("record", "--spool", spool),
    ):
        assert f"other users can write to {shared}" in error_line(capsys, *command)
    assert not (shared / "new").exists()
    assert list(spool.iterdir()) == []
    assert plugin.read_text() == PLUGIN


def test_a_spool_has_one_recorder(
    spool: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.mkdir(mode=0o700)
    lock = locked_folder(spool)
    assert "another recorder reads this spool" in error_line(capsys, "record", "--spool", spool)
    monkeypatch.setattr("nri_scope.writer.background_output.V01_SPOOL", spool)
    arguments = ["record", "-o", str(file), "--socket", str(file.parent / "none")]
    assert run(arguments) == 2
    warning, *_, error = capsys.readouterr().err.splitlines()
    assert "warning: requests of NRI 0.1 are not recorded" in warning
    assert "another recorder" in warning
    assert "no such" in error.lower()
    os.close(lock)


@pytest.mark.exhaustive
def test_a_default_spool_does_not_wait_for_a_runtime(
    spool: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.mkdir(mode=0o700)
    monkeypatch.setattr("nri_scope.writer.background_output.V01_SPOOL", spool)
    arguments = ["record", "-o", str(file), "--socket", str(file.parent / "none")]
    assert run([*arguments, "--duration", "5s"]) == 2
    assert run([*arguments, "--duration", "300ms", "--spool", str(spool)]) == 0


def test_the_live_view_leaves_the_spool_alone(
    spool: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.mkdir(mode=0o700)
    monkeypatch.setattr("nri_scope.writer.background_output.V01_SPOOL", spool)
    used: list[RecordOptions] = []
    monkeypatch.setattr("nri_scope.logger.run.record", lambda options, *_: used.append(options))
    assert run(["record", "-o", str(file)]) == 0
    assert [one.spool for one in used] == [spool]
    given: Any = {param.name: param.default for param in record_command.params}
    given |= {"spool": None, "output": file}
    assert record_options(given).spool is None


# -- tap --wrap -------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_wrapped_plugin_answers_as_before_and_is_recorded(
    plugin: Path, spool: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("c1", "c-fail", "c-nonsense", "c-kill", "c-flood")
    plain = [call(plugin, request(name), VARIABLE="x") for name in names]
    assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
    tapped = [call(plugin, request(name), VARIABLE="x") for name in names]
    for before, after in zip(plain, tapped, strict=True):
        assert (after.stdout, after.stderr) == (before.stdout, before.stderr)
        assert after.returncode == before.returncode
    assert record(spool, file) == 0
    found = [
        json.loads(printed(capsys, "show", file, str(n), "--format", "json")) for n in range(1, 6)
    ]
    assert [one["event"]["plugin"] for one in found] == ["konfine"] * 5
    assert [one["tap"]["metadata"][0]["exit-status"] for one in found] == ["4", "3", "0", "-9", "0"]
    assert [one["event"].get("status_message", "") for one in found] == [
        *("", "no luck", "its output is not a JSON object", "it wrote no result"),
        "only the first 4,194,304 bytes of its result are recorded",
    ]
    assert found[4]["tap"]["metadata"][1] == {"cut": "result"}
    assert "error 15: only the first 4,194,304 bytes" in printed(capsys, "log", file)
    assert found[0]["request"] == json.loads(request())
    assert found[0]["reply"]["metadata"] == {"k": "v"}
    assert found[0]["printed"][0]["text"] == "called with invoke and x"
    assert found[0]["event"]["took_us"] > 0
    assert run(["tap", "--unwrap", str(plugin)]) == 0
    assert plugin.read_text() == PLUGIN
    assert [one.name for one in plugin.parent.iterdir()] == ["konfine"]


@pytest.fixture
def failed(plugin: Path, spool: Path, file: Path) -> Path:
    """A recording of a wrapped plugin whose calls fail."""
    assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
    for state, number in (("create", 1), ("create", 2), ("delete", 3), ("create", 4)):
        call(plugin, request(f"c-fail{number}" if number < 4 else "c-flood", state))
    assert record(spool, file) == 0
    return file


@pytest.mark.exhaustive
def test_failed_calls_are_a_finding(
    failed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "report", failed, "-o", tmp_path / "r.md")
    report = (tmp_path / "r.md").read_text()
    assert "- runtime: unknown runtime, NRI 0.1\n" in report
    assert (
        "**problem** `konfine: Invoke/create failed: no luck` (events 1 and 2, the first at "
        in report
    )
    assert "**warning** `konfine: Invoke/delete failed: no luck` (event 3 at " in report
    assert report.count("failed:") == 2
    (place,) = [line for line in report.splitlines() if line.startswith("| `konfine`")]
    assert place.endswith("| no deadline |")


async def test_the_terminal_interface_counts_the_calls_of_a_plugin(failed: Path) -> None:
    async with showing(failed, PluginBoard) as shown:
        (line,) = [line for line in shown.screen if line.startswith("> konfine")]
        cells = line.split()
        # Calls, not ok, changes, which only a survey shows.
        assert (cells[2], cells[-2:]) == ("4", ["4", "?"])
        await shown.press("enter")
        assert shown.last(SetFilter).text == "plugin:konfine"


@pytest.mark.exhaustive
def test_a_killed_wrapper_takes_the_plugin_with_it(
    plugin: Path, spool: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = tmp_path / "pids"
    assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
    with subprocess.Popen(
        [plugin, "invoke"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PIDS": str(pids)},
    ) as process:
        assert process.stdin is not None
        process.stdin.write(request("c-hang"))
        process.stdin.close()
        while not pids.exists() or not pids.read_text().endswith("\n"):
            time.sleep(0.01)
        (entry,) = (spool / "konfine").glob("*.in")
        os.utime(entry, ns=(10**18, 10**18))
        # While it runs, it is locked, and no matter how old.
        meanwhile = record(spool, file), entry.exists()
        process.send_signal(signal.SIGKILL)
    assert meanwhile == (0, True)
    number = int(pids.read_text())
    while (
        Path(f"/proc/{number}/stat").exists()
        and " Z " not in Path(f"/proc/{number}/stat").read_text()
    ):
        time.sleep(0.01)
    assert record(spool, file) == 0
    shown = json.loads(printed(capsys, "show", file, "1", "--format", "json"))
    assert "before it had spooled the whole" in shown["event"]["status_message"]
    assert shown["request"]["id"] == "c-hang"


def test_a_wrapped_plugin_runs_without_a_usable_spool(plugin: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    before = call(plugin, request(), VARIABLE="x")
    assert run(["tap", "--wrap", str(plugin), "--v01", str(blocked)]) == 0
    blocked.touch()
    after = call(plugin, request(), VARIABLE="x")
    assert (after.stdout, after.stderr, after.returncode) == (
        *(before.stdout, before.stderr, before.returncode),
    )


@pytest.mark.parametrize(
    "instructions",
    ['{"spool": ""}', '{"spool": 7}', '{"spool": "here"}', '{"spool": "/\\u0000"}', "[]"],
)
def test_broken_instructions_keep_no_plugin_from_running(
    plugin: Path, spool: Path, tmp_path: Path, instructions: str
) -> None:
    assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
    (place,) = plugin.parent.rglob("tap.json")
    place.write_text(instructions)
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    done = subprocess.run([plugin, "invoke"], input=request(), capture_output=True, cwd=cwd)
    assert (done.returncode, json.loads(done.stdout)["plugin"]) == (4, "konfine")
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize("fault", ["os.fork", "open('/proc/self/environ')"])
def test_a_plugin_runs_although_its_wrapper_fails(plugin: Path, spool: Path, fault: str) -> None:
    assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
    (starter,) = (one for one in plugin.parent.rglob("*.py"))
    text = starter.read_text()
    if fault == "os.fork":
        text = text.replace("os.fork()", "os.open('/nonexistent', 0)")
    else:
        text = text.replace("/proc/self/environ", "/proc/self/no")
    starter.write_text(text)
    assert call(plugin, request()).returncode == 4
    assert [one.suffix for one in (spool / "konfine").iterdir()].count(".in") == (
        fault != "os.fork"
    )
    assert (spool / "konfine" / "lost.from").exists() == (fault == "os.fork")


def test_a_wrapped_plugin_has_the_runtimes_umask(plugin: Path, spool: Path) -> None:
    plugin.write_text("#!/bin/sh\numask\n")
    assert run(["tap", "--wrap", str(plugin), "--v01", str(spool)]) == 0
    done = subprocess.run([plugin, "invoke"], input=b"", capture_output=True, umask=0o027)
    assert done.stdout == b"0027\n"
    assert next((spool / "konfine").glob("*.in")).stat().st_mode & 0o777 == 0o600


def test_a_plugin_hidden_by_another_program_is_reported(
    tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = tmp_path / "sh"
    hidden.write_text("#!/bin/sh\n")
    hidden.chmod(0o755)
    assert run(["tap", "--wrap", str(hidden), "--v01", str(spool)]) == 0
    assert "bin/sh instead, which is earlier in its PATH" in capsys.readouterr().err


def test_a_program_is_no_list_whatever_its_name(
    plugin: Path, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = plugin.rename(plugin.with_name("plugin.json"))
    assert run(["tap", "--wrap", str(program), "--v01", str(spool)]) == 0
    assert capsys.readouterr().err.startswith(f"wrapped {program}: ")
    assert run(["tap", "--unwrap", str(program)]) == 0
    assert program.read_text() == PLUGIN


def test_options_of_a_tap_are_refused_for_nri_0_1(
    plugin: Path, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrap = ("tap", "--wrap", plugin, "--v01", spool)
    assert "recorded by `record`" in error_line(capsys, *wrap, "--where", "pod:x")
    assert "recorded by `record`" in error_line(capsys, *wrap, "--cri", "x.sock")
    assert not spool.exists()
    assert "--v01 needs --wrap" in error_line(capsys, "tap", "--v01", spool, "--", plugin)
    assert "not a name for a plugin file" in error_line(capsys, "tap", "--wrap", plugin)
