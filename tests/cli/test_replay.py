# SPDX-License-Identifier: Apache-2.0
"""The ``replay`` command: output, files, exit statuses and leftovers."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording
from tests.cli.command import NRI_SCOPE
from tests.sample_names import (
    API,
    CHECKOUT,
    CHECKOUT_API,
    CHECKOUT_PROXY,
    NIGHTLY_REPORT,
    NIGHTLY_UPLOAD,
)

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
OTHER = ROOT / "recordings" / "containerd-1.7.nriscope.db"

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
"""Environment for commands without COLUMNS, which would wrap lines. The readline library, if it is
loaded, sets it without Python's knowledge."""

PLUGIN = """#!{python}
import os, subprocess, sys
from nri_scope.plugin import api, run

class Plugin:
    def configure(self, config, runtime):
        if config:
            print("configured with", config, flush=True)

    def create_container(self, pod, container):
        print("creating", container.name, flush=True)
        if os.environ.get("CHILD"):
            subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
        variable = api.KeyValue(key=os.environ.get("VARIABLE", "ADDED"), value="1")
        return api.ContainerAdjustment(env=[variable])

run(Plugin(), name="plugin")
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a plugin, and the recording as FILE."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "plugin"
    program.write_text(PLUGIN.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "FILE").symlink_to(RECORDING)
    (tmp_path / "OLDER").symlink_to(OTHER)


def replay(line: str) -> int:
    """Run ``replay`` with a line of arguments."""
    return run(["replay", *shlex.split(line)])


def replay_output(line: str, capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    """Run ``replay``, check its exit status, and return its output."""
    assert replay(line) == status
    captured = capsys.readouterr()
    assert not captured.err
    return captured.out


def test_changes_and_output_of_a_plugin_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = replay_output("FILE -- ./plugin", capsys).splitlines()
    assert lines[0] == (
        "session 1, 00-nri-scope on containerd 2.1.9+unknown, to 10-plugin, "
        "as containerd 2.1.9+unknown (NRI 0.8.0)"
    )
    (create,) = [line for line in lines if "CreateContainer" in line and CHECKOUT_API in line]
    assert create.endswith("changes env ADDED")
    assert lines[lines.index(create) + 1] == f"        stdout: creating {API}"
    assert lines[lines.index(CHECKOUT_API) + 1] == '  + env ADDED = "1"'
    assert lines[-1].startswith("30 events, 5 replies: 5 ok in ")


@pytest.mark.exhaustive
def test_json_is_deterministic_except_for_times(capsys: pytest.CaptureFixture[str]) -> None:
    line = "FILE --format json --plugin 10=./plugin --plugin '20=./plugin -v' --env VARIABLE=A"
    results = [json.loads(replay_output(line, capsys, 1)) for _ in range(2)]
    assert all(result.pop("times")["events"] for result in results)
    assert results[0] == results[1]
    assert results[0]["ok"] is False
    assert "both tried to set" in results[0]["failures"][0]


@pytest.mark.exhaustive
def test_junit_has_failures_exactly_if_the_exit_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def failures(line: str, status: int) -> list[str | None]:
        assert replay(f"{line} --junit j.xml -- ./plugin") == status, capsys.readouterr()
        found = ElementTree.parse(tmp_path / "j.xml").getroot().findall(".//failure")
        return [one.get("message") for one in found]

    assert failures("FILE --format problems", 0) == []
    assert failures("compare FILE --without 10", 1) == [
        f"{name} differs without 10-plugin"
        for name in (
            CHECKOUT_API,
            CHECKOUT_PROXY,
            NIGHTLY_REPORT,
            NIGHTLY_UPLOAD,
        )
    ]
    conflicts = "FILE --format problems --plugin '20=./plugin -v' --env VARIABLE=A"
    assert failures(conflicts, 1)
    failures(f"{conflicts} --golden g.yaml --update-golden", 1)
    assert failures(f"{conflicts} --golden g.yaml", 0) == []
    assert failures(f"{conflicts} --golden g.yaml --max-took 1ns", 1)


def test_configuration_and_environment_reach_the_plugin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conf").write_text("key: value")
    text = replay_output("FILE --config conf --env VARIABLE=OTHER -- ./plugin", capsys)
    assert "stdout: configured with key: value" in text
    assert '+ env OTHER = "1"' in text
    text = replay_output("FILE --config 10=conf --plugin 10=./plugin --plugin '20=./plugin'"
                " --fault skip:CreateContainer", capsys)  # fmt: skip
    assert text.count("configured with") == 1


@pytest.mark.exhaustive
def test_goldens_are_written_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay("FILE --golden g.yaml -- ./plugin") == 2
    assert "golden g.yaml: no such file; write it with --update-golden" in capsys.readouterr().err
    text = replay_output("FILE --golden g.yaml --update-golden -- ./plugin", capsys)
    assert text.endswith("wrote golden g.yaml\n")
    assert replay_output("FILE --golden g.yaml -- ./plugin", capsys).endswith(
        "all replies match golden g.yaml\n"
    )
    text = replay_output("FILE --golden g.yaml --env VARIABLE=OTHER -- ./plugin", capsys, 1)
    assert "expected (golden g.yaml, line" in text
    found = json.loads(
        replay_output(
            "FILE --golden g.yaml --format json --env VARIABLE=OTHER -- ./plugin", capsys, 1
        )
    )
    assert found["golden"]["mismatches"]
    replay_output("FILE --golden g.yaml --junit j.xml --env VARIABLE=OTHER -- ./plugin", capsys, 1)
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("5", "4")
    for line in (
        "OLDER --golden g.yaml -- ./plugin",
        "FILE --golden g.yaml --profile cri-o -- ./plugin",
    ):
        assert replay(line) == 2
        assert "rewrite it with --update-golden" in capsys.readouterr().err
    (tmp_path / "g.yaml").write_text("- [nonsense")
    assert replay("FILE --golden g.yaml -- ./plugin") == 2
    assert "not YAML" in capsys.readouterr().err


def test_chains_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    text = replay_output("compare FILE --plugin 10=./plugin --with none", capsys, 1)
    assert f'{CHECKOUT_API} with the other chain\n  - env ADDED (was "1")' in text
    text = replay_output("compare FILE --plugin 10=./plugin --with '30=./plugin -v'", capsys)
    assert "both chains result in equal containers" in text
    found = json.loads(
        replay_output("compare FILE --format json --plugin 10=./plugin --with none", capsys, 1)
    )
    assert found["compared_with"]["plugins"] == []
    assert CHECKOUT_API in found["compared_with"]["containers"]


SECOND = """#!{python}
from nri_scope.plugin import api, run

class Second:
    def create_container(self, pod, container):
        seen = api.KeyValue(key="SEEN", value=str("ADDED=1" in container.env))
        return api.ContainerAdjustment(env=[seen])

run(Second(), name="second")
"""


@pytest.fixture
def chain(tmp_path: Path) -> str:
    """Return options for two plugins whose order matters."""
    (tmp_path / "second").write_text(SECOND.format(python=sys.executable))
    (tmp_path / "second").chmod(0o755)
    (tmp_path / "conf").write_text("of 10")
    return "FILE --plugin 10=./plugin --plugin 20=./second --config 10=conf"


@pytest.mark.exhaustive
def test_chain_is_compared_without_a_plugin(chain: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = replay_output(f"compare {chain} --without 10", capsys, 1)
    changes = '  - env ADDED (was "1")\n  ~ env SEEN "True" → "False"\n'
    assert f"{CHECKOUT_API} without 10-plugin\n{changes}" in text
    assert replay_output(f"compare {chain} --without 20", capsys, 1).count("- env SEEN (was") == 4
    text = replay_output(f"compare {chain} --without 20 --without 10", capsys, 1)
    assert f"{CHECKOUT_API} without 10-plugin and 20-second\n  - env ADDED" in text


@pytest.mark.exhaustive
def test_chain_is_compared_with_the_other_order(
    chain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "--with 10=./second --with 20=./plugin"
    text = replay_output(f"compare {chain} {other}", capsys, 1)
    assert (f'{CHECKOUT_API} with the other chain\n  ~ env SEEN "True" → "False"\n') in text
    found = json.loads(replay_output(f"compare {chain} {other} --format json", capsys, 1))
    assert found["compared_with"]["plugins"] == ["10-second", "20-plugin"]


@pytest.mark.exhaustive
def test_comparison_prints_only_differences_and_failures(
    chain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = replay_output(f"compare {chain} --without 20", capsys, 1)
    assert "CreateContainer" not in text
    assert "creating" not in text
    assert "configured" not in text
    text = replay_output(f"compare {chain} --plugin 30=./plugin --without 20", capsys, 1)
    assert text.count("conflict: ") == 2 * 4
    assert f"without 20-second: CreateContainer {CHECKOUT_API}: 30-plugin: conflict: " in text


@pytest.mark.exhaustive
def test_quiet_prints_failures_changes_and_totals(
    chain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = replay_output(f"{chain} --format problems", capsys)
    assert "CreateContainer" not in text
    assert "creating" not in text
    assert f'\n{CHECKOUT_API}\n  + env ADDED = "1"' in text
    assert text.splitlines()[-1].startswith("30 events, ")
    unmatched = "skip:StopContainer:only=shop/x"
    text = replay_output(f"{chain} --format problems --fault {unmatched}", capsys)
    assert text.splitlines()[1] == f"        fault: no event matched {unmatched}"
    text = replay_output(f"{chain} --format problems --plugin 30=./plugin", capsys, 1)
    assert text.count("conflict: ") == 4
    assert "creating" not in text


@pytest.mark.exhaustive
def test_only_events_with_changes_or_problems_are_printed(
    chain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = replay_output(f"{chain} --format changes", capsys)
    assert text.count("changes env SEEN") == 4
    assert "Synchronize" not in text
    assert "configured" not in text
    assert f"stdout: creating {API}" in text
    assert "StopContainer" not in replay_output(f"{chain} --format changes --profile cri-o", capsys)


@pytest.mark.exhaustive
def test_too_slow_reply_fails_also_with_a_golden(capsys: pytest.CaptureFixture[str]) -> None:
    replay_output("FILE --golden g.yaml --update-golden -- ./plugin", capsys)
    replay_output("FILE --golden g.yaml --max-took 1m -- ./plugin", capsys)
    text = replay_output("FILE --golden g.yaml --max-took 1ns -- ./plugin", capsys, 1)
    assert "changes env ADDED  too slow: took more than 1ns\n" in text
    assert "all replies match golden" in text


def test_a_run_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay_output("FILE -o run.nriscope.db -- ./plugin", capsys)
    assert run(["log", "run.nriscope.db"]) == 0
    assert "asked for env ADDED by 10-plugin" in capsys.readouterr().out
    assert run(["report", "run.nriscope.db"]) == 0
    assert run(["show", "run.nriscope.db", "3"]) == 0
    capsys.readouterr()
    assert "4 containers" not in replay_output("run.nriscope.db -- ./plugin", capsys)
    assert replay("FILE -o run.nriscope.db -- ./plugin") == 2
    assert "file exists" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_children_left_behind_are_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    text = replay_output(f"FILE --only {CHECKOUT_API} --env CHILD=1 -- ./plugin", capsys, 1)
    assert "10-plugin left a process behind, which was killed: /bin/sleep 1000" in text


@pytest.mark.exhaustive
def test_speed_plays_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    text = replay_output("FILE --speed 1000x:10ms -- ./plugin", capsys)
    assert "30 events, 5 replies: 5 ok" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("FILE", "neither COMMAND, --plugin nor --listen was given; write"),
        ("NOFILE -- ./plugin", "no such file"),
        ("FILE -- ./nowhere", "./nowhere: cannot be launched: no such file or directory"),
        ("FILE -- ./FILE", "permission denied; make it executable"),
        ("FILE -- no-such-program", "no such program in the folders of PATH"),
        ("FILE --plugin plugin", "write it as NN=COMMAND"),
        ("FILE --plugin 1=./plugin", "'1' is not a plugin index; write 01"),
        ("FILE --plugin 10=", "names no command"),
        ('FILE --plugin "10=./plugin \'x"', "no closing quotation; check its quotes"),
        ("FILE --plugin 10=./plugin --plugin 10=./plugin", "the same index and name"),
        ("FILE --index 5 -- ./plugin", "write 05"),
        ("FILE --name 'a b' -- ./plugin", "is not a plugin name"),
        ("FILE --index 10 --plugin 10=./plugin", "--index needs COMMAND; write it after --"),
        ("FILE --config nowhere -- ./plugin", "--config nowhere: no such file"),
        ("FILE --config 20=plugin -- ./plugin", "no plugin has index 20"),
        (
            "FILE --config plugin --config FILE -- ./plugin",
            "this plugin already has a configuration",
        ),
        ("FILE --config FILE -- ./plugin", "not text; name a readable UTF-8 file"),
        ("FILE --config plugin --listen s", "--config needs COMMAND or --plugin"),
        ("FILE --env X -- ./plugin", "write NAME=VALUE"),
        ("FILE --env X=1 --listen s", "--env needs COMMAND or --plugin"),
        ("FILE --external --listen s", "--external needs COMMAND or --plugin"),
        ("FILE --external --index 12 -- ./plugin", "external plugins set their own"),
        ("FILE --name x -- ./plugin {socket}", "external plugins set their own"),
        (
            "FILE --config plugin --external -- ./plugin",
            "--config and --external exclude each other; runtimes send",
        ),
        ("FILE --external -- ./nowhere", "./nowhere: cannot be launched: no such file"),
        ("FILE --timeout 0s -- ./plugin", "is not a duration"),
        ("FILE --grace soon -- ./plugin", "is not a duration"),
        ("FILE --expect 2 -- ./plugin", "no option --expect any more; use --listen N=SOCK"),
        ("FILE --listen 0=s", "0 plugins cannot be awaited"),
        ("FILE --session 3 -- ./plugin", "no session 3; it has 1 (00-nri-scope)"),
        ("FILE --where pood:x -- ./plugin", 'the nearest is "pod"'),
        ("FILE --since x -- ./plugin", "neither the number of an event nor a time"),
        ("FILE --since 9 --until 9 -- ./plugin", "--since is not before --until"),
        ("FILE --since 999 -- ./plugin", "is selected"),
        (f"FILE --only {CHECKOUT[:-1]} -- ./plugin", f"did you mean {CHECKOUT}?"),
        ("FILE --profile cri-a -- ./plugin", "did you mean cri-o?"),
        ("FILE --profile x -- ./plugin", "profiles are recorded, containerd-1.7"),
        ("FILE --fault slo:CreateContainer:1s -- ./plugin", "did you mean slow:EVENT:DURATION?"),
        ("FILE --fault split-sync --profile isulad -- ./plugin", "never splits Synchronize"),
        (
            "FILE --no-effects -- ./plugin",
            "no option --no-effects any more; use --profile verbatim",
        ),
        ("FILE --profile cri-o+x -- ./plugin", "write NAME or NAME+sync"),
        ("FILE --speed 0x -- ./plugin", "write 1x, 10x or 0.5x"),
        ("FILE --speed nan -- ./plugin", "write 1x, 10x or 0.5x"),
        ("FILE --max-idle 1s -- ./plugin", "use --speed 1x:MAX"),
        ("FILE --speed 1x:1 -- ./plugin", "'1x:1' is not a speed; write 1x, 10x or 0.5x, or 1x:2s"),
        ("FILE --update-golden -- ./plugin", "--update-golden needs --golden"),
        ("compare FILE --with none --listen s", "--with and --listen exclude each other"),
        ("compare FILE --without 10 --listen s", "--without and --listen exclude each other"),
        ("compare FILE --without 20 -- ./plugin", "no plugin has index 20; the chain has 10"),
        ("compare FILE --without 2 -- ./plugin", "is not a plugin index; write 02"),
        (
            "compare FILE --with none --without 10 -- ./plugin",
            "--with and --without exclude each other",
        ),
        ("compare FILE -- ./plugin", "neither --with nor --without was given"),
        ("compare FILE --with none", "neither COMMAND, --plugin nor --listen was given"),
        (
            "compare FILE --without 10 --profile verbatim -- ./plugin",
            "compare and --profile verbatim exclude each other",
        ),
        ("FILE --compare-with none -- ./plugin", "use `nri-scope replay compare` with --with"),
        ("FILE --without 10 -- ./plugin", "use `nri-scope replay compare`, which has it"),
        ("FILE --only-changes -- ./plugin", "use --format changes"),
        ("FILE --quiet -- ./plugin", "use --format problems"),
        ("FILE --from 3 -- ./plugin", "there is no option --from any more; use --since"),
        ("FILE --to 3 -- ./plugin", "there is no option --to any more; use --until"),
        ("FILE --ideal -- ./plugin", "use --profile NAME+sync"),
        ("FILE --max-took soon -- ./plugin", "'soon' is not a duration"),
        (
            "compare FILE --with none --with 10=./a -- ./plugin",
            "none excludes other --with",
        ),
        ("FILE -o nowhere/x -- ./plugin", "no such folder"),
        ("FILE --junit nowhere/x -- ./plugin", "nowhere/x: cannot be written"),
        ("FILE --junit FILE -- ./plugin", "FILE and --junit name the same file"),
        ("FILE --junit plugin -- ./plugin", "plugin: file exists and is not"),
        ("FILE -o x --golden x --update-golden -- ./plugin", "-o and --golden name the same file"),
    ],
)
def test_invalid_input_prints_one_line(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(line) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert error.startswith("nri-scope: ")


def test_a_plugin_that_does_not_register_is_reported_with_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "quit").write_text("#!/bin/sh\necho I do not like this >&2\nexit 7\n")
    (tmp_path / "quit").chmod(0o755)
    assert replay("FILE -- ./quit") == 2
    captured = capsys.readouterr()
    assert "stderr: I do not like this" in captured.out
    assert "the plugin ended, exit status 7; its last output: I do not like this" in captured.err


OWN_INDEX = """
if "NRI_PLUGIN_IDX" in os.environ:
    sys.exit('plugin ID already set ("10")')
sys.argv += ["--socket", sys.argv.pop()]
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", ["", "--format json"])
def test_a_plugin_that_sets_its_own_index_is_started_again(
    options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "own"
    program.write_text((tmp_path / "plugin").read_text().replace("class", f"{OWN_INDEX}\nclass"))
    program.chmod(0o755)
    # The variable is the plugin's last argument, and replaced only for an external plugin.
    (tmp_path / "start").write_text("#!/bin/sh\nexec ./own --index 42 --name mine $SOCKET\n")
    (tmp_path / "start").chmod(0o755)
    assert replay(f"FILE {options} --env SOCKET={{socket}} -- ./start") == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "10-start sets its own index, so it is started again as an external plugin\n"
        "10-start registered as 42-mine\n"
    )
    if options:
        (plugin,) = json.loads(captured.out)["plugins"]
        assert (plugin["plugin"], plugin["external"]) == ("42-mine", True)
    else:
        assert "42-mine ended on SIGTERM, exit status 0" in captured.out
    assert replay(f"FILE {options} --env SOCKET={{socket}} --external -- ./start") == 0
    assert not capsys.readouterr().err


SLOW = ["--speed", "0.001x", "--", "./plugin"]
WITH_CHILD = ["--since", "5", "--env", "CHILD=1", *SLOW]
LISTENS = ["--listen", "nri.sock"]


# Every signal, and every kind of waiting; all share one handler.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (signal.SIGINT, WITH_CHILD),
        (signal.SIGTERM, WITH_CHILD),
        (signal.SIGHUP, WITH_CHILD),
        (signal.SIGINT, SLOW),
        (signal.SIGTERM, LISTENS),
    ],
)
def test_an_interrupted_replay_leaves_no_processes_and_no_socket(
    tmp_path: Path, number: signal.Signals, arguments: list[str]
) -> None:
    process = subprocess.Popen(
        [NRI_SCOPE, "replay", "FILE", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    awaited = "to one plugin from nri.sock" if "--listen" in arguments else "Synchronize"
    if "--since" in arguments:
        # Until the first container.
        awaited = "CreateContainer"
    for line in process.stdout:
        if awaited in line:
            break
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not (tmp_path / "nri.sock").exists()
    assert not processes_in(tmp_path)


def processes_in(folder: Path) -> list[str]:
    """Processes whose working directory is ``folder``, other than this one."""
    found: list[str] = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "cwd").readlink() == folder and int(directory.name) != os.getpid():
                found.append((directory / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.exhaustive
def test_a_closed_output_pipe_is_no_error(tmp_path: Path) -> None:
    command = f"{NRI_SCOPE} replay FILE -- ./plugin | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")


@pytest.mark.parametrize("event", ["RunPodSandbox", "CreateContainer", "StartContainer"])
def test_later_events_of_a_failed_one_are_not_sent(
    event: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = replay_output(f"FILE --fault error:{event} -- ./plugin", capsys, 0)
    assert "not sent: " in out


@pytest.mark.exhaustive
def test_an_external_plugin_is_waited_for(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [NRI_SCOPE, "replay", "FILE", "--listen", "nri.sock", "--", "./plugin"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Synchronize" in line:
            break
    external = subprocess.Popen(
        [NRI_SCOPE, "record", "--socket", "nri.sock", "-o", "of.nriscope.db", "--index", "05"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        text, _ = process.communicate(timeout=60)
    finally:
        external.send_signal(signal.SIGINT)
        external.wait(30)
    assert process.returncode == 0
    assert "05-nri-scope" in text
    assert run(["log", "of.nriscope.db"]) == 0


def test_update_golden_warns_about_removed_matchers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = tmp_path / "g.yaml"
    assert replay(f"FILE --golden {golden} --update-golden -- ./plugin") == 0
    text = golden.read_text()
    assert "ADDED: '1'" in text
    golden.write_text(text.replace("ADDED: '1'", "ADDED: !regex '^never$'"))
    capsys.readouterr()
    assert replay(f"FILE --golden {golden} --update-golden -- ./plugin") == 0
    warned = capsys.readouterr().err.splitlines()
    assert warned
    assert all(
        one.startswith(
            "warning: matcher removed, as it no longer matches: !regex ^never$ of 10-plugin "
        )
        for one in warned
    )
    assert golden.read_text() == text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("replay FILE --junit nowhere/x -- ./plugin", "nowhere/x: cannot be written"),
        ("replay FILE --junit folder -- ./plugin", "folder: cannot be written"),
        ("replay FILE --junit pipe -- ./plugin", "pipe: cannot be written"),
        ("replay FILE --junit theirs -- ./plugin", "theirs: cannot be written"),
        ("replay FILE --junit locked/x -- ./plugin", "locked/x: cannot be written"),
        ("replay FILE --golden nowhere/x --update-golden -- ./plugin", "nowhere/x: cannot be"),
        ("replay FILE --golden locked/x --update-golden -- ./plugin", "locked/x: cannot be"),
        ("replay FILE --golden folder --update-golden -- ./plugin", "folder: "),
        ("replay FILE --golden their-link --update-golden -- ./plugin", "another user"),
        ("replay FILE -o nowhere/x -- ./plugin", "nowhere/x: no such folder"),
        ("replay FILE -o folder -- ./plugin", "folder: file exists"),
        ("report FILE -o nowhere/x.md", "nowhere/x.md: no such folder"),
        ("report FILE -o pipe.md --force", "pipe.md is not a regular file"),
        ("export FILE -o nowhere/x.nriscope.zip", "nowhere/x.nriscope.zip: no such folder"),
        ("export FILE --redact -o nowhere/x.nriscope.zip", "x.nriscope.zip: no such folder"),
        ("export FILE --redact --format jsonl -o nowhere/x", "nowhere/x: no such folder"),
        ("export FILE --redact -o nowhere/x.db", "nowhere/x.db: no such folder"),
    ],
)
def test_an_unwritable_file_is_reported_before_any_work(
    line: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "plugin").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "locked").mkdir()
    for name in "pipe", "pipe.md":
        os.mkfifo(tmp_path / name)
    (tmp_path / "theirs").write_text("<testsuites/>")
    (tmp_path / "their-link").symlink_to("absent")
    lstat, fstat, access = os.lstat, os.fstat, os.access

    def of_another(status: os.stat_result) -> os.stat_result:
        return os.stat_result((*status[:4], os.getuid() + 1, *status[5:]))

    # Tests may run as root, who may write everywhere, or as a user who cannot change owners.
    monkeypatch.setattr(
        os,
        "lstat",
        lambda path, **of: (
            of_another(lstat(path)) if Path(path).name == "their-link" else lstat(path, **of)
        ),
    )
    inode = lstat(tmp_path / "theirs").st_ino
    monkeypatch.setattr(
        os,
        "fstat",
        lambda of: of_another(fstat(of)) if fstat(of).st_ino == inode else fstat(of),
    )
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode, **of: Path(path).name != "locked" and access(path, mode, **of),
    )
    monkeypatch.setattr(Recording, "events", None)

    assert run(shlex.split(line)) == 2

    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1
    assert not captured.out and not (tmp_path / "started").exists()
