# SPDX-License-Identifier: Apache-2.0
"""Checks that fail in a replay, in a form that identifies the same failure in another replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from nri_scope.runtime import end_signature, without_numbers

from ..playback import ReplayListener
from ..replies import Reply, Verdict
from ..result import FAILURES_KEPT, PlayedEvent, Replayed

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

    def event(self, played: PlayedEvent) -> None:
        where = f"{played.event} {played.subject}".strip()
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

    def checks(self, replayed: Replayed) -> list[Check]:
        """Return all failures in order of occurrence, once the replay is over."""
        for text in replayed.tally.failures:
            if text not in self._texts:
                self._add(Check("failure", signature=without_numbers(text), text=text))
        for check in plugin_checks(replayed):
            self._add(check)
        return list(self._checks)

    def _of_reply(self, reply: Reply, text: str) -> Check:
        # The text of a late reply may vary.
        late = reply.verdict is Verdict.LATE
        signature = crash_of(reply) or ("" if late else without_numbers(reply.problem))
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


def crash_of(reply: Reply) -> str:
    """Return the signature of the crash that prevented this reply; "" if there was none."""
    return end_signature(reply.problem) if reply.verdict is Verdict.CRASH else ""


def plugin_checks(replayed: Replayed) -> list[Check]:
    """Return failures of plugins between events: disconnects, and processes left behind."""
    checks: list[Check] = []
    for plugin in replayed.plugins:
        name = plugin.plugin
        if plugin.deserted:
            text = f"{name}: {plugin.deserted}"
            signature = end_signature(plugin.deserted) or without_numbers(plugin.deserted)
            checks.append(Check("deserted", name, signature=signature, text=text))
        for process in plugin.left_behind:
            text = f"{name} left a process behind: {process}"
            signature = without_numbers(process)
            checks.append(Check("left behind", name, signature=signature, text=text))
    return checks
