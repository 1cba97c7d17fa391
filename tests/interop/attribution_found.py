# SPDX-License-Identifier: Apache-2.0
"""The differ's results for recorded runs, by view: a selection of connections."""

from __future__ import annotations

import asyncio
import fcntl
import pickle
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from nri_scope.differ.attribution.attributed_changes import ChangeStep, OutcomeKind, RoundDiff
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.history import History
from nri_scope.differ.recording_differ import rounds
from nri_scope.recording.reading.reader import Recording
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

_T = TypeVar("_T")
_own = tempfile.TemporaryDirectory(prefix="nri-")
folder = Path(_own.name)
"""Folder for runs; conftest.py replaces it by one that all workers of a test run share."""


def is_counted(step: ChangeStep) -> bool:
    """Return whether a step leads to the container's state, unless the round failed."""
    refused = step.is_expected and step.outcome.kind is OutcomeKind.REFUSED
    return step.has_effect or refused


@dataclass
class Found:
    """The differ's results for one recording."""

    rounds: list[RoundDiff]
    histories: dict[str, History]
    steps: dict[str, list[ChangeStep]] = field(default_factory=lambda: defaultdict(list))
    """Those of which `is_counted` is true, by container id."""
    without_effect: dict[str, list[ChangeStep]] = field(default_factory=lambda: defaultdict(list))
    about: dict[tuple[str, str], RoundDiff] = field(default_factory=dict)
    """First round by event name and container."""

    @classmethod
    def of(cls, recording: Path) -> Found:
        """Run the differ on a recording."""
        with Recording.open(recording) as opened:
            differ = Differ(opened.sessions())
            found = cls(list(rounds(opened, differ=differ)), differ.histories)
        for one in found.rounds:
            found.about.setdefault((one.name, one.container), one)
            for step in one.steps:
                kept = found.steps if is_counted(step) else found.without_effect
                kept[step.container].append(step)
        return found


def _once(path: Path, make: Callable[[], _T]) -> _T:
    """Return the result of `make`, cached in a file for all processes of this test run."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            loaded: _T = pickle.loads(path.read_bytes())
            return loaded
        made = make()
        new = path.with_suffix(".new")
        new.write_bytes(pickle.dumps(made, pickle.HIGHEST_PROTOCOL))
        new.rename(path)
        return made


@cache
def run_of(release: Merger) -> Run:
    """The run of a version, cached for all its tests. Raises Unavailable."""
    build_programs(release)

    def make() -> Run:
        # A short folder: socket paths are limited to 107 bytes.
        with tempfile.TemporaryDirectory(prefix="nri-") as short:
            seen = asyncio.run(run(release, Path(short)))
            kept = folder / f"{release.name}.nriscope.db"
            shutil.copy(seen.recording, kept)
            seen.recording = kept
            return seen

    return _once(folder / f"{release.name}.run", make)


@cache
def findings_for(release: Merger, view: str) -> Found:
    """The differ's results for a view of a version's run."""
    name = f"{release.name}-{list(VIEWS).index(view)}"

    def make() -> Found:
        return Found.of(write(run_of(release), VIEWS[view], folder / f"{name}.nriscope.db"))

    return _once(folder / f"{name}.found", make)
