# SPDX-License-Identifier: Apache-2.0
"""What the user takes away from the screen, and what an event's subject is in the recording."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recorder import lookup
from nri_scope.recorder.documents import document
from nri_scope.recorder.escape import safe
from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Event, Pod
from nri_scope.recorder.problems import in_words
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.yamltext import to_yaml
from nri_scope.tui.model.whom import container_of_event

CLIPBOARD_MAX = 48 << 10
"""Bytes of text. Some terminals silently drop what is longer than 74,994 bytes in base64."""

SEPARATOR = "---\n"
"""Between two documents of YAML."""

Find = Callable[[Recording, int], Pod | Container | None]


def others_of_container(recording: Recording, event: Event, *, forwards: bool) -> list[int]:
    """The events of the same container after or before this one, the nearest first."""
    container = container_of_event(recording, event.id)
    numbers = lookup.events_about(recording, container) if container is not None else []
    if forwards:
        return [number for number in numbers if number > event.id]
    return [number for number in reversed(numbers) if number < event.id]


def as_yaml(recording: Recording, numbers: Sequence[int]) -> Iterator[str]:
    """Events in full, one after the other, as `show` prints them. Raises RecordingError."""
    is_first = True
    for number in numbers:
        event = recording.event(number)
        if event is not None:
            yield f"{'' if is_first else SEPARATOR}{to_yaml(document(recording, event))}"
            is_first = False


def fitting(texts: Iterable[str]) -> str | None:
    """All of it; None where it is more than a clipboard takes, which is noticed by then."""
    parts: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode(errors="surrogatepass"))
        if size > CLIPBOARD_MAX:
            return None
        parts.append(text)
    return "".join(parts)


def new_path(numbers: Sequence[int], suffix: str, folder: Path | None = None) -> Path:
    """A name for a new file with these events, in the current folder, or where that cannot be
    written to in one that can. Raises UsageError.
    """
    name = f"nri-event-{numbers[0]}" if len(numbers) == 1 else f"nri-{len(numbers)}-events"
    stem = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for attempt in range(1, 100):
        more = f"-{attempt}" if attempt > 1 else ""
        path = (folder or _current_folder()) / f"{stem}{more}{suffix}"
        if not os.path.lexists(path):
            return path
    raise UsageError(f"{stem}{suffix}: too many files of this name", "remove some")


def shown_path(path: Path) -> str:
    """A new file as its user knows it: ``./a.db`` in the current folder, else in full."""
    with suppress(OSError):
        if path.parent == Path.cwd():
            return f"./{path.name}"
    return str(path)


def _current_folder() -> Path:
    try:
        current = Path.cwd()
    except OSError as error:
        raise UsageError("the current folder is gone", "start in another one") from error
    if _writable(current):
        return current
    # As in a container whose root is read-only.
    with suppress(OSError, RuntimeError):
        if _writable(home := Path.home()):
            return home
    with suppress(OSError):
        # Others can write there, too, and must not choose what is written to.
        return Path(tempfile.mkdtemp(prefix="nri-scope-"))
    return current


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def save(texts: Iterable[str], numbers: Sequence[int], folder: Path | None = None) -> Path:
    """Write it to a new file, for its owner only, as it comes. Raises UsageError, and what
    ``texts`` does; no file is left then.
    """
    while True:
        path = new_path(numbers, ".yaml", folder)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            hint = "start in a folder you can write to"
            raise UsageError(f"{path}: {in_words(error)}", hint) from error
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(texts)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise UsageError(f"{path}: {in_words(error)}", "start in another folder") from error
            raise
        return path


def command_line(path: Path, where: Filter | None) -> str:
    """The command that prints what is shown. Raises UsageError."""
    words = ["nri-scope", "log", str(path)]
    return pasteable([*words, "--where", str(where)] if where is not None else words)


def pasteable(words: Sequence[str]) -> str:
    """A command line that does in a shell what these words say.

    A terminal obeys control characters of what is pasted before the shell sees its quotes: ^C ends
    the line, and what stands behind a line end is a command of its own. Raises UsageError for them.
    """
    line = shlex.join(words)
    try:
        line.encode()
    except UnicodeEncodeError as error:
        # The name of a file may be any bytes, and a clipboard has text.
        raise UsageError("the command line is no text in UTF-8 and cannot be copied") from error
    if safe(line) != line:
        raise UsageError(
            "the command line has control characters and is not copied", "filter by something else"
        )
    return line
