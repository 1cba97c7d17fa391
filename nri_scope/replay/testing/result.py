# SPDX-License-Identifier: Apache-2.0
"""Result of a replay, with assertions for tests."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.nri.merging import Dropped
from nri_scope.text.escape import safe

from ..replies import Reply
from ..result import ContainerResult, PlayedEvent, PluginResult, PrintedLine, Replayed
from .goldens import Goldens
from .replay_run import HandlerError

_ARGUMENTS = {
    "--update-golden": "--nri-golden=update",
    "--no-effects": "effects=False",
    "--ideal": "ideal=True",
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


class Timing(NamedTuple):
    """Response time of one reply."""

    plugin: str
    event: str
    subject: str
    took_ns: int
    deadline_ns: int
    """The request's deadline; 0 if there was none."""

    @property
    def share(self) -> float:
        """Share of the deadline that was used, such as 0.5; 0 without a deadline."""
        return self.took_ns / self.deadline_ns if self.deadline_ns else 0.0


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
        return tuple(one for event in self.replayed.events for one in event.dropped)

    @property
    def output(self) -> Sequence[PrintedLine]:
        """The output of launched plugins."""
        return tuple(line for event in self.replayed.events for line in event.output)

    @property
    def timings(self) -> Sequence[Timing]:
        """The response time of each reply."""
        return tuple(
            Timing(one.plugin, one.event, one.subject, one.took_ns, one.deadline_ns)
            for one in self.replayed.replies()
        )

    def container(self, name: str) -> ContainerResult:
        """Return a container by ``namespace/pod/container``; fail the test if there is none."""
        __tracebackhide__ = True
        found = self.containers.get(name)
        if found is None:
            _no_container(name, self.containers)
        return found

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
        shown = [*failures[:_LISTED]]
        if len(failures) > _LISTED:
            shown.append(f"… and {len(failures) - _LISTED} more")
        text = "the replay has failures:\n" + "\n".join(f"  {line}" for line in shown)
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
    if nearest := difflib.get_close_matches(name, containers, n=1):
        hint = f"did you mean {nearest[0]}?"
    raise AssertionError(safe(f"no container {name!r} in this replay; {hint}"))
