# SPDX-License-Identifier: Apache-2.0
"""Open a recording for a command that shows it, with or without redaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.events import Container, Event, Pod
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.lookup import Found
from nri_scope.recording.reader import Recording
from nri_scope.recording.temporary_files import temporary_folder, writing_to

from .params import say

if TYPE_CHECKING:
    from nri_scope.share.redaction import Redactor, Rules


@dataclass(frozen=True, slots=True)
class Shown:
    """A recording prepared for showing."""

    name: str
    """The file's name, redacted."""
    original: Recording
    """The recording in which names and filters of the command line are looked up."""
    recording: Recording
    """The recording to show: the original, or a redacted one with the same numbers and ids."""
    redactor: Redactor | None
    """The redactor that was applied; None if none was."""

    def same(self, thing: Found) -> Found:
        """Return the shown recording's version of a finding in the original. Raise UsageError."""
        found: Found | None = thing
        if self.redactor is not None:
            match thing:
                case Event():
                    found = self.recording.event(thing.id)
                case Pod():
                    found = next((one for one in self.recording.pods() if one.id == thing.id), None)
                case Container():
                    containers = self.recording.containers()
                    found = next((one for one in containers if one.id == thing.id), None)
        if found is None:
            raise UsageError(
                "these rules replace the id of what was named",
                "redact the recording first, and look",
            )
        return found


@contextmanager
def shown(file: Path, rules: Rules | None) -> Iterator[Shown]:
    """Open the recording ``file``, redacted if there are rules.

    Raises UsageError, RedactionLeak and RecordingError.
    """
    with shown_together([file], rules) as found:
        yield found[0]


@contextmanager
def shown_together(files: Sequence[Path], rules: Rules | None) -> Iterator[list[Shown]]:
    """Open several recordings; equal values of containers of one name have equal tokens in all."""
    with ExitStack() as stack:
        originals = [stack.enter_context(Recording.open(file)) for file in files]
        if rules is None:
            yield [
                Shown(file.name, original, original, None)
                for file, original in zip(files, originals, strict=True)
            ]
            return
        from nri_scope.share.bundle import redactor_for_comparison
        from nri_scope.share.redacted_copy import redact_for_comparison

        from .share_options import progress

        stack.enter_context(interrupted_by_signals())
        folder = stack.enter_context(temporary_folder())
        redactor = redactor_for_comparison(originals, rules)
        with writing_to(folder), progress(originals[0], "redacting") as tell:
            drafts = redact_for_comparison(originals, folder, redactor, tell)
        for draft in drafts:
            if draft.damage:
                say(f"what comes after that is missing: {draft.damage}")
        found: list[Shown] = []
        for file, original, draft in zip(files, originals, drafts, strict=True):
            recording = stack.enter_context(Recording.open(draft.path))
            # The name may contain the host name, as `record` writes it.
            name = redactor.text(file.name, "file.name")
            found.append(Shown(name, original, recording, redactor))
        yield found
