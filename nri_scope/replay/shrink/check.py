# SPDX-License-Identifier: Apache-2.0
"""What fails in a replay, one check at a time, so that the same failure is known again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nri_scope.replay.model import Reply, Verdict
from nri_scope.replay.result import FAILURES_KEPT, PlayedEvent, Replayed
from nri_scope.replay.story import Audience

KEPT = 1_000
"""Failing checks that are told apart. One of them is looked for, the rest is only mentioned."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\d+")


@dataclass(frozen=True, slots=True)
class Check:
    """A failing check. Two are equal if they are the same one in two replays."""

    kind: str
    """A verdict, or what else can be wrong, in a word or two."""
    plugin: str = ""
    """``NN-name``; "" where it is nobody's."""
    event: str = ""
    subject: str = ""
    """``namespace/pod`` or ``namespace/pod/container``; "" where it is about neither."""
    says: str = ""
    """In which words it fails, without the numbers in them."""
    event_id: int = field(default=0, compare=False)
    """The recorded event at which it fails; 0 where it fails at none."""
    text: str = field(default="", compare=False)
    """For people, in one line."""


class Failing(Audience):
    """Hears a replay, and keeps what fails. For one replay."""

    def __init__(self) -> None:
        self._checks: dict[Check, None] = {}
        self._texts: set[str] = set()

    def event(self, played: PlayedEvent) -> None:
        where = f"{played.event} {played.subject}".strip()
        for reply in played.replies:
            if reply.verdict is Verdict.OK:
                continue
            text = f"{where}: {reply.plugin}: {reply.verdict}: {reply.problem}"
            if len(self._texts) < FAILURES_KEPT:
                # The tally has them too, beside others.
                self._texts.add(text)
            self._add(_of_reply(reply, text))

    def checks(self, replayed: Replayed) -> list[Check]:
        """All of them, as they came, once the replay is over."""
        for text in replayed.tally.failures:
            if text not in self._texts:
                self._add(Check("failure", says=alike(text), text=text))
        for check in of_plugins(replayed):
            self._add(check)
        return list(self._checks)

    def _add(self, check: Check) -> None:
        if len(self._checks) < KEPT:
            self._checks.setdefault(check)


def of_plugins(replayed: Replayed) -> list[Check]:
    """What is wrong with how plugins fared."""
    found: list[Check] = []
    for plugin in replayed.plugins:
        name = plugin.plugin
        if plugin.deserted:
            text = f"{name}: {plugin.deserted}"
            found.append(Check("deserted", name, says=alike(plugin.deserted), text=text))
        for process in plugin.left_behind:
            text = f"{name} left a process behind: {process}"
            found.append(Check("left behind", name, says=alike(process), text=text))
    return found


def alike(text: str) -> str:
    """``text`` without what is another one in each run: addresses, ids and other numbers."""
    return _ADDRESS.sub("#", text)


def _of_reply(reply: Reply, text: str) -> Check:
    # How late it was, or how the connection ended, may be told otherwise each time.
    timing = reply.verdict in (Verdict.LATE, Verdict.CRASH)
    return Check(
        str(reply.verdict),
        reply.plugin,
        reply.event,
        reply.subject,
        "" if timing else alike(reply.problem),
        reply.event_id,
        text=text,
    )
