# SPDX-License-Identifier: Apache-2.0
"""The goldens of one test: compared, updated, or ignored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe

from ..golden import Golden, lines
from ..golden.golden import HEAD
from ..result import Replayed

CHECK, UPDATE, NONE = "check", "update", "none"
"""What to do with goldens."""

_HEAD = HEAD.replace("nri-scope replay --update-golden", "pytest --nri-golden=update")


class Goldens:
    """Handles the goldens; ``usual`` is the test's own, others are relative to ``folder``."""

    def __init__(self, folder: Path, usual: Path, mode: str = CHECK) -> None:
        self._folder = folder
        self._usual = usual
        self._mode = mode
        self._updated: set[Path] = set()
        self.written: list[Path] = []
        """Files that were changed."""

    def problem_of(self, replayed: Replayed, file: str | Path = "") -> str:
        """Describe the mismatches with the golden in lines; "" if there are none.

        Raises `UsageError` if the golden is missing or invalid.
        """
        if self._mode == NONE:
            return ""
        path = self._folder / file if str(file) else self._usual
        # A second result of one test is compared with the first, which it must not overwrite.
        if self._mode == UPDATE and path not in self._updated:
            self._update(replayed, path)
            return ""
        golden = Golden.load(_shown(path))
        golden.check_origin(replayed.origin)
        mismatches = golden.compare(replayed.replies(), replayed.name_of)
        if not mismatches:
            return ""
        if path in self._updated:
            hint = (
                "another result of this test was written to it; give each a golden of its own: "
                "assert_golden(FILE)"
            )
        else:
            hint = "if these replies are right, write them with --nri-golden=update"
        return "\n".join([*lines(mismatches, _shown(path)), hint])

    def _update(self, replayed: Replayed, path: Path) -> None:
        origin = replayed.origin
        if path.exists():
            old = Golden.load(_shown(path))
            new = old.updated(replayed.replies(), origin, replayed.name_of)
        else:
            new = Golden.of(replayed.replies(), origin, replayed.name_of)
            new = replace(new, head=_HEAD)
        if not path.exists() or path.read_bytes() != new.text.encode():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                why = error.strerror or str(error)
                raise UsageError(
                    f"golden {safe(str(path))}: its folder cannot be made: {why.lower()}"
                ) from error
            new.save(path)
            self.written.append(path)
        self._updated.add(path)


def _shown(path: Path) -> str:
    """Shorten the path relative to the current folder where possible."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
