# SPDX-License-Identifier: Apache-2.0
"""Provide pytest's fixture `nri_replay` and marker ``nri_recording``.

Every pytest run in an environment with nri-scope loads this module, so it imports the rest of
nri-scope only when a test uses the fixture.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from nri_scope.errors import NriScopeError, UsageError

if TYPE_CHECKING:
    from nri_scope.replay.result import Replayed
    from nri_scope.replay.run import Job
    from nri_scope.replay.script import ReplaySelection
    from nri_scope.replay.testing import Goldens, Result
    from nri_scope.replay.testing.replay_run import HandlerError

_MARKER = "nri_recording"
_SETTINGS: dict[str, type] = {"session": int, "where": str, "only": str, "profile": str}
"""Types of the marker's arguments other than the path."""
_NAME_MAX = 100
"""Maximum number of characters of a golden's name: names of parametrized tests can be longer."""

_REPLAY = pytest.StashKey["NriReplay"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --nri-golden."""
    parser.getgroup("nri-scope", "replays of NRI recordings").addoption(
        "--nri-golden",
        choices=("check", "update", "none"),
        default="check",
        help="Goldens of replays: compare with them (default), write them, or ignore them.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, as --strict-markers requires."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(path, session=None, where='', only='', profile='recorded'): the recording that "
        "nri_replay replays, relative to the folder of the test's file or to the rootdir",
    )


@pytest.fixture
def nri_replay(request: pytest.FixtureRequest) -> Iterator[NriReplay]:
    """Replay the recording of the marker "nri_recording" to plugins; see `NriReplay`."""
    try:
        replay = NriReplay(request)
    except UsageError as error:
        problem = str(error)
    else:
        stash = request.node.stash
        stash[_REPLAY] = replay
        with replay.temporary:
            yield replay
        # Free the results, which are large: nodes live until the end of the run.
        del stash[_REPLAY]
        return
    from nri_scope.text.escape import safe

    pytest.fail(safe(problem), pytrace=False)


class NriReplay:
    """Value of the fixture. Call it with a plugin to replay the test's recording to it."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Set up the replays of a test. Raises UsageError for a test without a recording."""
        node = cast("pytest.Item", request.node)
        self._folder = node.path.parent
        self._root = request.config.rootpath
        settings = _settings(node)
        path = settings.pop("path", None)
        if path is None:
            raise UsageError(
                "nri_replay has no recording",
                f'mark the test with @pytest.mark.{_MARKER}("FILE")',
            )
        self._profile = str(settings.pop("profile", "recorded"))
        self._settings = settings
        self._source = self._recording_at(os.fspath(cast("str | os.PathLike[str]", path)))
        self._recordings: dict[str, Path] = {}
        self.temporary = ExitStack()
        """Temporary recordings of a scenario, by the profile that was requested."""
        self._default_golden = (
            self._folder / "goldens" / node.path.stem / f"{_file_name(node)}.yaml"
        )
        self._mode = str(request.config.getoption("--nri-golden"))
        self._goldens: Goldens | None = None
        self._results: list[Result] = []

    def __repr__(self) -> str:
        return f"<replays of {self._source}>"

    def __call__(
        self,
        plugin: object,
        *,
        index: str = "",
        name: str = "",
        config: str | Mapping[str, str] = "",
        environment: Mapping[str, str] | None = None,
        profile: str = "",
        faults: Sequence[str] = (),
        effects: bool = True,
        ideal: bool = False,
        external: bool = False,
    ) -> Result:
        """Replay the recording to ``plugin``, and return the result.

        ``plugin`` is an object with handlers, which runs in this process over a real connection; or
        a command to launch, as a list, a path, or a text in shell quoting; or a mapping from
        indices ("10" or "10-name") to several of these. A program with a ``/`` in its name is
        looked up in the same folders as the recording.

        ``index``: "10" by default, or as in the command's file name ``NN-name``. ``name``: by
        default from the file, or from the object's class: "my-name" for "MyName". ``config``:
        configuration to send in Configure, for all plugins or by index. ``profile``: overrides the
        marker's. ``faults``: in the syntax of ``nri-scope replay --fault``. Without ``effects``,
        requests are sent as recorded, regardless of replies. With ``ideal``, commands get
        Synchronize even from a runtime that sends launched plugins none. ``external``: start
        commands as external plugins, which connect by themselves and set their own index, with a
        private socket in place of ``{socket}`` in their arguments, or else of the default one.

        Can be called in a test that is a coroutine; it blocks the event loop.
        """
        __tracebackhide__ = True
        from nri_scope.replay.faults import parse_faults
        from nri_scope.replay.playback import PlaybackOptions
        from nri_scope.replay.run import Job
        from nri_scope.replay.testing import Goldens, Result, plugin_set_of

        def job() -> Job:
            plugin_set = plugin_set_of(
                plugin,
                index=index,
                name=name,
                config=config,
                environment=environment,
                external=external,
                find=lambda file: str(self._find(file) or file),
            )
            options = PlaybackOptions(faults=parse_faults(faults), effects=effects)
            shown = profile or self._profile
            recording, selection = self._recording(shown), self._selection()
            return Job(recording, plugin_set, selection, options, shown, ideal=ideal)

        replayed, errors = self._performed(job)
        if self._goldens is None:
            self._goldens = Goldens(self._folder, self._default_golden, self._mode)
        result = Result(replayed, self._goldens, errors)
        self._results.append(result)
        return result

    def _performed(self, job: Callable[[], Job]) -> tuple[Replayed, list[HandlerError]]:
        """Perform a replay; fail the test if it cannot be."""
        __tracebackhide__ = True
        from nri_scope.replay.testing import perform
        from nri_scope.replay.testing import problem as problem_of

        try:
            return perform(job())
        except NriScopeError as error:
            problem = problem_of(error)
            # Name the scenario or manifest in place of its temporary recording.
            for path in self._recordings.values():
                problem = problem.replace(str(path), str(self._source))
        # Outside of the except block, whose exception pytest would show as context.
        pytest.fail(problem)

    def _recording(self, profile: str) -> Path:
        """Return the recording, or a recording of the scenario or manifest."""
        from nri_scope.scenario.playable import playable

        if profile not in self._recordings:
            source = playable(self._source, profile=profile)
            self._recordings[profile] = self.temporary.enter_context(source)
        return self._recordings[profile]

    def _selection(self) -> ReplaySelection:
        from nri_scope.filter import parse
        from nri_scope.replay.script import ReplaySelection

        where = cast("str", self._settings.get("where", ""))
        return ReplaySelection(
            session=cast("int | None", self._settings.get("session")),
            where=parse(where) if where else None,
            only=cast("str", self._settings.get("only", "")),
        )

    def _recording_at(self, path: str) -> Path:
        recording = self._find(path)
        if recording is None:
            places = dict.fromkeys([self._folder, self._root])
            where = " or ".join(str(place) for place in places)
            tried = "" if Path(path).is_absolute() else f" in {where}"
            raise UsageError(f"no recording {path}{tried}")
        return recording

    def _find(self, path: str) -> Path | None:
        for place in (self._folder, self._root):
            if (place / path).exists():
                return place / path
        return None

    # -- after the test -----------------------------------------------------------------------

    def sections(self) -> Iterator[tuple[str, str]]:
        """Yield the report sections for a failed test: title and text of each replay."""
        if not self._results:
            return
        from nri_scope.replay.testing import failure_report

        for number, result in enumerate(self._results, 1):
            title = "nri_replay" if len(self._results) == 1 else f"nri_replay {number}"
            yield title, "\n".join(failure_report(result))

    def take_written(self) -> list[str]:
        """Return the paths of goldens written since the last call."""
        if self._goldens is None:
            return []
        written = [str(path) for path in self._goldens.written]
        self._goldens.written.clear()
        return written


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add replays to a failed test's report, and the goldens it wrote to any report."""
    report = yield
    replay = item.stash.get(_REPLAY, None)
    if replay is not None:
        if report.failed:
            report.sections.extend(replay.sections())
        # pytest-xdist sends attributes of reports from its workers to the controller.
        vars(report)["nri_goldens"] = replay.take_written()
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the goldens that were written."""
    if config.getoption("--nri-golden") != "update":
        return
    reports = [report for outcome in terminalreporter.stats.values() for report in outcome]
    written = {file for report in reports for file in getattr(report, "nri_goldens", ())}
    for file in sorted(written):
        shown = os.path.relpath(file)
        terminalreporter.write_line(f"wrote golden {shown}")


def _settings(node: pytest.Item) -> dict[str, object]:
    """Merge the arguments of markers, from the nearest to the first that has a path."""
    settings: dict[str, object] = {}
    for mark in node.iter_markers(_MARKER):
        own = dict(mark.kwargs)
        if len(mark.args) > 1 or (mark.args and "path" in own):
            raise UsageError(
                f"{_MARKER} takes one positional argument", "pass others by keyword: session=2"
            )
        if mark.args:
            own["path"] = mark.args[0]
        for key, value in own.items():
            _check(key, value)
        settings = own | settings
        if "path" in settings:
            break
    return {key: value for key, value in settings.items() if value is not None}


def _check(key: str, value: object) -> None:
    if key == "path":
        if not isinstance(value, str | os.PathLike):
            raise UsageError(f"{_MARKER}: path={value!r} is not a path")
        return
    kind = _SETTINGS.get(key)
    if kind is None:
        known = ", ".join(_SETTINGS)
        raise UsageError(f"{_MARKER}: unknown argument {key}", f"known are path, {known}")
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise UsageError(f"{_MARKER}: {key}={value!r} is not of type {kind.__name__}")


def _file_name(node: pytest.Item) -> str:
    """Return a unique file name for a test, from its class, function and parameters."""
    parts = [one.name for one in node.listchain() if isinstance(one, pytest.Class)]
    name = ".".join([*parts, node.name])
    valid = re.sub(r"[^\w.,=+\[\]-]", "-", name)[:_NAME_MAX]
    if valid != name:
        import hashlib

        # Distinguish names that differ only in replaced or cut characters.
        valid += "-" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return valid
