# SPDX-License-Identifier: Apache-2.0
"""Checks that fail in a replay, in a form that identifies the same failure in another replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nri_scope.runtime import exit_status_in

from ..progress import ReplayListener
from ..replies import Reply, Verdict
from ..result import FAILURES_KEPT, PlayedEvent, PrintedLine, Replayed
from .crash_output import CrashOutput, without_numbers

CHECKS_MAX = 1_000
"""Maximum number of failing checks stored. Only one is searched for, the others are counted."""


@dataclass(frozen=True, slots=True)
class Check:
    """Failing check. Two are equal if they are the same check in two replays."""

    kind: str
    """Verdict, or another kind of failure, in one or two words."""
    plugin: str = ""
    """``NN-name``; "" if it is not a plugin's."""
    event: str = ""
    subject: str = ""
    """``namespace/pod`` or ``namespace/pod/container``; "" if it has neither."""
    signature: str = ""
    """Text of the failure, without numbers."""
    event_id: int = field(default=0, compare=False)
    """Number of the recorded event at which it fails; 0 if none."""
    text: str = field(default="", compare=False)
    """One line for users."""


class Failing(ReplayListener):
    """Observer of one replay, which collects its failures."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        """Messages for the user."""
        self._checks: dict[Check, None] = {}
        self._texts: set[str] = set()
        self._crash_output = CrashOutput()
        self._crashes: dict[tuple[str, str, str, int], str] = {}

    def event(self, played: PlayedEvent) -> None:
        where = f"{played.event} {played.subject}".strip()
        for reply in played.replies:
            if reply.verdict is not Verdict.CRASH:
                # Earlier output is not about a crash at the plugin's end.
                self._crash_output.forget(reply.plugin)
        for line in played.output:
            self._crash_output.add(line)
        for reply in played.replies:
            if reply.verdict is Verdict.OK:
                continue
            text = f"{where}: {reply.plugin}: {reply.verdict}: {reply.problem}"
            if len(self._texts) < FAILURES_KEPT:
                # The tally contains the same texts, see `checks`.
                self._texts.add(text)
            self._add(self._of_reply(reply, text))

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def line(self, line: PrintedLine) -> None:
        self._crash_output.add(line)

    def crash_of(self, reply: Reply) -> str:
        """Return the signature of the crash that prevented this reply; "" if there was none."""
        return self._crashes.get(_key(reply), "")

    def checks(self, replayed: Replayed) -> list[Check]:
        """Return all failures in order of occurrence, once the replay is over."""
        for text in replayed.tally.failures:
            if text not in self._texts:
                self._add(Check("failure", signature=without_numbers(text), text=text))
        for check in self.of_plugins(replayed):
            self._add(check)
        return list(self._checks)

    def of_plugins(self, replayed: Replayed) -> list[Check]:
        """Return failures of plugins between events."""
        return plugin_checks(replayed, self._ended)

    def _ended(self, plugin: str, explained: str) -> str:
        """Return a plugin's exit status as text, with the signature of its crash."""
        return " ".join(
            filter(None, (exit_status_in(explained), self._crash_output.signature_of(plugin)))
        )

    def _of_reply(self, reply: Reply, text: str) -> Check:
        if reply.verdict is Verdict.CRASH:
            signature = self._ended(reply.plugin, reply.problem)
            if len(self._crashes) < CHECKS_MAX:
                self._crashes[_key(reply)] = signature
        else:
            # The text of a late reply may vary.
            signature = "" if reply.verdict is Verdict.LATE else without_numbers(reply.problem)
        return Check(
            str(reply.verdict),
            reply.plugin,
            reply.event,
            reply.subject,
            signature,
            reply.event_id,
            text=text,
        )

    def _add(self, check: Check) -> None:
        if len(self._checks) < CHECKS_MAX:
            self._checks.setdefault(check)


def plugin_checks(replayed: Replayed, ended: Callable[[str, str], str]) -> list[Check]:
    """Return failures of plugins between events: disconnects, and processes left behind.

    ``ended``: returns the signature of a plugin's end from its name and the reason.
    """
    found: list[Check] = []
    for plugin in replayed.plugins:
        name = plugin.plugin
        if plugin.deserted:
            text = f"{name}: {plugin.deserted}"
            signature = ended(name, plugin.deserted) or without_numbers(plugin.deserted)
            found.append(Check("deserted", name, signature=signature, text=text))
        for process in plugin.left_behind:
            text = f"{name} left a process behind: {process}"
            signature = without_numbers(process)
            found.append(Check("left behind", name, signature=signature, text=text))
    return found


def _key(reply: Reply) -> tuple[str, str, str, int]:
    return reply.plugin, reply.event, reply.subject, reply.event_id
