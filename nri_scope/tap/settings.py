# SPDX-License-Identifier: Apache-2.0
"""The settings of a tap, from the command line or from the file that a wrapper reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.writer.messages import CriSource, RecordingOptions

if TYPE_CHECKING:
    from nri_scope.share.redaction.rules import Rules


@dataclass(frozen=True, slots=True)
class Settings:
    """A tap's settings as plain values, which can be stored in a file."""

    output: str
    where: str = ""
    """Filter of the events to keep; "" keeps all."""
    redact: str | None = None
    """A file of redaction rules; "" for the default rules; None to record without redaction."""
    cri: str | None = None
    """Socket of the CRI to query; None not to."""
    cri_waits: bool = False
    """Whether the CRI may be unavailable at first."""
    max_size: int | None = None
    """Maximum size of the recording in bytes."""
    max_age: float | None = None
    """Maximum age of events in seconds."""

    def recording(self) -> RecordingOptions:
        """Return the options of the recording, for its writer. Raise `NriScopeError`."""
        return RecordingOptions(
            Path(self.output).absolute(),
            os.path.lexists(self.output),
            self.max_size,
            self.max_age,
            self.where or None,
            self._rules(),
            cri=CriSource(Path(self.cri), self.cri_waits) if self.cri is not None else None,
        )

    def check(self) -> None:
        """Raise `NriScopeError` for what a writer would reject, without creating a file."""
        # Imported here: a tap itself needs neither SQLite nor the filter language.
        from nri_scope.filter import parse
        from nri_scope.recorder.ring import MIN_SIZE
        from nri_scope.recording.reader import Recording
        from nri_scope.share.source_redaction import check_continued

        parse(self.where)
        rules = self._rules()
        if self.max_size is not None and self.max_size < MIN_SIZE:
            raise UsageError(
                f"a recording of at most {self.max_size} bytes is too small", "use for example 1M"
            )
        path = Path(self.output)
        if path.exists() or path.is_symlink():
            Recording.open(path).close()
        check_continued(path, redacts=rules is not None)

    def _rules(self) -> Rules | None:
        if self.redact is None:
            return None
        from nri_scope.share.redaction.rule_file import read_rules
        from nri_scope.share.redaction.rules import Rules

        return read_rules(Path(self.redact)) if self.redact else Rules.DEFAULT

    def plain(self) -> dict[str, object]:
        """Return the settings as plain values, for a file."""
        return asdict(self)

    @classmethod
    def read(cls, plain: Mapping[str, object]) -> Settings:
        """Return the settings from plain values. Raise `UsageError` without an output file."""
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in plain.items() if name in known}
        if not isinstance(values.get("output"), str):
            raise UsageError("the tap's settings have no output file")
        return cls(**values)  # type: ignore[arg-type]
