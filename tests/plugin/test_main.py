# SPDX-License-Identifier: Apache-2.0
"""The main program of a plugin, as a launched and as an external process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from nri_scope.runtime import PROFILES, Plugin
from nri_scope.runtime.output import LAST_KEPT, Stream
from tests.plugin_builders import adjust
from tests.runtime_emulation.runtime import Runtime

from .attached import NEW, OLD

ROOT = Path(__file__).parents[2]

PLUGIN = f"""#!{sys.executable}
import os, sys

sys.path.insert(0, {str(ROOT)!r})
from nri_scope.errors import UsageError
from nri_scope.plugin import api, run

class Plugin:
    '''Says what it was configured with.

    More that is not for the help.
    '''

    config = ""
    failure_policy = os.environ.get("POLICY", "")

    def configure(self, config, runtime):
        self.config = config

    def create_container(self, pod, container):
        if container.name == "bad":
            raise ValueError("a\\nb\\x1b[31m")
        return api.ContainerAdjustment(env=[api.KeyValue(key="CONFIG", value=self.config)])

    def closed(self, reason):
        print("closed:", reason, flush=True)

run(Plugin(), name="written")
"""

CREATE = api.CreateContainerRequest(
    pod=api.PodSandbox(name="web", namespace="shop"), container=api.Container(name="app")
)
BAD = api.CreateContainerRequest(container=api.Container(name="bad"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "20-mine"
    path.write_text(PLUGIN)
    path.chmod(0o755)
    return path


async def adjusted(runtime: Runtime) -> str:
    """Return the value of the variable that the only plugin adds."""
    (answer,) = await runtime.dispatch(EventKind.CreateContainer, CREATE)
    assert isinstance(answer.reply, api.CreateContainerResponse)
    return answer.reply.adjust.env[0].value


async def line_of(plugin: Plugin) -> str:
    """Return the first line that a launched plugin prints."""
    assert plugin.process is not None
    output = plugin.process.output
    while not (printed := [line for each in Stream for line in output.last(each, LAST_KEPT)]):
        await asyncio.sleep(0.01)
        plugin.process.read_output()
    return printed[0]


@asynccontextmanager
async def running(program: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(str(program), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("NRI_")},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def wait_for_output(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_launched_plugin_is_configured_and_adjusts(program: Path) -> None:
    async with Runtime(OLD) as runtime:
        plugin = await runtime.launch(program, config="as wanted")
        assert plugin.id == "20-mine"
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, CREATE)
        assert answer.reply == api.CreateContainerResponse(
            adjust=adjust(env={"CONFIG": "as wanted"})
        )


async def test_external_plugin_reconnects_until_sigterm(program: Path, tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    options = ("--socket", str(socket), "--index", "30", "--wait")
    async with running(program, *options) as process:
        for _ in range(2):
            async with Runtime(NEW) as runtime:
                await runtime.listen(socket)
                await runtime.wait_plugins(1)
                assert [plugin.id for plugin in runtime.plugins] == ["30-written"]
                (answer,) = await runtime.dispatch(EventKind.CreateContainer, CREATE)
                assert isinstance(answer.reply, api.CreateContainerResponse)
                assert answer.reply.adjust.env[0].key == "CONFIG"
        async with Runtime(NEW) as runtime:
            await runtime.listen(socket)
            await runtime.wait_plugins(1)
            process.send_signal(signal.SIGTERM)
            status, out, err = await wait_for_output(process)
    assert status == 0
    assert err.splitlines().count("info: connected to CRI-O 1.37.0, NRI 0.12.0") == 3
    assert out.splitlines() == ["closed: closed by the runtime"] * 2 + ["closed: terminated"]


@pytest.mark.parametrize(("options", "tracebacks"), [((), 0), (("--verbose",), 1)])
async def test_exception_is_one_printable_line_with_a_traceback_if_verbose(
    program: Path, tmp_path: Path, options: tuple[str, ...], tracebacks: int
) -> None:
    socket = tmp_path / "nri.sock"
    async with Runtime(NEW) as runtime:
        await runtime.listen(socket)
        async with running(program, "--socket", str(socket), "--once", *options) as process:
            await runtime.wait_plugins(1)
            await runtime.dispatch(EventKind.CreateContainer, BAD)
            runtime.plugins[0].drop("enough")
            status, _, err = await wait_for_output(process)
    assert status == 0
    assert err.count("Traceback") == tracebacks
    assert r"error: create_container bad: ValueError: a\nb\x1b[31m" in err.splitlines()
    assert "\x1b" not in err


async def test_invalid_input_prints_one_line_and_exits_with_status_2(
    program: Path, tmp_path: Path
) -> None:
    missing = str(tmp_path / "none.sock")
    for options, words in [
        (("--socket", missing), f"written: {missing}: no such socket"),
        (("--index", "7"), "written: '7' is not a plugin index; write 07"),
        (("--name", "a b"), "written: 'a b' is not a plugin name"),
    ]:
        async with running(program, *options) as process:
            status, out, err = await wait_for_output(process)
        assert (status, out) == (2, "")
        assert words in err.splitlines()[-1]
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("profile", "status", "words"),
    [
        ("nri-0.12.5", 0, "info: connected to containerd 2.4.2, NRI 0.12.5"),
        ("containerd-2.4", 2, "written: containerd 2.4.2 (NRI 0.12.3) does not know the failure "
         "policy fail_request; it needs NRI 0.12.4; leave out failure_policy, or --keep-connected, "
         "for this runtime"),
    ],
)  # fmt: skip
async def test_failure_policy_is_sent_only_to_runtimes_that_know_it(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    profile: str, status: int, words: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("POLICY", "fail_request")
    socket = tmp_path / "nri.sock"
    async with Runtime(PROFILES[profile]) as runtime:
        await runtime.listen(socket)
        async with running(program, "--socket", str(socket), "--once") as process:
            if not status:
                await runtime.wait_plugins(1)
                assert str(runtime.plugins[0].failure_policy) == "fail_request"
                runtime.plugins[0].drop("enough")
            found, _, err = await wait_for_output(process)
    assert found == status
    assert words in err.splitlines()
    if status:
        assert len(err.splitlines()) == 1


async def test_launched_plugin_starts_where_its_failure_policy_is_unknown(program: Path) -> None:
    # Up to NRI 0.6, a launched plugin that fails keeps the whole runtime from starting.
    program.write_text(program.read_text().replace(
        'os.environ.get("POLICY", "")', "'fail_request'"))  # fmt: skip
    async with Runtime(PROFILES["containerd-1.7"]) as runtime:
        plugin = await runtime.launch(program)
        # It is not sent, so the runtime has nothing to ignore.
        assert (plugin.admitted, str(plugin.ignored_policy)) == (True, "")
        assert await line_of(plugin) == (
            "warning: containerd 1.7.24 (NRI 0.6.1, inferred) does not know the failure policy "
            "fail_request; it needs NRI 0.12.4; leave out failure_policy, or --keep-connected, for "
            "this runtime"
        )


async def test_unknown_failure_policy_exits_with_status_2(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLICY", "explode")
    async with running(program) as process:
        status, out, err = await wait_for_output(process)
    assert (status, out) == (2, "")
    assert err == (
        "written: NRI has no failure policy 'explode'; known are fail_request, keep_connected\n"
    )


OWN_OPTIONS = f"""#!{sys.executable}
import argparse, logging, sys

sys.path.insert(0, {str(ROOT)!r})
from nri_scope.plugin import api, run

class Plugin:
    def __init__(self, value):
        self.value = value

    def create_container(self, pod, container):
        logging.getLogger("mine").info("adjusts %s", container.name)
        logging.getLogger("mine").debug("in detail")
        return api.ContainerAdjustment(env=[api.KeyValue(key="CONFIG", value=self.value)])

parser = argparse.ArgumentParser(add_help=False)
parser.add_argument("--value", default="unset", help="what to set")
options, rest = parser.parse_known_args()
#SETUP
run(Plugin(options.value), name="own", arguments=rest)
"""


@pytest.fixture
def own_options(tmp_path: Path) -> Path:
    path = tmp_path / "20-own"
    path.write_text(OWN_OPTIONS)
    path.chmod(0o755)
    return path


async def test_plugin_gets_its_own_options(own_options: Path) -> None:
    for arguments, value in [((), "unset"), (("--value", "7"), "7")]:
        async with Runtime(NEW) as runtime:
            await runtime.launch_command([str(own_options), *arguments], "20", "own")
            assert await adjusted(runtime) == value


@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ("", ["info: adjusts app"]),
        ("logging.basicConfig(level=logging.DEBUG, format='%(message)s')",
         ["adjusts app", "in detail"]),
    ],
)  # fmt: skip
async def test_launched_plugin_logs_from_level_info_on(
    own_options: Path, setup: str, lines: list[str]
) -> None:
    own_options.write_text(OWN_OPTIONS.replace("#SETUP", setup))
    async with Runtime(NEW) as runtime:
        plugin = await runtime.launch(own_options)
        await adjusted(runtime)
    assert plugin.process is not None
    texts = plugin.process.output.last(Stream.STDERR, LAST_KEPT)
    assert [text for text in texts if "connected" not in text and "selector" not in text] == lines
    # The library's own lines are those of the plugin's own configuration only.
    assert ("connected" in " ".join(texts)) == ("basicConfig" in setup)


async def test_help_has_the_plugin_s_first_docstring_line(program: Path) -> None:
    async with running(program, "--help") as process:
        status, out, _ = await wait_for_output(process)
    assert status == 0
    assert "Says what it was configured with." in out and "More that" not in out


async def test_interrupt_while_waiting_for_a_runtime_exits(program: Path, tmp_path: Path) -> None:
    options = ("--socket", str(tmp_path / "nri.sock"), "--wait")
    async with running(program, *options) as process:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            while b"waiting for a runtime" not in await process.stderr.readline():
                pass
        process.send_signal(signal.SIGINT)
        status, _, err = await wait_for_output(process)
    assert (status, err) == (0, "")
