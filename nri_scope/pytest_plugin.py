# SPDX-License-Identifier: Apache-2.0
"""For pytest: the fixture `nri_replay` and the marker `nri_recording`.

Every pytest run of an environment with nri-scope in it loads this module. So it imports nothing of
weight, and above all not the rest of nri-scope, before a test replays something.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from nri_scope.errors import NriScopeError, UsageError

if TYPE_CHECKING:
    from nri_scope.replay.script import ReplaySelection
    from nri_scope.replay.testing import Goldens, Result

_MARKER = "nri_recording"
_TESTING = "nri_scope.replay.testing"
_SETTINGS: dict[str, type] = {"session": int, "where": str, "only": str, "profile": str}
"""What the marker takes besides the path."""
_NAME_MAX = 100
"""Characters of a golden's name; parameters can make a test's name as long as they like."""

_REPLAY = pytest.StashKey["NriReplay"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one option."""
    parser.getgroup("nri-scope", "replays of NRI recordings").addoption(
        "--nri-golden",
        choices=("check", "update", "none"),
        default="check",
        help="Goldens of replays: compare with them (default), write them, or leave them alone.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that it is known even under --strict-markers."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(path, session=None, where='', only='', profile='recorded'): the recording that "
        "nri_replay plays, relative to the folder of the test's file or to the rootdir",
    )


@pytest.fixture
def nri_replay(request: pytest.FixtureRequest) -> Iterator[NriReplay]:
    """Replays the recording of the marker `nri_recording` to plugins, see `NriReplay`."""
    try:
        replay = NriReplay(request)
    except UsageError as error:
        problem = str(error)
    else:
        stash = request.node.stash
        stash[_REPLAY] = replay
        yield replay
        # Results are large, and nodes live as long as the whole run.
        del stash[_REPLAY]
        return
    from nri_scope.text.escape import safe

    pytest.fail(safe(problem), pytrace=False)


class NriReplay:
    """The fixture: call it with a plugin to replay the test's recording to it."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Set up the replays of a test. Raises UsageError for a test without a recording."""
        node = cast("pytest.Item", request.node)
        self._folder = node.path.parent
        self._root = request.config.rootpath
        settings = _settings(node)
        path = settings.pop("path", None)
        if path is None:
            raise UsageError(
                "nri_replay has no recording to play",
                f'mark the test with @pytest.mark.{_MARKER}("FILE")',
            )
        self._profile = str(settings.pop("profile", "recorded"))
        self._settings = settings
        self._recording = self._recording_at(os.fspath(cast("str | os.PathLike[str]", path)))
        self._usual_golden = self._folder / "goldens" / node.path.stem / f"{_file_name(node)}.yaml"
        self._mode = str(request.config.getoption("--nri-golden"))
        self._goldens: Goldens | None = None
        self._results: list[Result] = []

    def __repr__(self) -> str:
        return f"<replays of {self._recording}>"

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
    ) -> Result:
        """Replay the recording to ``plugin``, and return once all is over.

        ``plugin`` is an object with handlers (see `nri_scope.plugin.BasePlugin`), which is asked
        in this process and through a real connection; or a command, as a list, a path or a text
        in the shell's quoting, which is launched; or a mapping with several of them by their
        indices (``"10"`` or ``"10-name"``). A program with a ``/`` in its name is looked for as
        the recording is.

        ``index`` is "10" unless the command's file is called ``NN-name``; ``name`` that of the
        file or, in the usual spelling, of the object's class. ``config`` is what Configure brings,
        to all or by index. ``profile`` takes the place of the marker's; ``faults`` are written as
        for ``nri-scope replay --fault``; without ``effects`` events come as recorded, whatever
        plugins answer.

        A test that is a coroutine may call this too; its event loop stands still meanwhile.
        """
        __tracebackhide__ = True
        from nri_scope.replay.faults import parse_faults
        from nri_scope.replay.player import PlaybackOptions
        from nri_scope.replay.run import Job
        from nri_scope.replay.testing import Goldens, Result, casting_of, perform
        from nri_scope.replay.testing import problem as problem_of

        try:
            casting = casting_of(
                plugin,
                index=index,
                name=name,
                config=config,
                environment=environment,
                find=lambda file: str(self._find(file) or file),
            )
            job = Job(
                self._recording,
                casting,
                self._selection(),
                PlaybackOptions(faults=parse_faults(faults), effects=effects),
                profile or self._profile,
            )
            replayed, errors = perform(job)
        except NriScopeError as error:
            problem = problem_of(error)
        else:
            if self._goldens is None:
                self._goldens = Goldens(self._folder, self._usual_golden, self._mode)
            result = Result(replayed, self._goldens, errors)
            self._results.append(result)
            return result
        # Outside of the handler: as its context, our own frames would be shown after all.
        pytest.fail(problem)

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
        found = self._find(path)
        if found is None:
            places = dict.fromkeys([self._folder, self._root])
            where = " or ".join(str(place) for place in places)
            tried = "" if Path(path).is_absolute() else f" in {where}"
            raise UsageError(f"there is no recording {path}{tried}")
        return found

    def _find(self, path: str) -> Path | None:
        for place in (self._folder, self._root):
            if (place / path).exists():
                return place / path
        return None

    # -- after the test -----------------------------------------------------------------------

    def sections(self) -> Iterator[tuple[str, str]]:
        """Return what pytest shows below a failure: each replay of the test."""
        if not self._results:
            return
        from nri_scope.replay.testing import story

        for number, result in enumerate(self._results, 1):
            title = "nri_replay" if len(self._results) == 1 else f"nri_replay {number}"
            yield title, "\n".join(story(result))

    def take_written(self) -> list[str]:
        """Return the goldens that were written since the last call."""
        if self._goldens is None:
            return []
        written = [str(path) for path in self._goldens.written]
        self._goldens.written.clear()
        return written


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell of the replays of a test that fails, and count the goldens it wrote."""
    report = yield
    replay = item.stash.get(_REPLAY, None)
    if replay is not None:
        if report.failed:
            report.sections.extend(replay.sections())
        # An attribute of a report is what gets from pytest-xdist's workers to its controller.
        vars(report)["nri_goldens"] = replay.take_written()
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """How many goldens were written."""
    if config.getoption("--nri-golden") != "update":
        return
    reports = [report for found in terminalreporter.stats.values() for report in found]
    written = {file for report in reports for file in getattr(report, "nri_goldens", ())}
    for file in sorted(written):
        shown = os.path.relpath(file)
        terminalreporter.write_line(f"wrote golden {shown}")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain how two containers differ."""
    # A test that has a container has imported this.
    testing = sys.modules.get(_TESTING)
    return cast("list[str] | None", testing.explain(op, left, right)) if testing else None


def _settings(node: pytest.Item) -> dict[str, object]:
    """Return the markers' arguments, the nearest first, up to the first one with a path."""
    settings: dict[str, object] = {}
    for mark in node.iter_markers(_MARKER):
        own = dict(mark.kwargs)
        if len(mark.args) > 1 or (mark.args and "path" in own):
            raise UsageError(f"{_MARKER} takes one path", "give the rest by name: session=2")
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
            raise UsageError(f"{_MARKER}: path={value!r} is no path")
        return
    kind = _SETTINGS.get(key)
    if kind is None:
        known = ", ".join(_SETTINGS)
        raise UsageError(f"{_MARKER} does not take {key}", f"known are path, {known}")
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise UsageError(f"{_MARKER}: {key}={value!r} is no {kind.__name__}")


def _file_name(node: pytest.Item) -> str:
    """Return a test's own file name: class, function and parameters."""
    parts = [one.name for one in node.listchain() if isinstance(one, pytest.Class)]
    name = ".".join([*parts, node.name])
    fitting = re.sub(r"[^\w.,=+\[\]-]", "-", name)[:_NAME_MAX]
    if fitting != name:
        import hashlib

        # Two names that became alike stay two.
        fitting += "-" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return fitting
