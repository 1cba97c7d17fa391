# SPDX-License-Identifier: Apache-2.0
"""Result of a replay in a test: assertions, goldens, and the report of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

from nri_scope.errors import NriScopeError, UsageError, did_you_mean, reason_of
from nri_scope.nri.merging import Dropped
from nri_scope.process.private_folders import make_private_folder
from nri_scope.text.escape import safe

from ..golden import Golden, lines
from ..golden.golden import HEAD
from ..replies import Reply
from ..report import ResultFormatter
from ..result import ContainerResult, PlayedEvent, PluginResult, PrintedLine, Replayed
from .replay_run import HandlerError

CHECK, UPDATE, NONE = "check", "update", "none"
"""Modes: compare with goldens, write them, or ignore them."""

_HEAD = HEAD.replace("nri-scope replay --update-golden", "pytest --nri-golden=update")


class Goldens:
    """Goldens of one test. ``default``: its own golden; other paths are relative to ``folder``."""

    def __init__(self, folder: Path, default: Path, mode: str = CHECK) -> None:
        self._folder = folder
        self._default = default
        self._mode = mode
        self._updated: set[Path] = set()
        self.written: list[Path] = []
        """Paths of the goldens that were written."""

    def check_or_update(self, replayed: Replayed, file: str | Path = "") -> str:
        """Return the mismatches with the golden as lines; "" if there are none.

        In update mode, write the golden instead. Raises `UsageError` if it is missing or invalid.
        """
        if self._mode == NONE:
            return ""
        path = self._folder / file if str(file) else self._default
        # A second result of the test must not overwrite the first, so it is compared with it.
        if self._mode == UPDATE and path not in self._updated:
            self._update(replayed, path)
            return ""
        golden = Golden.load(_relative(path))
        golden.check_origin(replayed.origin)
        mismatches = golden.compare(replayed.replies(), replayed.name_of)
        if not mismatches:
            return ""
        if path in self._updated:
            hint = (
                "this test already wrote another result to this golden; use a separate golden for "
                "each result: assert_golden(FILE)"
            )
        else:
            hint = "if the new replies are correct, write them with --nri-golden=update"
        return "\n".join([*lines(mismatches, _relative(path)), hint])

    def _update(self, replayed: Replayed, path: Path) -> None:
        origin = replayed.origin
        if path.exists():
            old = Golden.load(_relative(path))
        else:
            old = Golden(origin, {}, head=_HEAD)
        new = old.updated(replayed.replies(), origin, replayed.name_of)
        if not path.exists() or path.read_bytes() != new.text.encode():
            try:
                make_private_folder(path.parent)
            except OSError as error:
                raise UsageError(
                    f"golden {safe(str(path))}: cannot create its folder: {reason_of(error)}"
                ) from error
            new.save(path)
            self.written.append(path)
        self._updated.add(path)


def _relative(path: Path) -> str:
    """Return the path, relative to the current folder if it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


_ARGUMENTS = {
    "--update-golden": "--nri-golden=update",
    "--profile NAME+sync": "ideal=True",
    "--profile verbatim": "effects=False",
    "--external": "external=True",
    "--profile ": "profile=",
    "--profile": "profile=…",
    "--session": "session=…",
    "--fault ": "fault ",
}


def problem(error: NriScopeError) -> str:
    """Return the error as one line with its hint, safe for a terminal."""
    text = str(error)
    for option, argument in _ARGUMENTS.items():
        text = text.replace(option, argument)
    return safe(text)


_LISTED = 50
"""Maximum number of failures or containers listed in a failed assertion."""


class Result:
    """A completed replay."""

    def __init__(
        self, replayed: Replayed, goldens: Goldens, handler_errors: Sequence[HandlerError] = ()
    ) -> None:
        self.replayed = replayed
        """The complete result."""
        self.handler_errors = tuple(handler_errors)
        """Exceptions of handlers in this process."""
        self._goldens = goldens

    def __repr__(self) -> str:
        plugins = ", ".join(plugin.plugin for plugin in self.plugins) or "no plugin"
        source = f"{self.replayed.source}, as {self.replayed.profile}"
        return f"<replay of {source} to {plugins}: {len(self.replies)} replies>"

    # -- events and results -------------------------------------------------------------------

    @property
    def events(self) -> Sequence[PlayedEvent]:
        """Every event with its replies, changes and output, in order."""
        return tuple(self.replayed.events)

    @property
    def replies(self) -> Sequence[Reply]:
        """Every reply of every plugin, in order."""
        return tuple(self.replayed.replies())

    @property
    def containers(self) -> Mapping[str, ContainerResult]:
        """Containers by ``namespace/pod/container``, in the order of their first appearance."""
        return self.replayed.containers

    @property
    def plugins(self) -> Sequence[PluginResult]:
        """The result of each plugin, by index."""
        return tuple(self.replayed.plugins)

    @property
    def conflicts(self) -> Sequence[str]:
        """The runtime's error for each conflict."""
        return tuple(self.replayed.conflicts)

    @property
    def dropped(self) -> Sequence[Dropped]:
        """The requests of plugins that this runtime drops without an error."""
        return tuple(dropped for event in self.replayed.events for dropped in event.dropped)

    @property
    def output(self) -> Sequence[PrintedLine]:
        """The output of launched plugins."""
        return tuple(line for event in self.replayed.events for line in event.output)

    def container(self, name: str) -> ContainerResult:
        """Return a container by ``namespace/pod/container``; fail the test if there is none."""
        __tracebackhide__ = True
        result = self.containers.get(name)
        if result is None:
            _no_container(name, self.containers)
        return result

    # -- assertions ---------------------------------------------------------------------------

    @property
    def failures(self) -> Sequence[str]:
        """Errors, late replies, crashes and conflicts, one line each."""
        return tuple(safe(line) for line in self.replayed.failures())

    def assert_ok(self) -> None:
        """Assert that no reply is an error, late, or rejected, and that no plugin crashed."""
        __tracebackhide__ = True
        failures = self.failures
        if not failures:
            return
        listed = [*failures[:_LISTED]]
        if len(failures) > _LISTED:
            listed.append(f"… and {len(failures) - _LISTED} more")
        text = "the replay has failures:\n" + "\n".join(f"  {line}" for line in listed)
        cause = self.handler_errors[0].error if self.handler_errors else None
        raise AssertionError(text) from cause

    def assert_golden(self, file: str | Path = "") -> None:
        """Assert that the replies match the test's golden.

        The golden is ``goldens/TEST_FILE/TEST.yaml`` in the folder of the test's file, or ``file``,
        relative to that folder.
        """
        __tracebackhide__ = True
        try:
            text = self._goldens.check_or_update(self.replayed, file)
        except UsageError as error:
            text = problem(error)
        if text:
            raise AssertionError(text)


def _no_container(name: str, containers: Mapping[str, object]) -> NoReturn:
    __tracebackhide__ = True
    names = list(containers)[:_LISTED]
    hint = f"known are {', '.join(names)}" if names else "it has no containers"
    hint = did_you_mean(name, containers) or hint
    raise AssertionError(safe(f"no container {name!r} in this replay; {hint}"))


_EVENT_LINES = 60
"""Maximum number of lines of events; the first ones are the most informative."""
_CONTAINER_LINES = 60
_TRACEBACK_LINES = 40


def failure_report(result: Result) -> Iterator[str]:
    """Yield lines, safe for a terminal: notable events, the first handler's traceback, changes to
    containers, and the summary.
    """
    replayed = result.replayed
    report = ResultFormatter(chain=len(replayed.plugins) > 1)
    yield safe(f"{replayed.source}, as profile {replayed.profile}")
    lines = (
        line for event in replayed.events if _is_notable(event) for line in report.event(event)
    )
    yield from _first(lines, _EVENT_LINES)
    for error in result.handler_errors[:1]:
        yield ""
        yield safe(error.where)
        yield from (f"  {safe(line)}" for line in _first(error.lines(), _TRACEBACK_LINES))
    yield from _first(report.containers(replayed), _CONTAINER_LINES)
    yield from report.summary(replayed)


def _is_notable(event: PlayedEvent) -> bool:
    return event.is_remarkable or bool(event.note or event.output)


def _first(lines: Iterable[str], most: int) -> Iterator[str]:
    lines = iter(lines)
    yield from islice(lines, most)
    left = sum(1 for _ in lines)
    if left:
        yield f"… and {left} more lines"
