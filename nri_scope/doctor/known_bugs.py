# SPDX-License-Identifier: Apache-2.0
"""Known bugs of runtimes and of NRI, as data: known_bugs.toml.

A row names the finding of ``report --diagnose`` that shows its condition; it detects nothing by
itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from nri_scope.nri.plain import Plain
from nri_scope.nri.versions import NriVersion, infer, runtime_title, sort_key

TABLE = Path(__file__).with_name("known_bugs.toml")


class Certainty(StrEnum):
    """How much a finding that a row matches says about the bug."""

    EXACT = "this is"
    """The finding is the bug: an error text, or a rule of the runtime, that nothing else has."""
    POSSIBLE = "this may be"
    """The finding is its condition or its consequence, and can have another cause."""


@dataclass(frozen=True, slots=True)
class KnownBug:
    """One bug, or an intended change that breaks plugins."""

    name: str
    """The issue, pull request or commit, as its project writes it. Unique."""
    consequence: str
    """What plugins meet, as a clause without a full stop."""
    runtimes: Sequence[str]
    """Titles of the affected runtimes."""
    ranges: Sequence[tuple[str, str]]
    """First affected version, and the first one without the bug or "". Empty for all versions."""
    finding: str
    """Value of the `FindingKind`; "" if none shows it."""
    text: str
    """Pattern of words in the finding, in an error, or in the reason for the connection's end."""
    certainty: Certainty
    url: str = ""
    """Source; "" if there is no public one."""
    event: str = ""
    """Event of the finding; "" for any."""
    of_nri: bool = False
    """Whether `ranges` are versions of NRI, not of the runtime."""
    is_intended: bool = False
    is_named_by_error: bool = False
    """Whether the error occurs in affected versions only, so that the runtime may be unknown."""
    is_listed: bool = True
    """Whether `doctor` lists it: not if it has a check of its own, or if all runtimes have it."""
    advice: str = ""
    """What to do on an affected node, if plugins that work elsewhere can break containers there."""

    @property
    def fixed_in(self) -> list[str]:
        """The first versions without the bug, with the project's name."""
        project = "NRI" if self.of_nri else " and ".join(self.runtimes)
        return [f"{project} {end.partition('-')[0]}" for _, end in self.ranges if end]

    @property
    def reference(self) -> str:
        """Its name, the versions without it, and its source."""
        fix = "intended" if self.is_intended else "no fixed version is known"
        fix = f"fixed in {' and '.join(self.fixed_in)}" if self.fixed_in else fix
        return ", ".join(filter(None, (self.name, fix, self.url)))

    @property
    def sentence(self) -> str:
        """What a finding that this row matches says about the bug."""
        return f"Known: {self.consequence}; {self.certainty} {self.reference}"

    def affects(self, name: str, version: str, nri_version: str) -> bool:
        """Return whether a runtime has the bug, by its name and version in Configure ("": unknown).

        ``nri_version``: "" to infer it.
        """
        if not name:
            return self.is_named_by_error
        key = sort_key(version)
        if self.of_nri:
            nri = NriVersion.parse(nri_version) or infer(name, version)
            key = None if nri is None else nri.key
        in_range = not self.ranges or any(
            key is not None
            and (start := sort_key(since)) is not None
            and start <= key
            and ((end := sort_key(before)) is None or key < end)
            for since, before in self.ranges
        )
        return in_range and runtime_title(name) in self.runtimes

    def is_shown_by(self, finding: str, event: str, text: str) -> bool:
        """Return whether a finding of this kind, with this event and these texts, shows it."""
        has_event = event == self.event or not self.event
        return finding == self.finding and has_event and bool(re.search(self.text, text))

    def record(self) -> dict[str, Plain]:
        """Return the bug of a finding as plain values for JSON."""
        return {
            "name": self.name,
            "url": self.url,
            "certainty": self.certainty.name.lower(),
            "consequence": self.consequence,
            "fixed_in": [*self.fixed_in],
        }


@cache
def known_bugs() -> dict[str, KnownBug]:
    """Return all rows of the table, by name."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["bug"]
    bugs = (KnownBug(**row | {"certainty": Certainty[row["certainty"]]}) for row in rows)
    return {bug.name: bug for bug in bugs}
