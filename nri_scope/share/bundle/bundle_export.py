# SPDX-License-Identifier: Apache-2.0
"""Pack a recording or a part of it for sharing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import Mark
from nri_scope.recording.bundle.manifest import (
    MANIFEST,
    README,
    RECORDING,
    BundlePart,
    File,
    Manifest,
    to_bytes,
)
from nri_scope.recording.bundle.unpack import MAX_RECORDING, check
from nri_scope.recording.display import size as in_bytes
from nri_scope.recording.reader import Recording

from ..extract import Extracted, Selection, extract
from ..extract.selected_events import choose
from ..output_files import Outputs
from ..redaction import Redactor
from .leak_scan import Scan
from .manifest_content import Describing, our_words
from .readme import render
from .zip_writer import pack

MAX_BYTES = 25_000_000
"""Size of the largest attachment that issue trackers accept."""
MAX_NOTE = 10_000
"""Maximum number of characters of a note."""
_MOST_PARTS = 1_000
"""Maximum number of bundles of one recording; more are useless as attachments."""
_ROOM = 1 << 10
"""Number of bytes by which a bundle may grow when its part number is added."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A finished bundle."""

    path: Path
    size: int
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export."""

    bundles: tuple[Bundle, ...]
    """One bundle, or with ``split`` possibly several, ordered by time."""

    @property
    def damage(self) -> str:
        """The damage of the original; "" if undamaged."""
        return next((one.manifest.damage for one in self.bundles if one.manifest.damage), "")


def export(
    source: Recording,
    output: Path,
    selection: Selection = Selection(),  # noqa: B008 - frozen
    *,
    redactor: Redactor | None = None,
    note: str = "",
    max_bytes: int = MAX_BYTES,
    split: bool = False,
    force: bool = False,
    marks: Sequence[Mark] | None = None,
    inspect: Callable[[Path], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Exported:
    """Pack the events of ``source`` chosen by ``selection`` as the bundle ``output``.

    The recording in the bundle is written from scratch, row by row; with ``redactor`` it is
    redacted, and all written data is then searched for the replaced values. A bundle larger than
    ``max_bytes`` is an error, or with ``split`` several bundles, ``NAME-1.nriscope.zip`` and so on.
    ``marks`` are as for `extract`. ``force``: replace existing files. ``inspect`` is called with
    each finished bundle before it is renamed to its final name; an exception from ``inspect`` stops
    the export. The same input gives the same bytes.

    The output is complete, or does not exist. Raises UsageError if no event is chosen or the output
    exists or is too large, RedactionLeak, and RecordingError.
    """
    if len(note) > MAX_NOTE:
        raise UsageError(f"a note has at most {MAX_NOTE:,} characters", "put it beside the bundle")
    with Outputs(output, source.path, force=force) as outputs:
        packing = _Packing(source, outputs, selection, redactor, note, marks, on_progress)
        if redactor is not None and note:
            redactor.learn_text(note)
        first = packing.draft(selection)
        drafts = [first]
        if first.size > max_bytes:
            if not split:
                raise UsageError(*_too_large(first, max_bytes, output))
            drafts = list(packing.halves(first, max_bytes))
        finished = [
            packing.finish(draft, BundlePart(number, len(drafts)) if len(drafts) > 1 else None)
            for number, draft in enumerate(drafts, 1)
        ]
        if inspect is not None:
            for bundle in finished:
                inspect(bundle.path)
        paths = outputs.place([bundle.path for bundle in finished])
        return Exported(
            tuple(replace(one, path=path) for one, path in zip(finished, paths, strict=True))
        )


@dataclass(frozen=True, slots=True)
class _Draft:
    """A complete bundle, which may still become one of several parts."""

    rebuilt: Extracted
    manifest: Manifest
    path: Path
    size: int
    busiest: str
    """The pod with the most events and their number, in words."""


class _Packing:
    """One export in progress."""

    def __init__(
        self,
        source: Recording,
        outputs: Outputs,
        selection: Selection,
        redactor: Redactor | None,
        note: str,
        marks: Sequence[Mark] | None,
        on_progress: Callable[[float], None] | None,
    ) -> None:
        self._source = source
        self._outputs = outputs
        self._selection = selection
        self._redactor = redactor
        self._describing = Describing(selection, redactor, note)
        self._marks = marks
        self._on_progress = on_progress
        self._learned = 0

    def draft(self, selection: Selection) -> _Draft:
        """Extract and pack a part."""
        before = self._describing.counted()
        path = self._outputs.new(".db")
        rebuilt = extract(
            self._source,
            path,
            selection,
            change=self._redactor,
            marks=self._marks,
            learned=self._learned,
            on_progress=self._on_progress,
        )
        self._learned = rebuilt.learned
        size = path.stat().st_size
        if size > MAX_RECORDING:
            raise UsageError(
                f"its recording has {in_bytes(size)}, more than a bundle may hold", _CUT
            )
        manifest, busiest = self._describing.manifest(rebuilt, before)
        packed = self._outputs.new(".zip")
        return _Draft(rebuilt, manifest, packed, self._pack(packed, rebuilt, manifest), busiest)

    def halves(self, draft: _Draft, max_bytes: int) -> Iterator[_Draft]:
        """Yield the same events as several parts by time, each of which is small enough."""
        numbers = choose(self._source, self._selection, lambda done: None).events
        waiting = [(draft, numbers)]
        done = 0
        while waiting:
            draft, numbers = waiting.pop()
            if draft.size + _ROOM <= max_bytes:
                done += 1
                yield draft
                continue
            if done + len(waiting) > _MOST_PARTS:
                raise UsageError(
                    f"it would be more than {_MOST_PARTS:,} bundles of at most "
                    f"{in_bytes(max_bytes)}",
                    f"{_CUT}, or larger parts with --max-size",
                )
            if len(numbers) < 2:
                raise UsageError(
                    f"event {numbers[0]} and what it needs take up to "
                    f"{in_bytes(draft.size + _ROOM)} by themselves, and the "
                    f"limit is {in_bytes(max_bytes)}",
                    "leave it out, or choose larger parts with --max-size",
                )
            draft.path.unlink()
            draft.rebuilt.path.unlink()
            middle = len(numbers) // 2
            # The stack's last element is processed first.
            for part in (numbers[middle:], numbers[:middle]):
                waiting.append((self.draft(replace(self._selection, numbers=part)), part))

    def finish(self, draft: _Draft, part: BundlePart | None) -> Bundle:
        """Add the part's number, if any, and scan all written data."""
        manifest, path, size = draft.manifest, draft.path, draft.size
        if part is not None:
            manifest = replace(manifest, part=part)
            path.unlink()
            size = self._pack(path, draft.rebuilt, manifest)
        if self._redactor is not None:
            self._scan(self._redactor, draft.rebuilt.path, path, manifest)
        return Bundle(path, size, manifest)

    def _pack(self, path: Path, rebuilt: Extracted, manifest: Manifest) -> int:
        manifest, readme = _with_files(manifest, rebuilt.path)
        size = pack(path, {MANIFEST: to_bytes(manifest), README: readme, RECORDING: rebuilt.path})
        try:
            check(path)
        except RecordingError as error:
            raise UsageError(f"the bundle could not be opened: {error.problem}", _CUT) from error
        return size

    def _scan(self, redactor: Redactor, recording: Path, packed: Path, manifest: Manifest) -> None:
        scan = Scan(redactor.originals(), self._outputs.wanted, our_words())
        scan.recording(recording)
        full, readme = _with_files(manifest, recording)
        scan.text(to_bytes(full), "the manifest")
        scan.text(readme, "README.md")
        scan.name(self._outputs.wanted.name)
        scan.file(packed, "the packed file")


def _with_files(manifest: Manifest, recording: Path) -> tuple[Manifest, bytes]:
    """Return the manifest with the other files listed, and the matching README.md."""
    readme = render(manifest).encode("utf-8", "backslashreplace")
    with recording.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    files = {
        README: File(len(readme), hashlib.sha256(readme).hexdigest()),
        RECORDING: File(recording.stat().st_size, digest),
    }
    return replace(manifest, files=files), readme


_CUT = "choose a part with --pod, --where, --since or --until"


def _too_large(draft: _Draft, max_bytes: int, output: Path) -> tuple[str, str]:
    who = "issue trackers take" if max_bytes == MAX_BYTES else "the limit is"
    return (
        f"{output}: the bundle would have {in_bytes(draft.size)}, and {who} {in_bytes(max_bytes)}",
        f"{_CUT}{f' ({draft.busiest})' if draft.busiest else ''}; or let --split make several",
    )
