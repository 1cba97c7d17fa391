# SPDX-License-Identifier: Apache-2.0
"""Pack a recording or a part of it for sharing."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.bundle.manifest import (
    MANIFEST,
    README,
    RECORDING,
    File,
    Manifest,
    to_bytes,
)
from nri_scope.recording.bundle.unpack import MAX_RECORDING, check
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.text.quantities import size as in_bytes

from ..extract import extract
from ..output_files import Outputs
from ..redaction import Redactor, Rules, derive, local_key
from ..redaction.tokens import KEY_BYTES
from .leak_scan import Scan
from .manifest_content import BundleContent, manifest_of, render


def redactor_for(
    recording: Recording,
    rules: Rules,
    *,
    stable: bool = False,
    key_folder: Path | None = None,
) -> Redactor:
    """Return a redactor for this recording. Raises UsageError and RecordingError.

    Its key is random and never stored. ``stable``: derive the key from the user's key, so that the
    same recording always gets the same tokens on this machine, even after more events were
    recorded.
    """
    key = secrets.token_bytes(KEY_BYTES)
    if stable:
        key = derive(local_key(key_folder), identity(recording))
    return Redactor(rules, key)


def identity(recording: Recording) -> bytes:
    """Return a digest of a recording's first session and first event, which identify it."""
    session = next(iter(recording.sessions()), None)
    event = next(recording.events(), None)
    start = (
        None if session is None else (session.id, session.started_ns, session.plugin),
        None if event is None else (event.id, event.at_ns, event.mono_ns, event.event),
    )
    return hashlib.sha256(repr(start).encode("utf-8", "surrogatepass")).digest()


MAX_BYTES = 25_000_000
"""Default limit in bytes: the largest attachment that issue trackers accept."""
MAX_NOTE = 10_000
"""Maximum number of characters of a note."""

_PODS_SHOWN = 3
"""Maximum number of pods in `Bundle.other_pods_words`."""
_NAME_SHOWN = 100
"""Maximum number of characters of each of them."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A finished bundle."""

    path: Path
    size: int
    manifest: Manifest
    other_pods: tuple[str, ...] = ()
    """Names, as in the bundle, of the pods of events other than the pod or container selected by
    name."""

    @property
    def other_pods_words(self) -> str:
        """Text with the first other pods, as ``, also of pods shop/api and shop/db``; or ""."""
        if not self.other_pods:
            return ""
        names = [name[:_NAME_SHOWN] for name in self.other_pods[:_PODS_SHOWN]]
        hidden = len(self.other_pods) - len(names)
        more = f" and {hidden:,} more" if hidden else ""
        return f", also of pod{'s' if len(self.other_pods) > 1 else ''} {', '.join(names)}{more}"


def export(
    source: Recording,
    output: Path,
    content: BundleContent = BundleContent(),  # noqa: B008 - frozen
    *,
    max_bytes: int = MAX_BYTES,
    force: bool = False,
    on_progress: OnShare | None = None,
) -> Bundle:
    """Pack the selected events of ``source`` into the bundle ``output``.

    The recording in the bundle is written from scratch, row by row; with a redactor it is redacted,
    and all written data is then searched for the replaced values. If the bundle would be larger
    than ``max_bytes``, the export fails. ``force``: replace existing files. The same input gives
    the same bytes.

    The output is complete, or is not written. Raises UsageError if no event is selected, or if the
    output exists or is too large; RedactionLeak; and RecordingError.
    """
    redactor = content.redactor
    if len(content.note) > MAX_NOTE:
        raise UsageError(f"the note is longer than {MAX_NOTE:,} characters", "shorten it")
    with Outputs(output, source.path, force=force) as outputs:
        rebuilt = extract(
            source,
            outputs.new(".db"),
            content.selection,
            redactor=redactor,
            marks=content.marks,
            on_progress=on_progress,
        )
        size = rebuilt.path.stat().st_size
        if size > MAX_RECORDING:
            raise UsageError(
                f"its recording would be {in_bytes(size)}; the limit is {in_bytes(MAX_RECORDING)}",
                _SELECT_FEWER,
            )
        manifest, pods = manifest_of(source, content, rebuilt)
        manifest, readme = _with_files(manifest, rebuilt.path)
        draft = outputs.new(".zip")
        size = pack(draft, {MANIFEST: to_bytes(manifest), README: readme, RECORDING: rebuilt.path})
        try:
            check(draft)
        except RecordingError as error:
            raise UsageError(
                f"the new bundle cannot be opened: {error.problem}", _SELECT_FEWER
            ) from error
        _check_size(size, pods, max_bytes, output)
        if redactor is not None:
            go_on = None if on_progress is None else partial(on_progress, 1.0)
            scan = Scan(redactor.replaced_words, output, go_on=go_on)
            _search(scan, rebuilt.path, manifest, readme, output)
        outputs.place(draft)
    return Bundle(output, size, manifest, _other_pods(manifest, pods))


def _other_pods(manifest: Manifest, pods: Collection[str]) -> tuple[str, ...]:
    """Return the pods other than the one selected by name; none if that is not among them."""
    name = manifest.subject.partition(" ")[2]
    own = {pod for pod in pods if f"{name}/".startswith(f"{pod}/")}
    return tuple(pod for pod in pods if pod not in own) if own else ()


def _with_files(manifest: Manifest, recording: Path) -> tuple[Manifest, bytes]:
    """Return the manifest completed by the other files, and the content of README.md."""
    readme = render(manifest).encode("utf-8", "backslashreplace")
    with recording.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    files = {
        README: File(len(readme), hashlib.sha256(readme).hexdigest()),
        RECORDING: File(recording.stat().st_size, digest),
    }
    return replace(manifest, files=files), readme


_SELECT_FEWER = "select fewer events with --pod, --where, --since or --until"


def _check_size(size: int, pods: Counter[str], max_bytes: int, output: Path) -> None:
    """Raise UsageError if the bundle is too large. ``pods``: number of events of each pod."""
    if size <= max_bytes:
        return
    limit = "issue trackers accept at most" if max_bytes == MAX_BYTES else "the limit is"
    busiest = "".join(f" ({pod} has {count:,} of the events)" for pod, count in pods.most_common(1))
    raise UsageError(
        f"{output}: the bundle would be {in_bytes(size)}; {limit} {in_bytes(max_bytes)}",
        f"{_SELECT_FEWER}{busiest}; or raise the limit with --max-size",
    )


def _search(scan: Scan, recording: Path, manifest: Manifest, readme: bytes, output: Path) -> None:
    """Search all that the bundle contains for replaced values. Raises RedactionLeak."""
    scan.recording(recording)
    scan.text(to_bytes(manifest), "the manifest")
    scan.text(readme, "README.md")
    scan.name(output.name)


_MODE = stat.S_IFREG | 0o600
_LEVEL = 6
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest timestamp that a zip can store. Real timestamps would differ between runs."""


def pack(target: Path, files: Mapping[str, bytes | Path]) -> int:
    """Create ``target``, readable by its owner only; return its size in bytes. Raises OSError.

    ``files`` maps each name in the archive, in order, to its content or to the path of a file.
    """
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                # 3 is Unix. The default would depend on the operating system.
                entry.create_system = 3
                entry.external_attr = _MODE << 16
                with archive.open(entry, "w") as stream:
                    if isinstance(content, bytes):
                        stream.write(content)
                    else:
                        with content.open("rb") as source:
                            shutil.copyfileobj(source, stream, 1 << 20)
        file.flush()
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
