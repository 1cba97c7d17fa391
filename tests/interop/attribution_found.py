# SPDX-License-Identifier: Apache-2.0
"""What the differ says of the runs, seen by one choice of connections or another."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nri_scope.differ import Differ, History
from nri_scope.differ.model import Asked, RoundDiff, Step
from nri_scope.differ.reading import rounds
from nri_scope.recorder.reader import Recording
from tests.interop.attribution_run import PLUGINS, PROBES, Run, View, run, write
from tests.interop.build import Merger, build_programs

AROUND = ("10-probe", "30-probe", "50-probe")
PROBED, FEW, SINGLE = "probes", "first and last", "one connection"
VALIDATED, BOTH, REPLIES, ALL = "validator", "probes and validator", "replies", "everything"
VIEWS = {
    PROBED: View(probes=AROUND),
    FEW: View(probes=("00-probe", "99-probe")),
    SINGLE: View(probes=("00-probe",)),
    VALIDATED: View(validator=True),
    BOTH: View(probes=AROUND, validator=True),
    REPLIES: View(taps=PLUGINS),
    ALL: View(probes=PROBES, validator=True, taps=PLUGINS),
}

# For as long as the process lives; 107 bytes are all that a socket's path may have.
_folder = tempfile.TemporaryDirectory(prefix="nri-")


@dataclass
class Found:
    """All that the differ says of one recording."""

    rounds: list[RoundDiff]
    histories: dict[str, History]
    steps: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))
    """By the container's id."""
    asked: dict[str, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    about: dict[tuple[str, str], RoundDiff] = field(default_factory=dict)
    """By event and container."""

    @classmethod
    def of(cls, recording: Path) -> Found:
        """Read it."""
        with Recording.open(recording) as opened:
            differ = Differ(opened.sessions())
            found = cls(list(rounds(opened, differ=differ)), differ.histories)
        for one in found.rounds:
            found.about.setdefault((one.name, one.container), one)
            for step in one.steps:
                found.steps[step.container].append(step)
            for asked in one.asked:
                found.asked[asked.container].append(asked)
        return found


@cache
def seen_by(release: Merger) -> Run:
    """One run, for all tests of this version. Raises Unavailable."""
    build_programs(release)
    folder = Path(_folder.name) / release.name
    folder.mkdir()
    return asyncio.run(run(release, folder))


@cache
def found_in(release: Merger, view: str) -> Found:
    """What the differ makes of what this view has of it."""
    path = Path(_folder.name) / release.name / f"{view}.nriscope.db"
    return Found.of(write(seen_by(release), VIEWS[view], path))
