# SPDX-License-Identifier: Apache-2.0
"""The gutter: columns to the left of each line with owner, evidence and kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri_scope.text.escape import columns, safe

from ..attribution.attributed_changes import Evidence
from ..attribution.owner import POD_SPEC, Owner, OwnerKind
from .owned_lines import MARKS, UNMET

LETTERS = {
    Evidence.TAP: "T",
    Evidence.REPLAY: "R",
    Evidence.VALIDATOR: "V",
    Evidence.PROBES: "P",
    Evidence.EVENTS: "E",
    Evidence.CRI: "C",
    Evidence.REQUEST: "Q",
}
_SHORT_MEANINGS = {
    Evidence.TAP: "plugin's reply",
    Evidence.REPLAY: "plugin's reply in a replay",
    Evidence.VALIDATOR: "runtime's list of owners",
    Evidence.PROBES: "two connections differ",
    Evidence.EVENTS: "seen in a later event",
    Evidence.CRI: "spec that was actually used",
    Evidence.REQUEST: "runtime's request",
}
_MARK_MEANINGS = {
    **{mark: kind for kind, mark in MARKS.items()},
    UNMET: "requested but not applied",
}
_OWNER_WIDTH_MAX = 40
"""Maximum width of an owner in output without a line width, in columns."""


def short(owner: Owner) -> str:
    """Return a short name of an owner; not escaped."""
    if not owner.or_runtime:
        return str(owner)
    who = "CRI request" if owner.who is OwnerKind.REQUEST else owner.index or str(owner.who)
    return f"{who} or {POD_SPEC if owner.or_spec else 'runtime'}"


class Gutter:
    """Gutter that is as wide as its content needs, within the line's ``width`` (None: no limit)."""

    def __init__(
        self, found: Iterable[tuple[Owner, Sequence[Evidence]]], width: int | None
    ) -> None:
        self._owner_width_max = _OWNER_WIDTH_MAX if width is None else max(7, width * 3 // 10)
        self._owners: dict[Owner, None] = {}
        self._evidence: dict[Evidence, None] = {}
        self._marks: set[str] = set()
        """Marks of the cells so far."""
        letters = 0
        for owner, evidence in found:
            self._owners[owner] = None
            self._evidence.update(dict.fromkeys(evidence))
            letters = max(letters, len(evidence))
        self._letters = letters
        widths = [columns(safe(short(owner))) for owner in self._owners]
        self._owner_width = min(self._owner_width_max, max(widths, default=0))
        self.width = self._owner_width + 1 + (letters + 1 if letters else 0) + 2
        """Width in columns, including the bar."""

    def cell(self, owner: Owner | None, evidence: Sequence[Evidence], mark: str) -> str:
        """Return the gutter of one line."""
        self._marks.add(mark)
        name = "" if owner is None else safe(short(owner), self._owner_width)
        padding = " " * (self._owner_width - columns(name))
        letters = "".join(LETTERS[one] for one in evidence)
        evidence_cell = f"{letters:<{self._letters}} " if self._letters else ""
        return f"{name}{padding} {evidence_cell}{mark}│"

    def legend(self) -> list[str]:
        """Return the explanations of the owners and signs in use, short enough to precede them.

        Not escaped. Call it after `cell` was called for all lines.
        """
        items: list[str] = []
        if example := next(filter(_is_range, self._owners), None):
            indices = "this index" if example.first == example.last else "one of these indices"
            items.append(f"one of {example.index}: a plugin with {indices}")
        if any(owner.who is OwnerKind.ONE_OF and owner.plugins for owner in self._owners):
            items.append("one of …: one or more of these plugins")
        items += (f"{one} {what}" for one, what in _MARK_MEANINGS.items() if one in self._marks)
        items += (
            f"{LETTERS[one]}: {meaning}"
            for one, meaning in _SHORT_MEANINGS.items()
            if one in self._evidence
        )
        if any(owner.who is OwnerKind.SPEC or owner.or_spec for owner in self._owners):
            items.append(f"{POD_SPEC}: no plugin")
        if any(owner.or_runtime and not owner.or_spec for owner in self._owners):
            items.append("or runtime: the runtime itself may have made the change")
        if any(owner.who is OwnerKind.UNKNOWN for owner in self._owners):
            items.append("unknown: not observed, or older than the recording")
        if any(owner.who is OwnerKind.REQUEST for owner in self._owners):
            items.append("CRI request: by a CRI client, usually the kubelet")
        ties = sorted({index for owner in self._owners for index in owner.ties})
        if ties:
            items.append(
                f"a second plugin at {' or '.join(ties)}, if any, may be the owner instead"
            )
        items += (
            f"{safe(short(owner), self._owner_width_max)}: {owner}" for owner in self._truncated()
        )
        return items

    def _truncated(self) -> list[Owner]:
        """Return the owners whose names are truncated."""
        return [owner for owner in self._owners if columns(safe(short(owner))) > self._owner_width]


def _is_range(owner: Owner) -> bool:
    return owner.who is OwnerKind.ONE_OF and not owner.plugins and bool(owner.index)
