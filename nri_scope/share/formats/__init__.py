# SPDX-License-Identifier: Apache-2.0
"""Write recordings in formats that other programs read.

In: an open recording and numbers of events. Out: a stream of bytes, written forwards only.
`FORMATS` lists the formats; docs/formats.md describes them. These are views for looking, searching
and drawing: nothing here ever reads them back, and a format never knows who redacts or places its
file.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import IO, TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from nri_scope.recording.reader import Recording


class Write(Protocol):
    """What writes a recording in one format."""

    def __call__(
        self, recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]
    ) -> int:
        """How many events were written. Raises RecordingError, and OSError for the stream's part.

        ``numbers`` are those of the events to be written, in any order; None is all of them. The
        stream is only written to, from its beginning to its end: it can be a pipe.
        """
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    suffix: str
    """How the names of its files end, usually."""
    help: str
    """What it is, in a few words."""
    is_text: bool
    """Whether it may be shown in a terminal."""
    module: str

    def write(self, recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
        """As `Write`. What a format needs is imported when it is written."""
        return cast(Write, self._module().write)(recording, numbers, stream)

    def own_words(self) -> bytes:
        """Return what the format itself writes, whatever the recording holds."""
        return "\n".join(cast(Iterable[str], self._module().OWN_WORDS)).encode()

    def _module(self) -> ModuleType:
        return importlib.import_module(f"{__name__}.{self.module}")


FORMATS = {
    known.name: known
    for known in (
        Format(
            "jsonl", ".jsonl", "a line of JSON for each event, messages included", True, "jsonl"
        ),
        Format(
            "otlp-json", ".otlp.jsonl", "OpenTelemetry traces as lines of OTLP/JSON", True, "otlp"
        ),
        Format("perfetto", ".pftrace", "a timeline for ui.perfetto.dev", False, "perfetto"),
        Format(
            "sqlite-expanded",
            ".expanded.db",
            "plain SQLite with JSON columns, for Datasette",
            False,
            "expanded_sqlite",
        ),
    )
}
"""Every format by its name."""
