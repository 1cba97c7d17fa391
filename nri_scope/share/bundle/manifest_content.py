# SPDX-License-Identifier: Apache-2.0
"""The content of a bundle's manifest, read from the packed recording."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from nri_scope import __version__
from nri_scope.events import Role, Session
from nri_scope.recording.bundle.manifest import (
    README,
    RECORDING,
    Counts,
    File,
    Manifest,
    Redaction,
    Replaced,
    Runtime,
    to_bytes,
)
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import rfc3339

from ..extract import Extracted, Selection
from ..redaction import Redactor
from .readme import render

_MOST_RUNTIMES = 20
_MOST = 200
"""Maximum number of plugins listed: enough for readers; `MAX_MANIFEST` limits the manifest."""
_MOST_PLACES = 500
_LONG = 100
"""Maximum number of characters of a name. Longer ones (untrusted recordings) are cut."""
_LONG_FILTER = 2_000
"""Maximum number of characters of an option's value."""

Counted = Counter[tuple[str, str]]
"""Numbers of replaced values by rule and place."""


class Describing:
    """Creates manifests for one export, and redacts texts typed by the user."""

    def __init__(self, selection: Selection, redactor: Redactor | None, note: str) -> None:
        self._selection = selection
        self._redactor = redactor
        self._note = note

    def counted(self) -> Counted:
        """Return the counts of values replaced so far."""
        counts: Counted = Counter()
        if self._redactor is not None:
            for one in self._redactor.tally:
                counts[one.rule, one.place] += one.values
        return counts

    def manifest(self, rebuilt: Extracted, before: Counted) -> tuple[Manifest, str]:
        """Return the manifest without its files, and the pod with the most events, in words.

        ``before`` counts values replaced for other bundles. Raises RecordingError.
        """
        with Recording.open(rebuilt.path) as recording:
            sessions = [one for one in recording.sessions() if one.role != Role.CRI]
            chain = {one.plugin for one in sessions}
            pods: Counter[str] = Counter()
            for event in recording.events():
                chain.update(event.owners)
                if event.pod:
                    pods[f"{event.namespace}/{event.pod}"] += 1
            version = recording.version
            # Omitted events are counted separately.
            gaps = sum(not gap.is_left_out for gap in recording.gaps())
        manifest = Manifest(
            tool_version=__version__,
            recording_version=version,
            counts=replace(rebuilt.counts, gaps=gaps),
            first_ns=rebuilt.first_ns,
            last_ns=rebuilt.last_ns,
            runtimes=tuple(islice(dict.fromkeys(map(_runtime, sessions)), _MOST_RUNTIMES)),
            chain=tuple(plugin[:_LONG] for plugin in sorted(chain)[:_MOST]),
            selection=self._asked(),
            note=self._text(self._note, "note"),
            damage=self._text(rebuilt.damage, "damage")[:_LONG],
        )
        if self._redactor is not None:
            manifest = replace(manifest, redaction=self._report(self._redactor, before))
        busiest = [f"{pod} has {count:,} of the events" for pod, count in pods.most_common(1)]
        return manifest, "".join(busiest)

    def _asked(self) -> dict[str, str]:
        selection = self._selection
        asked: dict[str, str] = {}
        if selection.where is not None:
            asked["--where"] = self._text(str(selection.where), "selection")[:_LONG_FILTER]
        if selection.since_ns is not None:
            asked["--since"] = rfc3339(selection.since_ns)
        if selection.until_ns is not None:
            asked["--until"] = rfc3339(selection.until_ns)
        if selection.pod:
            asked["--pod"] = self._text(selection.pod, "selection")[:_LONG_FILTER]
        if selection.numbers is not None:
            asked["events"] = "picked one by one"
        return asked

    def _text(self, text: str, place: str) -> str:
        if self._redactor is None or not text:
            return text
        return self._redactor.text(text, f"manifest.{place}")

    def _report(self, redactor: Redactor, before: Counted) -> Redaction:
        counts = self.counted()
        counts.subtract(before)
        places: Counted = Counter()
        for (rule, place), values in sorted(counts.items()):
            if values > 0:
                key = rule[:_LONG], place[:_LONG]
                if key not in places and len(places) >= _MOST_PLACES:
                    key = rule[:_LONG], "elsewhere"
                places[key] += values
        replaced = [Replaced(*key, values) for key, values in sorted(places.items())]
        # The rule file's name may reveal too much.
        rules = "default, changed by a file" if redactor.rules.source else "default"
        return Redaction(rules, tuple(replaced))


def _runtime(session: Session) -> Runtime:
    return Runtime(
        session.runtime_name[:_LONG],
        session.runtime_version[:_LONG],
        session.nri_version[:_LONG],
        session.nri_version_inferred,
    )


def our_words() -> bytes:
    """Return the text that every manifest and every README.md contains."""
    empty = Manifest(
        tool_version=__version__,
        recording_version=1,
        counts=Counts(0, 0, 0, 0, 0, 0, 0),
        first_ns=0,
        last_ns=0,
        redaction=Redaction("default", (Replaced("", "", 1),)),
        files={name: File(0, "") for name in (README, RECORDING)},
    )
    return b"".join(
        render(one).encode() + to_bytes(one) for one in (empty, replace(empty, redaction=None))
    )
