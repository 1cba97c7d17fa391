# SPDX-License-Identifier: Apache-2.0
"""The legend: explanations of the owners and evidence that a renderer printed."""

from __future__ import annotations

from collections.abc import Iterable

from ..attribution.attributed_changes import ChangeStep, Evidence, RoundDiff
from ..attribution.owner import POD_SPEC, POD_SPEC_MEANING, Owner, OwnerKind
from . import wording


class Legend:
    """Collector of owners and evidence, which explains each once."""

    def __init__(self) -> None:
        self._range = ""
        self._later = False
        """Whether the evidence for that range is later events, not two connections."""
        self._choice = ""
        self._spec = False
        self._ties: set[str] = set()
        self._evidence: set[Evidence] = set()
        self._glyphs: set[str] = set()

    def add_round(self, diff: RoundDiff, *, live: bool = False) -> None:
        """Add the owners, evidence and outcomes of a round; ``live``: of settled requests, too."""
        for step in (*diff.steps, *(diff.settled if live else ())):
            self.add_step(step)

    def add_step(self, step: ChangeStep) -> None:
        """Add the owners, evidence and outcome of a request."""
        self.add(step.owner, step.evidence)
        for other in step.disputed:
            self.add(other.owner, (other.evidence,))
        self._glyphs.add(wording.glyph(step))

    def add(self, who: Owner, evidence: Iterable[Evidence]) -> None:
        """Add an owner and its evidence."""
        self._evidence.update(evidence)
        self._ties.update(who.ties)
        self._spec = self._spec or who.who is OwnerKind.SPEC or who.or_spec
        if who.who is not OwnerKind.ONE_OF:
            return
        if who.plugins:
            self._choice = self._choice or str(who)
        elif who.index and (not self._range or (self._later and not who.or_runtime)):
            # Prefer a range between two connections as the example to one from later events.
            self._range, self._later = f"one of {who.index}", who.or_runtime

    def lines(self) -> list[str]:
        """Return the explanations; [] for none."""
        found: list[str] = []
        if self._range:
            where = (
                "with one of these indices" if self._later else "between two observed connections"
            )
            found.append(f"{self._range}: a plugin {where}; which one is unknown")
        if self._choice:
            found.append(f"{self._choice}: one or more of these plugins; which is unknown")
        if self._spec:
            found.append(f"{POD_SPEC}: {POD_SPEC_MEANING}")
        if self._ties:
            indices = " or ".join(sorted(self._ties))
            found.append(
                f"if there is another plugin at {indices}, it may have made the change: "
                "plugins with equal indices have no defined order"
            )
        found += (f"{one} {what}" for one, what in wording.MEANINGS.items() if one in self._glyphs)
        if "?" in self._glyphs and Evidence.CRI not in self._evidence:
            found.append("a recorder with --cri asks the runtime what took effect")
        if self._evidence:
            known = [f"{one}: {one.meaning}" for one in Evidence if one in self._evidence]
            found.append(f"evidence: {'; '.join(known)}")
        return found
