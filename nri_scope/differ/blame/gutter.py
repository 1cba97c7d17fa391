# SPDX-License-Identifier: Apache-2.0
"""The columns at the left of each line: owner, evidence and kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri_scope.text.escape import columns, safe

from ..attribution.attributed_changes import Evidence
from ..attribution.owner import Owner, OwnerKind

LETTERS = {
    Evidence.TAP: "T",
    Evidence.REPLAY: "R",
    Evidence.VALIDATOR: "V",
    Evidence.PROBES: "P",
    Evidence.EVENTS: "E",
    Evidence.CRI: "C",
    Evidence.REQUEST: "Q",
}
_WIDEST = 40
"""Columns for an owner if nothing else limits them."""


def short(owner: Owner) -> str:
    """Return an owner in few columns; not escaped."""
    if not owner.or_runtime:
        return str(owner)
    who = "CRI request" if owner.who is OwnerKind.REQUEST else owner.index or str(owner.who)
    return f"{who} or runtime"


class Gutter:
    """A gutter as wide as its content. ``width``: the whole line's; None for no limit."""

    def __init__(
        self, found: Iterable[tuple[Owner, Sequence[Evidence]]], width: int | None
    ) -> None:
        self._most = _WIDEST if width is None else max(7, width * 3 // 10)
        self._owners: dict[Owner, None] = {}
        self._evidence: dict[Evidence, None] = {}
        letters = 0
        for owner, evidence in found:
            self._owners[owner] = None
            self._evidence.update(dict.fromkeys(evidence))
            letters = max(letters, len(evidence))
        self._letters = letters
        widths = [columns(safe(short(owner))) for owner in self._owners]
        self._owner = min(self._most, max(widths, default=0))
        self.width = self._owner + 1 + (letters + 1 if letters else 0) + 2
        """Width in columns, with the bar."""

    def cell(self, owner: Owner | None, evidence: Sequence[Evidence], mark: str) -> str:
        """Return the gutter of one line."""
        name = "" if owner is None else safe(short(owner), self._owner)
        padding = " " * (self._owner - columns(name))
        letters = "".join(LETTERS[one] for one in evidence)
        how = f"{letters:<{self._letters}} " if self._letters else ""
        return f"{name}{padding} {how}{mark}│"

    def legend(self) -> list[str]:
        """Return the meanings of its words and letters; [] for none. Not escaped."""
        lines: list[str] = []
        ranges = [owner for owner in self._owners if _is_range(owner)]
        if ranges:
            # An owner between two connections is the best example; others come from later events.
            best = min(ranges, key=lambda owner: owner.or_runtime)
            where = "" if best.or_runtime else ", between two connections that saw it"
            indices = "this index" if best.first == best.last else "one of these indices"
            lines.append(
                f"one of {best.index}: a plugin with {indices}{where}; nothing shows which"
            )
        lines += (f"{safe(short(owner), self._most)}: {owner}" for owner in self._cut())
        if any(owner.who is OwnerKind.ONE_OF and owner.plugins for owner in self._owners):
            lines.append("one of …: any one of these plugins, or several; nothing shows which")
        ties = sorted({index for owner in self._owners for index in owner.ties})
        if ties:
            lines.append(
                f"another plugin at {' or '.join(ties)} may have done it instead, if there is one: "
                "equal indices have no order"
            )
        if any(owner.or_runtime for owner in self._owners):
            lines.append("or runtime: it may have been no plugin, but the runtime itself")
        if any(owner.who is OwnerKind.UNKNOWN for owner in self._owners):
            lines.append("unknown: it was not seen, or was there before the recording began")
        if any(owner.who is OwnerKind.REQUEST for owner in self._owners):
            lines.append(
                "CRI request: the client that asked the runtime for it, usually the kubelet"
            )
        lines += (
            f"{LETTERS[one]}: {one.meaning} ({one})" for one in Evidence if one in self._evidence
        )
        return lines

    def _cut(self) -> list[Owner]:
        """Return the owners whose names do not fit."""
        return [owner for owner in self._owners if columns(safe(short(owner))) > self._owner]


def _is_range(owner: Owner) -> bool:
    return owner.who is OwnerKind.ONE_OF and not owner.plugins and bool(owner.index)
