# SPDX-License-Identifier: Apache-2.0
"""Failures of a replay, one check at a time, in a form that identifies the same failure again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nri_scope.runtime import exit_status_in

from ..progress import Audience
from ..replies import Reply, Verdict
from ..result import FAILURES_KEPT, PlayedEvent, PrintedLine, Replayed
from .crash_output import LastWords, alike

KEPT = 1_000
"""Maximum number of failing checks kept apart. Only one is searched for, the rest mentioned."""


@dataclass(frozen=True, slots=True)
class Check:
    """A failing check. Two are equal if they are the same check in two replays."""

    kind: str
    """A verdict, or another kind of failure, in a word or two."""
    plugin: str = ""
    """``NN-name``; "" if no plugin is concerned."""
    event: str = ""
    subject: str = ""
    """``namespace/pod`` or ``namespace/pod/container``; "" if it has neither."""
    says: str = ""
    """Wording of the failure, without the numbers in it."""
    event_id: int = field(default=0, compare=False)
    """The recorded event at which it fails; 0 if none."""
    text: str = field(default="", compare=False)
    """One line for users."""


class Failing(Audience):
    """Observes one replay, and collects its failures."""

    def __init__(self) -> None:
        self._checks: dict[Check, None] = {}
        self._texts: set[str] = set()
        self._words = LastWords()
        self._crashes: dict[tuple[str, str, str, int], str] = {}

    def event(self, played: PlayedEvent) -> None:
        where = f"{played.event} {played.subject}".strip()
        for reply in played.replies:
            if reply.verdict is not Verdict.CRASH:
                # The earlier output does not belong to the plugin's end.
                self._words.forget(reply.plugin)
        for line in played.output:
            self._words.hear(line)
        for reply in played.replies:
            if reply.verdict is Verdict.OK:
                continue
            text = f"{where}: {reply.plugin}: {reply.verdict}: {reply.problem}"
            if len(self._texts) < FAILURES_KEPT:
                # The tally has them, too, among others.
                self._texts.add(text)
            self._add(self._of_reply(reply, text))

    def line(self, line: PrintedLine) -> None:
        self._words.hear(line)

    def crash_of(self, reply: Reply) -> str:
        """Return the signature of the crash that came instead of this reply; "" if none did."""
        return self._crashes.get(_key(reply), "")

    def checks(self, replayed: Replayed) -> list[Check]:
        """Return all failures in order of occurrence, once the replay is over."""
        for text in replayed.tally.failures:
            if text not in self._texts:
                self._add(Check("failure", says=alike(text), text=text))
        for check in self.of_plugins(replayed):
            self._add(check)
        return list(self._checks)

    def of_plugins(self, replayed: Replayed) -> list[Check]:
        """Return the failures of plugins as such."""
        return of_plugins(replayed, self._ended)

    def _ended(self, plugin: str, explained: str) -> str:
        """Describe how a plugin's process ended, with the signature of its crash."""
        return " ".join(filter(None, (exit_status_in(explained), self._words.of(plugin))))

    def _of_reply(self, reply: Reply, text: str) -> Check:
        if reply.verdict is Verdict.CRASH:
            says = self._ended(reply.plugin, reply.problem)
            if len(self._crashes) < KEPT:
                self._crashes[_key(reply)] = says
        else:
            # The wording of the delay may differ each time.
            says = "" if reply.verdict is Verdict.LATE else alike(reply.problem)
        return Check(
            str(reply.verdict),
            reply.plugin,
            reply.event,
            reply.subject,
            says,
            reply.event_id,
            text=text,
        )

    def _add(self, check: Check) -> None:
        if len(self._checks) < KEPT:
            self._checks.setdefault(check)


def of_plugins(replayed: Replayed, ended: Callable[[str, str], str]) -> list[Check]:
    """Return the failures of plugins as such.

    ``ended`` returns the signature of a plugin's end, given its name and the end in words.
    """
    found: list[Check] = []
    for plugin in replayed.plugins:
        name = plugin.plugin
        if plugin.deserted:
            text = f"{name}: {plugin.deserted}"
            says = ended(name, plugin.deserted) or alike(plugin.deserted)
            found.append(Check("deserted", name, says=says, text=text))
        for process in plugin.left_behind:
            text = f"{name} left a process behind: {process}"
            found.append(Check("left behind", name, says=alike(process), text=text))
    return found


def _key(reply: Reply) -> tuple[str, str, str, int]:
    return reply.plugin, reply.event, reply.subject, reply.event_id
