# SPDX-License-Identifier: Apache-2.0
"""The debugger by lines: ``replay --step`` in a real process, with a plugin in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nri_scope.debugger.line_debugger import COMMANDS, help_text
from tests.cli.command import NRI_SCOPE

from .plugins import two_lives

PLUGIN = f"""#!{sys.executable}
import os
from nri_scope.plugin import Adjustment, BasePlugin, run
class P(BasePlugin):
    async def create_container(self, pod, container):
        print("env", container.env, flush=True)
        return Adjustment().add_env("PID", str(os.getpid()))
    async def stop_container(self, pod, container):
        pass
run(P(), name="p")
"""


def stepped(folder: Path, *lines: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error."""
    path = two_lives(folder)
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    done = subprocess.run(
        [NRI_SCOPE, "replay", path, "--step", *options, "--", "./plugin"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in ("EDITOR", "VISUAL")},
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_stop_at_the_second_creation_and_change_its_request(tmp_path: Path) -> None:
    status, out, err = stepped(
        tmp_path, "b event:CreateContainer", "c", "c", "e container.env.DEBUG=1", "clear", "c"
    )
    assert status == 0, err
    assert "press Enter for 10  CreateContainer shop/web/sidecar \n" in err
    assert "stdout: env []" in out
    assert "stdout: env ['DEBUG=1']" in out
    assert "\n        the request was edited\n" in out
    assert "fault" not in out
    assert "5 replies: 5 ok" in out


def test_going_back_and_restarting_print_only_new_events(tmp_path: Path) -> None:
    status, out, err = stepped(tmp_path, "r 6", "back 2", "n", "restart", "a", "c", "back", "c")
    assert status == 0, err
    # The process id is another one after each restart.
    assert "1 reply differs from the run before" in err
    assert "~ /adjust/env/PID" in err
    lines = [line for line in out.splitlines() if "CreateContainer" in line]
    # Sent, sent after going back, and sent again; the restart is quiet.
    assert sum("  4  CreateContainer" in line for line in lines) == 3
    assert sum("10  CreateContainer" in line for line in lines) == 1


def test_a_reply_and_a_skipped_event(tmp_path: Path) -> None:
    status, out, err = stepped(tmp_path, "", "answer {adjust: {env: {BY: hand}}}", "s", "show", "c")
    assert status == 0, err
    assert "changes env BY" in out
    assert "not sent: skipped in the debugger" in out
    assert "    BY: hand" in err or "- BY=hand" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bogus", "'bogus' is no command; help lists the commands"),
        ("c now", "c takes no argument"),
        ("b evnt:x", "unknown field"),
        ("r 1", "event 1 is not after the pending one"),
        ("r x", "'x' is not the number of an event"),
        ("e pod.naem=x", "pod.naem: unknown key; did you mean name?"),
        ("e", "set EDITOR, or write the change on the line"),
        ("e pod.id=x", "pod.id: must stay pod-id"),
        ("answer {}", "no plugin subscribes to RunPodSandbox"),
        ("back x", "'x' is not a number of events"),
        ("\x1b[2J", r"'\x1b[2J' is no command"),
    ],
)
def test_an_invalid_line_is_a_message_and_it_goes_on(tmp_path: Path, line: str, words: str) -> None:
    status, out, err = stepped(tmp_path, line, "c")
    assert status == 0, err
    assert words in err
    assert "Traceback" not in err
    assert err.replace("\n", "").isprintable()
    assert "5 replies: 5 ok" in out


def test_quitting_early_ends_the_plugin_without_a_summary(tmp_path: Path) -> None:
    status, out, err = stepped(tmp_path, "n", "q")
    assert (status, "replies" in out) == (0, False), err
    # Events 3 to 15, of which the first was sent.
    assert "press Enter for 3  RunPodSandbox shop/web (to no plugin) \n" in err
    assert "press Enter for 4  CreateContainer shop/web/app \n12 events were not sent\n" in err


def test_quitting_at_the_last_event_and_at_the_end_counts_what_is_left(tmp_path: Path) -> None:
    assert "1 event was not sent\n" in stepped(tmp_path, "r 15", "q")[2]
    assert "not sent" not in stepped(tmp_path, "c", "q")[2]


def test_a_plugin_that_ends_at_a_prompt_is_reported_before_the_next_line(tmp_path: Path) -> None:
    path, plugin = two_lives(tmp_path), tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import os, threading\n"
        "from nri_scope.plugin import run\n"
        "class P:\n"
        "    def create_container(self, pod, container):\n"
        "        threading.Timer(0.3, lambda: os._exit(3)).start()\n"
        "run(P(), name='p')\n"
    )
    plugin.chmod(0o755)
    with subprocess.Popen(
        [NRI_SCOPE, "replay", path, "--step", "--", "./plugin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("n\nn\n")
        process.stdin.flush()
        # Without the message, this waits forever: the input goes on, but has no more lines.
        message = next(line for line in process.stderr if "disconnected" in line)
        assert message == (
            "10-plugin disconnected: closed by the peer: the plugin ended, exit status 3\n"
        )
        process.stdin.write("q\n")
        process.stdin.close()
        assert "(to no plugin) \n" in process.stderr.read()


def test_a_recorded_replay_cannot_go_back(tmp_path: Path) -> None:
    status, _, err = stepped(tmp_path, "n", "back", "c", options=("-o", "out.nriscope.db"))
    assert status == 0, err
    assert "the replay is being recorded; leave out -o to go back" in err


def test_the_documentation_has_the_list_of_commands() -> None:
    text = (Path(__file__).parents[2] / "docs" / "debugging.md").read_text()
    assert help_text() in text
    names = [name for one in COMMANDS for name in one.names]
    assert len(set(names)) == len(names)
