# SPDX-License-Identifier: Apache-2.0
"""A finished replay with its comparisons: to a golden, to production, or to another chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError, reason_of
from nri_scope.recording.file.schema_check import FIRST_BYTES
from nri_scope.recording.file.trusted_location import check_private, read_regular, write_private

from .golden import Golden, Mismatch, as_data, lines
from .recorded_replies import SOURCE_LABEL, TapComparison
from .report import change_record, differing, document, junit
from .run import Job

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain

    from .result import Replayed

Expected = Golden | TapComparison | None


@dataclass(frozen=True, slots=True)
class Checks:
    """What a replay is compared with, and where the result is written."""

    junit: Path | None = None
    golden: Path | None = None
    """A golden, or a recording of tapped plugins."""
    update_golden: bool = False
    other: Job | None = None
    """The same replay with another chain, for comparison."""
    other_label: str = ""
    """How the other chain differs, such as "without 20-b"."""


def prepared(job: Job, checks: Checks) -> tuple[Job, Expected]:
    """Read what replies are compared with, and check that files can be written; see `compare`.

    Raises UsageError: before plugins are started, as a replay can take an hour.
    """
    expected: Expected = None
    if checks.golden is not None and _is_recording(checks.golden):
        if checks.update_golden:
            raise UsageError(f"--golden {checks.golden}: a recording", "name a file to write")
        expected = TapComparison(checks.golden, job)
        job = expected.prepared(job)
    elif checks.golden is not None and not (checks.update_golden and not checks.golden.exists()):
        expected = Golden.load(checks.golden)
    if checks.junit is not None:
        check_junit_file(checks.junit)
    if checks.golden is not None and checks.update_golden:
        Golden.check_place(checks.golden)
    return job, expected


def _is_recording(path: Path) -> bool:
    with suppress(OSError):
        return read_regular(path, len(FIRST_BYTES[0])).startswith(FIRST_BYTES)
    return False


def compare(
    replayed: Replayed, golden: Expected, checks: Checks, say: Callable[[str], None]
) -> list[Mismatch]:
    """Return the unexpected replies, or write the golden. ``say`` is called with warnings."""
    if isinstance(golden, TapComparison):
        mismatches = golden.compare(replayed)
        for warning in golden.warnings():
            say(warning)
        return mismatches
    if checks.golden is None:
        return []
    origin = replayed.origin
    if checks.update_golden:
        old = golden or Golden(origin, {})
        new = old.updated(replayed.replies(), origin, replayed.name_of)
        new.save(checks.golden)
        for matcher in old.lost(new):
            say(f"warning: matcher removed, as it no longer matches: {matcher}")
        return []
    assert golden is not None
    golden.check_origin(origin)
    return golden.compare(replayed.replies(), replayed.name_of)


@dataclass(frozen=True, slots=True)
class CheckedReplay:
    """A finished replay, and the results of its comparisons."""

    replayed: Replayed
    mismatches: Sequence[Mismatch]
    other: Replayed | None
    golden: Expected
    checks: Checks

    def write_junit(self) -> None:
        """Write JUnit XML if requested. Raises UsageError."""
        if self.checks.junit is not None:
            write_junit_file(self.checks.junit, self.junit())

    @property
    def well(self) -> bool:
        """Whether the exit status will be 0."""
        replayed, other = self.replayed, self.other
        if other is not None and (
            not other.ok or next(differing(replayed, other), None) is not None
        ):
            return False
        if not self.has_golden:
            return replayed.ok
        others = next(replayed.other_failures(), None)
        return not self.mismatches and not replayed.tally.too_slow and others is None

    @property
    def has_golden(self) -> bool:
        """Whether replies are compared with expected ones, which may be failures."""
        return self.golden is not None and not self.checks.update_golden

    def junit(self) -> str:
        """Return JUnit XML, with failures if the exit status will not be 0."""
        mismatches = {mismatch.key: list(self.lines_of([mismatch])) for mismatch in self.mismatches}
        texts: list[str] = []
        if self.other is not None:
            label = self.checks.other_label
            texts += [f"{name} differs {label}" for name, _ in differing(self.replayed, self.other)]
            texts += [f"{label}: {failure}" for failure in self.other.failures()]
        return junit(self.replayed, mismatches, has_golden=self.has_golden, differences=texts)

    def lines_of(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """Yield the mismatches as lines for people."""
        if isinstance(self.golden, TapComparison):
            return lines(mismatches, str(self.golden.path), label=SOURCE_LABEL)
        return lines(mismatches, str(self.checks.golden))

    def document(self) -> dict[str, Plain]:
        """Return the whole result as plain values."""
        result = document(self.replayed)
        times = result.pop("times")
        result["well"] = self.well
        tapped = self.golden if isinstance(self.golden, TapComparison) else None
        if self.checks.golden is not None:
            result["golden"] = {
                "file": str(self.checks.golden),
                "updated": self.checks.update_golden,
                **({} if tapped is None else {"tapped": tapped.data()}),
                "mismatches": [as_data(mismatch) for mismatch in self.mismatches],
            }
        if self.other is not None:
            result["compared_with"] = {
                "plugins": [plugin.plugin for plugin in self.other.plugins],
                "failures": list(self.other.failures()),
                "containers": {
                    name: [line if isinstance(line, str) else change_record(line) for line in lines]
                    for name, lines in differing(self.replayed, self.other)
                },
            }
        return {**result, "times": times}


def check_junit_file(path: Path) -> None:
    """Raise `UsageError` if the file cannot be written, or exists and is not JUnit XML."""
    start = b""
    try:
        with suppress(FileNotFoundError):
            start = read_regular(path, 200)
        check_private(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    if start and b"<testsuites" not in start:
        raise UsageError(
            f"{path}: file exists and is not JUnit XML",
            "name another file after --junit",
        )


def write_junit_file(path: Path, text: str) -> None:
    """Write JUnit XML, readable by this user only; raise `UsageError` if that fails."""
    try:
        write_private(path, text.encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path}: cannot be written: {reason_of(error)}",
        "name another file after --junit",
    )
