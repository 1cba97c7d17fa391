# SPDX-License-Identifier: Apache-2.0
"""The legend: explanations of the words that a renderer used."""

from __future__ import annotations

from collections.abc import Iterable

from ..attribution.attributed_changes import Evidence, RoundDiff
from ..attribution.owner import Owner, OwnerKind


class Legend:
    """Collects the words that need an explanation, and explains each once."""

    def __init__(self) -> None:
        self._range = ""
        self._later = False
        """Whether that range is known from later events, not from two connections."""
        self._choice = ""
        self._ties: set[str] = set()
        self._evidence: set[Evidence] = set()

    def notice(self, diff: RoundDiff) -> None:
        """Note the words that a round uses."""
        for step in diff.steps:
            self.see(step.owner, step.evidence)
            for other in step.disputed:
                self.see(other.owner, (other.evidence,))
        for one in diff.asked:
            self.see(one.owner, (one.evidence,))

    def see(self, who: Owner, evidence: Iterable[Evidence]) -> None:
        """Note an owner and its evidence."""
        self._evidence.update(evidence)
        self._ties.update(who.ties)
        if who.who is not OwnerKind.ONE_OF:
            return
        if who.plugins:
            self._choice = self._choice or str(who)
        else:
            # An owner between two connections is the best example; others come from later events.
            if not self._range or (self._later and not who.or_runtime):
                self._range, self._later = f"one of {who.index}", who.or_runtime

    def lines(self) -> list[str]:
        """Return the explanations; [] for none."""
        found: list[str] = []
        if self._range:
            what = "with such an index" if self._later else "between two connections that we saw"
            found.append(f"{self._range}: a plugin {what}; nothing shows which")
        if self._choice:
            found.append(f"{self._choice}: any one of these or several; nothing shows which")
        if self._ties:
            indices = " or ".join(sorted(self._ties))
            found.append(
                f"another plugin at {indices} may have done it instead, if there is one: "
                "equal indices have no order"
            )
        if self._evidence:
            known = [f"{one}: {one.meaning}" for one in Evidence if one in self._evidence]
            found.append(f"evidence: {'; '.join(known)}")
        return found
