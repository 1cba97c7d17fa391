# SPDX-License-Identifier: Apache-2.0
"""Write recordings in formats that other programs read.

In: an open recording and numbers of events. Out: a stream of bytes, written sequentially.
`FORMATS` lists the formats; docs/formats.md describes them. They are for viewing and searching;
`export` reads JSON lines, and no other. A format never depends on whether its recording was
redacted, or on the path of the output.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from nri_scope.recording.reading.reader import Recording


class Write(Protocol):
    """Function that writes a recording in one format."""

    def __call__(
        self, recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]
    ) -> int:
        """Write the events; return their number. Raises RecordingError, and OSError of ``stream``.

        ``numbers`` are those of the events to write, in any order; None: all. ``stream`` may be a
        pipe.
        """
        ...


Analysed: TypeAlias = (
    "Callable[[Recording, Sequence[int] | None, Path | None], AbstractContextManager[None]]"
)
"""Function that attaches the outcomes of the requests of events to a recording during a block.

The events are given by ascending numbers; None: all. Temporary files are in the folder, if any.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """An output format."""

    name: str
    suffix: str
    """The usual suffix of files in this format."""
    help: str
    """Short description."""
    is_text: bool
    """Whether the output may be shown in a terminal."""
    module: str

    def write(
        self,
        recording: Recording,
        numbers: Iterable[int] | None,
        stream: IO[bytes],
        analysed: Analysed | None = None,
    ) -> int:
        """Write the events as `Write` does. The first call imports the format's module.

        ``analysed``: finder of the outcomes of requests; without it, they are not known. Raises its
        errors, too.
        """
        write = cast(Write, self._module().write)
        if analysed is None:
            return write(recording, numbers, stream)
        # Imported here, as `--help` does not need them.
        from nri_scope.recording.reading.row_pages import ascending

        from .exported_part import folder_of

        chosen = None if numbers is None else ascending(numbers)
        with analysed(recording, chosen, folder_of(stream)):
            return write(recording, chosen, stream)

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
"""All formats by name."""


def format_of(path: Path) -> Format | None:
    """Return the format whose suffix, the longest that fits, a file name has; None if none."""
    fitting = [each for each in FORMATS.values() if path.name.lower().endswith(each.suffix)]
    return max(fitting, key=lambda each: len(each.suffix), default=None)
