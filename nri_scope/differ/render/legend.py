# SPDX-License-Identifier: Apache-2.0
"""What the words mean that a renderer used."""

from __future__ import annotations

from collections.abc import Iterable

from ..attribution.model import Evidence, RoundDiff
from ..attribution.owner import Owner, Who


class Legend:
    """Remembers what needs an explanation, and explains it once."""

    def __init__(self) -> None:
        self._range = ""
        self._later = False
        """Whether nothing lies behind that range."""
        self._choice = ""
        self._ties: set[str] = set()
        self._evidence: set[Evidence] = set()

    def notice(self, diff: RoundDiff) -> None:
        """Look at what is shown."""
        for step in diff.steps:
            self.see(step.owner, step.evidence)
            for other in step.disputed:
                self.see(other.owner, (other.evidence,))
        for one in diff.asked:
            self.see(one.owner, (one.evidence,))

    def see(self, who: Owner, evidence: Iterable[Evidence]) -> None:
        """Look at one owner, and how it is known."""
        self._evidence.update(evidence)
        self._ties.update(who.ties)
        if who.who is not Who.ONE_OF:
            return
        if who.plugins:
            self._choice = self._choice or str(who)
        else:
            # One between two connections explains best; others come from later events.
            if not self._range or (self._later and not who.or_runtime):
                self._range, self._later = f"one of {who.index}", who.or_runtime

    def lines(self) -> list[str]:
        """Sentences; [] where nothing needs one."""
        found: list[str] = []
        if self._range:
            what = "with such an index" if self._later else "between two connections that we saw"
            found.append(f"{self._range}: a plugin {what}; nothing tells which")
        if self._choice:
            found.append(f"{self._choice}: any one of these or several; nothing tells which")
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
