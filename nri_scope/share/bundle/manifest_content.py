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
from nri_scope.recording.redacted import is_redacted

from ..extract import Extracted, Selection
from ..redaction import Redactor
from .readme import render

_MAX_RUNTIMES = 20
_MAX_PLUGINS = 200
"""Maximum number of plugins to list; keeps the manifest below `MAX_MANIFEST`."""
_MAX_PLACES = 500
_MAX_NAME = 100
"""Maximum number of characters of a name. Longer names, which only untrusted recordings have, are
cut."""

ReplacedCounts = Counter[tuple[str, str]]
"""Number of replaced values by rule and place."""


class ManifestBuilder:
    """Builder of the manifests of one export; also redacts the texts typed by the user."""

    def __init__(
        self, source: Recording, selection: Selection, redactor: Redactor | None, note: str
    ) -> None:
        self._source = source
        self._selection = selection
        self._redactor = redactor
        self._note = note

    def replaced_counts(self) -> ReplacedCounts:
        """Return the number of values replaced so far, by rule and place."""
        counts: ReplacedCounts = Counter()
        if self._redactor is not None:
            for replaced in self._redactor.tally:
                counts[replaced.rule, replaced.place] += replaced.values
        return counts

    def manifest(self, rebuilt: Extracted, before: ReplacedCounts) -> tuple[Manifest, Counter[str]]:
        """Return the manifest without `Manifest.files`, and the number of events of each pod.

        ``before`` counts values replaced in earlier
        bundles. Raises RecordingError.
        """
        with Recording.open(rebuilt.path) as recording:
            sessions = [session for session in recording.sessions() if session.role != Role.CRI]
            chain = {session.plugin for session in sessions}
            pods: Counter[str] = Counter()
            for event in recording.events():
                chain.update(event.owners)
                if event.pod:
                    pods[f"{event.namespace}/{event.pod}"] += 1
            version = recording.version
            # Omitted events are counted in `Counts.left_out`.
            gaps = sum(not gap.is_left_out for gap in recording.gaps())
        manifest = Manifest(
            tool_version=__version__,
            recording_version=version,
            counts=replace(rebuilt.counts, gaps=gaps),
            first_ns=rebuilt.first_ns,
            last_ns=rebuilt.last_ns,
            runtimes=tuple(islice(dict.fromkeys(map(_runtime, sessions)), _MAX_RUNTIMES)),
            chain=tuple(plugin[:_MAX_NAME] for plugin in sorted(chain)[:_MAX_PLUGINS]),
            selection={
                name: self._text(text, "selection")
                for name, text in self._selection.criteria.items()
            },
            note=self._text(self._note, "note"),
            damage=self._text(rebuilt.damage, "damage")[:_MAX_NAME],
        )
        if self._redactor is not None:
            manifest = replace(manifest, redaction=self._report(self._redactor, before))
        return manifest, pods

    def _text(self, text: str, place: str) -> str:
        if self._redactor is None or not text:
            return text
        return self._redactor.text(text, f"manifest.{place}")

    def _report(self, redactor: Redactor, before: ReplacedCounts) -> Redaction:
        counts = self.replaced_counts()
        counts.subtract(before)
        places: ReplacedCounts = Counter()
        for (rule, place), values in sorted(counts.items()):
            if values > 0:
                key = rule[:_MAX_NAME], place[:_MAX_NAME]
                if key not in places and len(places) >= _MAX_PLACES:
                    key = rule[:_MAX_NAME], "elsewhere"
                places[key] += values
        replaced = [Replaced(*key, values) for key, values in sorted(places.items())]
        # The name of the rules file may itself be confidential.
        rules = "default, changed by a file" if redactor.rules.source else "default"
        return Redaction(rules, tuple(replaced), before=is_redacted(self._source))


def _runtime(session: Session) -> Runtime:
    return Runtime(
        session.runtime_name[:_MAX_NAME],
        session.runtime_version[:_MAX_NAME],
        session.nri_version[:_MAX_NAME],
        session.nri_version_inferred,
    )


def fixed_text() -> bytes:
    """Return the text that is part of every manifest and every README.md."""
    empty = Manifest(
        tool_version=__version__,
        recording_version=1,
        counts=Counts(0, 0, 0, 0, 0, 0, 0),
        first_ns=0,
        last_ns=0,
        redaction=Redaction("default", (Replaced("", "", 1),), before=True),
        files={name: File(0, "") for name in (README, RECORDING)},
    )
    return b"".join(
        render(one).encode() + to_bytes(one) for one in (empty, replace(empty, redaction=None))
    )
