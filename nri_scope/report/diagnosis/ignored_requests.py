# SPDX-License-Identifier: Apache-2.0
"""Detect requests of plugins that were not applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import (
    EVICTION,
    Applied,
    ChangeStep,
    PluginRequest,
    RequestFate,
    RoundDiff,
)
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.specs import label

from ..finding import Finding, FindingKind, Level, Shown
from ..limits import CASES_MAX, WORDS_MAX
from .recording_facts import Detector, RecordingFacts

_ADVICE = (
    "The container lacks this setting. Request it in a way that this runtime supports, or remove "
    "the request: `nri-scope blame FILE CONTAINER --history PATH` shows its outcome."
)
_CRI_ADVICE = (
    "Compare with the runtime's own rules for this field, and with later plugins: "
    "`nri-scope blame FILE CONTAINER --history PATH` shows all changes of this field."
)


@dataclass(slots=True)
class _Dropped:
    title: str
    detail: str
    advice: str
    shown: Shown = field(default_factory=Shown)


class Dropped(Detector):
    """Detector of requests that were not applied."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, str, str], _Dropped] = {}

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check requests, and changes that the CRI reports as not applied."""
        if not wanted or diff.failure:
            # The failure of the whole event is the only finding.
            return
        for asked in diff.asked:
            if asked.fate is RequestFate.NOT_APPLIED:
                self._asked(asked, diff.event)
        for step in diff.steps:
            if step.applied in (Applied.NO, Applied.DIFFERENTLY) and _is_plugins(step.owner):
                self._step(step)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each owner, path and reason."""
        for one in self._found.values():
            shown = one.shown
            yield shown.finding(
                FindingKind.DROPPED,
                Level.WARNING,
                one.title,
                one.detail,
                one.advice,
            )

    def _asked(self, asked: PluginRequest, event: int) -> None:
        who = wording.owner(asked.owner)
        what = (
            "an eviction"
            if asked.path == EVICTION
            else (label(asked.path) if asked.path else "an update")
        )
        self._add(
            (str(asked.owner), asked.path, asked.reason),
            f"{what}, requested by {who}, was not applied",
            f"{wording.request(asked)}.",
            _ADVICE,
            asked.container,
            event,
        )

    def _step(self, step: ChangeStep) -> None:
        who, fate = wording.owner(step.owner), wording.fate(step)
        self._add(
            (str(step.owner), step.change.path, str(step.applied)),
            f"{label(step.change.path)} of {who} was {step.applied}",
            f"{fate[:1].upper()}{fate[1:].replace('APPLIED', 'applied', 1)}, according to the CRI.",
            _CRI_ADVICE,
            step.container,
            step.event,
        )

    def _add(
        self, key: tuple[str, str, str], title: str, detail: str, advice: str, container: str,
        event: int,
    ) -> None:  # fmt: skip
        key = clipped(key[0], WORDS_MAX), clipped(key[1], WORDS_MAX), clipped(key[2], WORDS_MAX)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= CASES_MAX:
                return
            found = self._found[key] = _Dropped(
                clipped(title, WORDS_MAX), clipped(detail, WORDS_MAX), advice
            )
        found.shown.add(event, container=self._scene.name_of(container) if container else "")


def _is_plugins(owner: Owner) -> bool:
    return owner.who not in (OwnerKind.RUNTIME, OwnerKind.REQUEST)
