# SPDX-License-Identifier: Apache-2.0
"""The gutter: columns to the left of each line with owner, evidence and kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri_scope.text.escape import columns, safe

from ..attribution.attributed_changes import Evidence
from ..attribution.owner import POD_SPEC, POD_SPEC_MEANING, Owner, OwnerKind

LETTERS = {
    Evidence.TAP: "T",
    Evidence.REPLAY: "R",
    Evidence.VALIDATOR: "V",
    Evidence.PROBES: "P",
    Evidence.EVENTS: "E",
    Evidence.CRI: "C",
    Evidence.REQUEST: "Q",
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
        name = "" if owner is None else safe(short(owner), self._owner_width)
        padding = " " * (self._owner_width - columns(name))
        letters = "".join(LETTERS[one] for one in evidence)
        evidence_cell = f"{letters:<{self._letters}} " if self._letters else ""
        return f"{name}{padding} {evidence_cell}{mark}│"

    def legend(self) -> list[str]:
        """Return the explanations of the owners and letters in use; [] for none. Not escaped."""
        lines: list[str] = []
        ranges = [owner for owner in self._owners if _is_range(owner)]
        if ranges:
            # Prefer a range between two connections as the example to one from later events.
            best = min(ranges, key=lambda owner: owner.or_runtime)
            where = "" if best.or_runtime else ", between two observed connections"
            indices = "this index" if best.first == best.last else "one of these indices"
            lines.append(
                f"one of {best.index}: a plugin with {indices}{where}; which one is unknown"
            )
        lines += (
            f"{safe(short(owner), self._owner_width_max)}: {owner}" for owner in self._truncated()
        )
        if any(owner.who is OwnerKind.ONE_OF and owner.plugins for owner in self._owners):
            lines.append("one of …: one or more of these plugins; which is unknown")
        ties = sorted({index for owner in self._owners for index in owner.ties})
        if ties:
            lines.append(
                f"if there is another plugin at {' or '.join(ties)}, it may have made the change: "
                "plugins with equal indices have no defined order"
            )
        if any(owner.who is OwnerKind.SPEC or owner.or_spec for owner in self._owners):
            lines.append(f"{POD_SPEC}: {POD_SPEC_MEANING}")
        if any(owner.or_runtime and not owner.or_spec for owner in self._owners):
            lines.append("or runtime: the runtime itself may have made the change")
        if any(owner.who is OwnerKind.UNKNOWN for owner in self._owners):
            lines.append("unknown: not observed, or older than the recording")
        if any(owner.who is OwnerKind.REQUEST for owner in self._owners):
            lines.append(
                "CRI request: the change was requested by a CRI client, usually the kubelet"
            )
        lines += (
            f"{LETTERS[one]}: {one.meaning} ({one})" for one in Evidence if one in self._evidence
        )
        return lines

    def _truncated(self) -> list[Owner]:
        """Return the owners whose names are truncated."""
        return [owner for owner in self._owners if columns(safe(short(owner))) > self._owner_width]


def _is_range(owner: Owner) -> bool:
    return owner.who is OwnerKind.ONE_OF and not owner.plugins and bool(owner.index)
