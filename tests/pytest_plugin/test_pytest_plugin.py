# SPDX-License-Identifier: Apache-2.0
"""Test suites of a plugin, run by pytest as its author runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import nri_scope.replay.testing
from tests.sample_names import CHECKOUT, CHECKOUT_API

# Each inner run unloads the modules it imported first; these must not be imported twice.
IMPORTED = (nri_scope.replay.testing, yaml)

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
PLUGIN = """
import pytest

from nri_scope.plugin import api
from tests.sample_names import API, CHECKOUT_API, CHECKOUT_PROXY, NIGHTLY, NIGHTLY_REPORT


class MyPlugin:
    def __init__(self, value="1"):
        self.value = value

    def configure(self, config, runtime):
        self.value = config or self.value

    def create_container(self, pod, container):
        if container.name == API:
            return api.ContainerAdjustment(env=[api.KeyValue(key="MINE", value=self.value)])
"""
COMMAND = f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from nri_scope.plugin import api, run

arguments = sys.argv[1:]
del sys.argv[1:]

class Plugin:
    def create_container(self, pod, container):
        print("created", container.name, *arguments, flush=True)
        variable = api.KeyValue(key="THEIRS", value=os.environ.get("VALUE", "none"))
        return api.ContainerAdjustment(env=[variable])

run(Plugin(), name="theirs")
"""

# Modules that are already imported are not rewritten for explained assertions.
_STRICT = ("-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class Suite:
    """A project with one test file, ``tests/test_it.py``, and a recording beside it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.folder = pytester.path
        pytester.makeini("[pytest]\naddopts = -p no:asyncio -p no:cacheprovider --strict-markers\n")
        (self.folder / "tests" / "recordings").mkdir(parents=True)
        shutil.copyfile(RECORDING, self.folder / "tests" / "recordings" / "web.db")
        program = self.folder / "theirs"
        program.write_text(COMMAND)
        program.chmod(0o755)

    def run(self, test: str, *options: str, marker: str = '"recordings/web.db"') -> str:
        """Run ``test``, the text of test functions, and return all output."""
        mark = f"\npytestmark = pytest.mark.nri_recording({marker})\n" if marker else "\n"
        (self.folder / "tests" / "test_it.py").write_text(PLUGIN + mark + test)
        result = self.pytester.runpytest_inprocess(*_STRICT, *options)
        return str(result.stdout)

    def failure_message(self, call: str, marker: str = '"recordings/web.db"') -> str:
        """Return the failure message of a test that makes this call."""
        output = self.run(f"\ndef test(nri_replay):\n    {call}\n", marker=marker)
        assert "1 failed" in output or "1 error" in output
        # No frame of nri-scope is between the test and the message.
        assert "nri_scope/" not in output
        assert "Traceback" not in output
        lines = [line[4:].strip() for line in output.splitlines() if line.startswith("E   ")]
        if not lines:
            # A failure of the fixture is output without code.
            lines = output.split("_ ERROR at setup of test _")[1].splitlines()[1:2]
        (line,) = lines
        return line.removeprefix("Failed: ").removeprefix("AssertionError: ")

    @property
    def goldens(self) -> list[str]:
        return sorted(
            path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.yaml")
        )


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


def passes(output: str, count: int = 1) -> bool:
    assert f"{count} passed in" in output, output
    return True


# -- plugins and recordings -----------------------------------------------------------------------


def test_object_is_called_in_this_process(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
def test(nri_replay):
    mine = MyPlugin()
    result = nri_replay(mine)
    result.assert_ok()
    app = result.container(CHECKOUT_API)
    assert "MINE=1" in app.spec["process"]["env"]
    assert [(one.path, one.after) for one in app.changes] == [("/process/env/MINE", "1")]
    assert app.owner("/process/env/MINE") == "10-my"
    assert app.owner("env MINE") == "10-my"
    assert not result.container(CHECKOUT_PROXY).changes
    assert not result.conflicts and not result.dropped and not result.output
    assert {reply.event for reply in result.replies} == {"Synchronize", "CreateContainer"}
    assert [e.event_id for e in result.events if e.event_id] == list(range(3, 33))
    assert all(0 < reply.took_ns < reply.deadline_ns for reply in result.replies)
    assert repr(result).endswith("as recorded to 10-my: 5 replies>")
"""
        )
    )


def test_logs_of_handlers_are_captured_as_usual(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
import logging

class Logging:
    def create_container(self, pod, container):
        logging.getLogger("mine").info("creates %s", container.name)

def test(nri_replay, caplog):
    caplog.set_level(logging.INFO)
    nri_replay(Logging()).assert_ok()
    assert [one.getMessage() for one in caplog.records if one.name == "mine"] == [
        "creates checkout-api", "creates istio-proxy", "creates report", "creates upload"
    ]
"""
        )
    )


def test_updates_outside_of_events_change_containers(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
from nri_scope.plugin import api

class Warming:
    def configure(self, config, runtime):
        self.runtime = runtime

    def start_container(self, pod, container):
        update = api.ContainerUpdate(container_id=container.id)
        update.linux.resources.cpu.shares.value = 77
        self.runtime.update_containers([update])

def test(nri_replay):
    result = nri_replay(Warming())
    result.assert_ok()
    job = result.container(NIGHTLY_REPORT)
    assert [(one.path, one.after) for one in job.changes] == [("/linux/resources/cpu/shares", 77)]
    assert job.owner("/linux/resources/cpu/shares") == "10-warming"
"""
        )
    )


def test_command_is_launched(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
def test(nri_replay):
    result = nri_replay(["./theirs", "-v"], index="20", environment={"VALUE": "x y"})
    result.assert_ok()
    env = result.container(CHECKOUT_API).spec["process"]["env"]
    assert "THEIRS=x y" in env
    assert ("20-theirs", "stdout", f"created {API} -v") in {line[:3] for line in result.output}

def test_path(nri_replay, request):
    result = nri_replay(request.config.rootpath / "theirs", name="other")
    assert [plugin.plugin for plugin in result.plugins] == ["10-other"]

def test_text(nri_replay):
    assert nri_replay("./theirs 'a b'").output[0].text == "created checkout-api a b"
""",
        ),
        3,
    )


def test_chain_is_called_in_the_order_of_indices(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
def test(nri_replay):
    result = nri_replay(
        {"20": "./theirs", "10-first": MyPlugin(), "30": MyPlugin("2")}, config={"10": "told"}
    )
    assert [plugin.plugin for plugin in result.plugins] == ["10-first", "20-theirs", "30-my"]
    (conflict,) = set(result.conflicts)
    assert 'plugins "30-my" and "10-first" both tried to set env MINE' in conflict
    assert not result.container(CHECKOUT_API).created
    assert "MINE=told" not in result.container(CHECKOUT_PROXY).spec["process"]["env"]
    assert len(result.failures) == 1
""",
        )
    )


def test_call_selects_profile_faults_and_effects(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
@pytest.mark.parametrize("profile", ["containerd-1.7", "cri-o"])
def test_profile(nri_replay, profile):
    assert nri_replay(MyPlugin(), profile=profile).replayed.profile == profile

def test_fault(nri_replay):
    result = nri_replay(MyPlugin(), faults=["duplicate:CreateContainer", "restart-runtime:after=3"])
    assert len(result.replies) == 10

def test_effects(nri_replay):
    result = nri_replay(MyPlugin(), effects=False)
    assert not result.container(CHECKOUT_API).changes if result.containers else True
""",
        ),
        4,
    )


def test_inner_marker_overrides_outer_one(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
@pytest.mark.nri_recording(profile="cri-o", only=NIGHTLY)
class TestThem:
    @pytest.mark.nri_recording(profile="isulad")
    def test_both(self, nri_replay):
        result = nri_replay(MyPlugin())
        assert result.replayed.profile == "isulad"
        assert list(result.containers) == [NIGHTLY_REPORT]

    @pytest.mark.nri_recording("recordings/web.db")
    def test_another_recording_is_played_as_a_whole(self, nri_replay):
        result = nri_replay(MyPlugin())
        assert result.replayed.profile == "recorded"
        assert CHECKOUT_API in result.containers
""",
            marker='"recordings/web.db", where="container:report"',
        ),
        2,
    )


@pytest.mark.parametrize(
    "marker",
    [
        '"tests/recordings/web.db"',
        'path=__import__("pathlib").Path(__file__).parent / "recordings" / "web.db"',
        '"recordings/web.db", session=1, where="event:CreateContainer", only=CHECKOUT_API',
    ],
    ids=["relative to rootdir", "absolute", "filtered"],
)
def test_recording_of_the_marker_is_found(suite: Suite, marker: str) -> None:
    output = suite.run(
        "\ndef test(nri_replay): assert CHECKOUT_API in nri_replay(MyPlugin()).containers\n",
        marker=marker,
    )
    assert passes(output)


def test_coroutine_may_replay(suite: Suite) -> None:
    assert passes(
        suite.run(
            """
import asyncio, threading

class Curious(MyPlugin):
    async def create_container(self, pod, container):
        self.thread = threading.current_thread()
        await asyncio.sleep(0)
        return api.ContainerAdjustment(env=[api.KeyValue(key="MINE", value="1")])

def test(nri_replay):
    async def main():
        curious = Curious()
        result = nri_replay(curious)
        assert curious.thread is not threading.current_thread()
        assert result.container(CHECKOUT_API).changes
        assert nri_replay("./theirs").container(CHECKOUT_API).changes
        with pytest.raises(pytest.fail.Exception, match="is a class"):
            nri_replay(Curious)
    asyncio.run(main())
    curious = Curious()
    nri_replay(curious)
    assert curious.thread is threading.current_thread()
"""
        )
    )


def test_event_loop_of_other_fixtures_is_unchanged(pytester: pytest.Pytester) -> None:
    suite = Suite(pytester)
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    assert passes(
        suite.run(
            """
import asyncio
import pytest_asyncio

@pytest_asyncio.fixture
async def loop():
    return asyncio.get_running_loop()

def test_plain(nri_replay, loop):
    nri_replay(MyPlugin())
    assert asyncio.get_event_loop() is loop

async def test_coroutine(nri_replay, loop):
    nri_replay(MyPlugin())
    assert asyncio.get_running_loop() is loop
"""
        ),
        2,
    )


# -- invalid input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("", "nri_replay has no recording; mark the test with @pytest.mark.nri_recor"),
        ('"none.db"', "no recording none.db in "),
        ('"/no/ne.db"', "no recording /no/ne.db"),
        ('"\\x1b[2Jnone.db"', "no recording \\x1b[2Jnone.db in "),
        ("3", "nri_recording: path=3 is not a path"),
        (
            '"recordings/web.db", 1',
            "nri_recording takes one positional argument; pass others by keyword",
        ),
        ('"recordings/web.db", session="1"', "nri_recording: session='1' is not of type int"),
        ('"recordings/web.db", session=True', "nri_recording: session=True is not of type int"),
        (
            '"recordings/web.db", sesion=1',
            "nri_recording: unknown argument sesion; known are path, ",
        ),
        ('"recordings/web.db", session=7', "web.db: contains no session 7; it has 1 (00-nri-"),
        ('"recordings/web.db", where="event:"', "filter: "),
        ('"recordings/web.db", only="a/b"', "session 1 has no event of a/b"),
        ('"recordings/web.db", profile="podman"', "there is no profile 'podman'; "),
        ("__file__", "test_it.py: "),
        ('"recordings"', "recordings: "),
    ],
)
def test_invalid_recording_fails_with_one_line(suite: Suite, marker: str, words: str) -> None:
    assert words in suite.failure_message("nri_replay(MyPlugin())", marker=marker)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("nri_replay(MyPlugin)", "MyPlugin is a class; pass an instance: MyPlugin()"),
        ("nri_replay(None)", "NoneType has no handlers"),
        ("nri_replay({})", "the mapping of plugins is empty"),
        ("nri_replay({10: MyPlugin()})", "10 is not a plugin index; write it as text"),
        ("nri_replay({'1': MyPlugin()})", "'1' is not a plugin index; write 01"),
        (
            "nri_replay({'10': MyPlugin()}, index='10')",
            "index and name are not valid with a mapping",
        ),
        ("nri_replay({'10': MyPlugin(), '10-my': MyPlugin()})", "have the same index and name"),
        ("nri_replay(MyPlugin(), index='x')", "'x' is not a plugin index"),
        ("nri_replay(MyPlugin(), name='a b')", "'a b' is not a plugin name"),
        ("nri_replay(MyPlugin(), config={'20': ''})", "config for '20': no plugin has this index"),
        ("nri_replay([])", "the plugin's command is empty"),
        ("nri_replay(['./theirs', 3])", "3 is not valid in a command"),
        ("nri_replay('\"x')", "no closing quotation"),
        ("nri_replay('./none')", "./none"),
        ("nri_replay('/bin/false')", "10-false failed to start: "),
        (
            "nri_replay(MyPlugin(), faults=['slow'])",
            "fault 'slow' has the wrong number of arguments",
        ),
        (
            "nri_replay(MyPlugin(), effects=False, profile='cri-o')",
            "effects=False and profile=",
        ),
        (
            "nri_replay(MyPlugin()).container(CHECKOUT_API[:-1])",
            f"no container '{CHECKOUT_API[:-1]}' in this replay; did you mean {CHECKOUT_API}?",
        ),
        (
            "nri_replay(MyPlugin()).container('x')",
            f"no container 'x' in this replay; known are {CHECKOUT_API}",
        ),
    ],
)
def test_invalid_call_fails_with_one_line(suite: Suite, call: str, words: str) -> None:
    assert words in suite.failure_message(call)


# -- failures -------------------------------------------------------------------------------------

RAISES = """
class Wrong(MyPlugin):
    def create_container(self, pod, container):
        return {}[container.name]
"""


def test_failing_test_shows_its_replays(suite: Suite) -> None:
    output = suite.run(
        RAISES
        + """
def test_wrong(nri_replay):
    assert nri_replay(Wrong()).container(CHECKOUT_API).changes

def test_two(nri_replay):
    nri_replay("./theirs")
    nri_replay({"10": MyPlugin(), "20": "./theirs"})
    assert False

def test_right(nri_replay):
    nri_replay(MyPlugin())
"""
    )
    assert "assert ()" in output
    assert f"where () = ContainerResult(name='{CHECKOUT_API}', created=False).changes" in output
    wrong, two = output.split("_ test_two _")
    assert wrong.count("- nri_replay -") == 1
    assert "error: rpc error: code 2: KeyError: 'checkout-api'" in wrong
    assert "    return {}[container.name]" in wrong
    assert "During handling" not in wrong
    assert "- nri_replay 1 -" in two and "- nri_replay 2 -" in two
    assert "stdout: created checkout-api" in two
    assert '  + env MINE = "1"  (10-my)' in two
    assert "test_right" not in output


def test_assert_ok_shows_failures_and_the_handlers_traceback(suite: Suite) -> None:
    output = suite.run(RAISES + "\ndef test(nri_replay): nri_replay(Wrong()).assert_ok()\n")
    assert ">       return {}[container.name]" in output
    assert "The above exception was the direct cause of the following exception:" in output
    assert "E   AssertionError: the replay has failures:" in output
    assert f"E     CreateContainer {CHECKOUT_API}: 10-wrong: error: rpc error: code 2" in output
    assert "serving.py" not in output.split("Captured log")[0]


def test_crash_of_a_plugin_is_reported(suite: Suite) -> None:
    program = suite.folder / "theirs"
    program.write_text(COMMAND.replace("return api", "os._exit(3)\n        return api"))
    output = suite.run("\ndef test(nri_replay): nri_replay('./theirs').assert_ok()\n")
    assert f"E     CreateContainer {CHECKOUT_API}: 10-theirs: crash: " in output
    assert "10-theirs disconnected after event" in output


def test_an_external_plugin_is_started_with_a_socket(suite: Suite) -> None:
    program = suite.folder / "theirs"
    program.write_text(COMMAND.replace("del sys.argv[1:]", ""))
    output = suite.run(
        """
def test(nri_replay):
    result = nri_replay("./theirs --index 42 --name own --socket {socket}")
    assert [(one.plugin, one.external) for one in result.plugins] == [("42-own", True)]
    assert result.container(CHECKOUT_API).owner("/process/env/THEIRS") == "42-own"
"""
    )
    assert passes(output)
    call = 'nri_replay(MyPlugin(), external=True, config="x")'
    output = suite.run(f"def test(nri_replay): {call}.assert_ok()")
    assert passes(output)


def test_launched_plugins_get_synchronize_where_the_runtime_sends_it_or_ideally(
    suite: Suite,
) -> None:
    shutil.copyfile(RECORDING.with_name("containerd-1.7.nriscope.db"), suite.folder / "old.db")
    output = suite.run(
        """
@pytest.mark.parametrize("ideal", [True, False])
def test(nri_replay, ideal):
    result = nri_replay("./theirs", ideal=ideal)
    assert (result.replies[0].event == "Synchronize") is ideal
    assert nri_replay(MyPlugin()).replies[0].event == "Synchronize"
""",
        marker='"../old.db"',
    )
    assert passes(output, 2)


# -- goldens --------------------------------------------------------------------------------------

GOLDEN = "\ndef test(nri_replay):\n    nri_replay(MyPlugin({value!r})).assert_golden()\n"
FILE = "tests/goldens/test_it/test.yaml"


def test_golden_is_written_with_the_option_and_then_compared(suite: Suite) -> None:
    right, wrong = GOLDEN.format(value="1"), GOLDEN.format(value="2")
    assert suite.failure_message("nri_replay(MyPlugin()).assert_golden()") == (
        f"golden {FILE}: no such file; write it with --nri-golden=update"
    )
    assert passes(suite.run(wrong, "--nri-golden=none"))
    assert not suite.goldens
    output = suite.run(right, "--nri-golden=update")
    assert passes(output) and f"wrote golden {FILE}" in output
    assert suite.goldens == [FILE]
    text = (suite.folder / FILE).read_text()
    assert "as `pytest --nri-golden=update` writes them" in text.splitlines()[0]
    assert passes(suite.run(right))
    assert "wrote" not in suite.run(right, "--nri-golden=update")
    assert passes(suite.run(wrong, "--nri-golden=none"))
    output = suite.run(wrong)
    for line in (
        f"1 mismatch (expected: golden {FILE}; got: this replay)",
        f"10-my {CHECKOUT_API} CreateContainer: differs in 1 place",
        "expected '1'",
        "got      '2'",
        "if the new replies are correct, write them with --nri-golden=update",
    ):
        assert line in output
    assert "nri_scope/" not in output
    assert passes(suite.run(wrong, "--nri-golden=update"))
    assert passes(suite.run(wrong))


def test_matcher_is_kept_when_the_golden_is_rewritten(suite: Suite) -> None:
    suite.run(GOLDEN.format(value="1"), "--nri-golden=update")
    file = suite.folder / FILE
    file.write_text(file.read_text().replace("MINE: '1'", "MINE: !regex '[0-9]'"))
    assert passes(suite.run(GOLDEN.format(value="2"), "--nri-golden=update"))
    assert "MINE: !regex '[0-9]'" in file.read_text()


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("golden: [", f"golden {FILE}: line 2: not YAML: "),
        (
            "{}",
            f"golden {FILE}: line 1: not a golden: the key 'golden' is missing; correct it, or ",
        ),
    ],
)
def test_invalid_golden_fails_with_one_line(suite: Suite, golden: str, words: str) -> None:
    file = suite.folder / FILE
    file.parent.mkdir(parents=True)
    file.write_text(golden)
    message = suite.failure_message("nri_replay(MyPlugin()).assert_golden()")
    assert words in message and "--update-golden" not in message


def test_golden_of_another_profile_fails_with_one_line(suite: Suite) -> None:
    suite.run(GOLDEN.format(value="1"), "--nri-golden=update")
    message = suite.failure_message("nri_replay(MyPlugin(), profile='cri-o').assert_golden()")
    assert message == (
        f"golden {FILE} is for profile recorded, but the replay uses cri-o; replay with "
        "profile=recorded, or rewrite it with --nri-golden=update"
    )


def test_each_test_has_a_golden_of_its_own(suite: Suite) -> None:
    tests = """
class TestIt:
    @pytest.mark.parametrize("value", ["a/b", "a:b", "../../c", "x" * 300, "plain"])
    def test(self, nri_replay, value):
        nri_replay(MyPlugin(value)).assert_golden()

def test(nri_replay):
    nri_replay(MyPlugin("1")).assert_golden()
    nri_replay(MyPlugin("2")).assert_golden("goldens/second.yaml")
"""
    assert passes(suite.run(tests, "--nri-golden=update"), 6)
    assert len(suite.goldens) == 7
    assert {"tests/goldens/second.yaml", FILE} < set(suite.goldens)
    assert "tests/goldens/test_it/TestIt.test[plain].yaml" in suite.goldens
    assert passes(suite.run(tests), 6)


def test_second_result_does_not_overwrite_the_golden_of_the_first(suite: Suite) -> None:
    output = suite.run(
        """
def test_alike(nri_replay):
    for value in "11":
        nri_replay(MyPlugin(value)).assert_golden()

def test_different(nri_replay):
    for value in "12":
        nri_replay(MyPlugin(value)).assert_golden()
""",
        "--nri-golden=update",
    )
    assert "1 failed, 1 passed" in output
    assert "this test already wrote another result to this golden; use a separate golden" in output


def test_golden_folder_that_cannot_be_created_is_reported(suite: Suite) -> None:
    (suite.folder / "tests" / "goldens").write_text("")
    output = suite.run(GOLDEN.format(value="1"), "--nri-golden=update")
    assert "cannot create its folder: not a directory" in output


# -- suites without replays -----------------------------------------------------------------------


def test_nothing_heavy_is_imported_before_a_replay() -> None:
    """Every pytest run in an environment with nri-scope loads the plugin."""
    program = (
        "import sys, pytest; before = set(sys.modules); import nri_scope.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert output.stdout.decode().split() == [
        "nri_scope",
        "nri_scope.errors",
        "nri_scope.pytest_plugin",
    ]


@pytest.mark.skipif("config.pluginmanager.hasplugin('_cov')", reason="coverage imports sqlite3")
def test_suite_without_replays_imports_nothing_heavy(suite: Suite) -> None:
    (suite.folder / "tests" / "test_it.py").write_text(
        "import sys\n"
        "def test():\n"
        "    heavy = {'sqlite3', 'google.protobuf', 'uvloop', 'nri_scope.replay'}\n"
        "    assert not heavy & sys.modules.keys()\n"
        "def test_failing():\n"
        "    assert 1 == 2\n"
    )
    output = suite.pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:hypothesispytest")
    output.assert_outcomes(passed=1, failed=1)


def test_marker_and_option_are_documented(suite: Suite) -> None:
    assert "nri_recording(path, session=None" in str(suite.pytester.runpytest("--markers").stdout)
    assert "--nri-golden={check,update,none}" in str(suite.pytester.runpytest("--help").stdout)


SCENARIO = """\
scenario: 1
runtime: cri-o
pods: {payments-prod/checkout-api-7d9f8c6b5d-x2x9z: {containers: {checkout-api: {env: {A: '1'}}}}}
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: checkout-api-7d9f8c6b5d-x2x9z, namespace: payments-prod}
spec: {containers: [{name: checkout-api, image: x}]}
"""


def test_scenario_and_manifest_are_replayed(suite: Suite) -> None:
    (suite.folder / "tests" / "web.yaml").write_text(SCENARIO)
    (suite.folder / "tests" / "pod.yaml").write_text(PODS)
    test = """
def test(nri_replay):
    for profile in ("", "containerd-2.1", ""):
        result = nri_replay(MyPlugin(), profile=profile)
        result.assert_ok()
        assert "MINE=1" in result.container(CHECKOUT_API).spec["process"]["env"]
"""
    assert passes(suite.run(test, marker='"web.yaml"'))
    assert passes(suite.run(test, marker='"pod.yaml"'))


def test_bad_scenario_is_one_line(suite: Suite) -> None:
    (suite.folder / "tests" / "web.yaml").write_text("scenario: 1\npod: {}\n")
    message = suite.failure_message("nri_replay(MyPlugin())", marker='"web.yaml"')
    assert message.endswith("web.yaml:2: pod: unknown key; did you mean pods?")


def test_a_scenario_is_named_in_errors_of_its_replay(suite: Suite) -> None:
    (suite.folder / "tests" / "web.yaml").write_text(SCENARIO)
    marker = f'"web.yaml", only="{CHECKOUT}z"'
    message = suite.failure_message("nri_replay(MyPlugin())", marker=marker)
    assert message.endswith(
        f"tests/web.yaml: session 1 has no event of {CHECKOUT}z; did you mean {CHECKOUT}?"
    )
