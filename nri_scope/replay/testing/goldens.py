# SPDX-License-Identifier: Apache-2.0
"""Compare the results of a test with its goldens, or update them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe

from ..golden import Golden, lines
from ..golden.golden import HEAD
from ..result import Replayed

CHECK, UPDATE, NONE = "check", "update", "none"
"""Modes: compare with goldens, write them, or ignore them."""

_HEAD = HEAD.replace("nri-scope replay --update-golden", "pytest --nri-golden=update")


class Goldens:
    """Goldens of one test. ``default``: its own golden; other paths are relative to ``folder``."""

    def __init__(self, folder: Path, default: Path, mode: str = CHECK) -> None:
        self._folder = folder
        self._default = default
        self._mode = mode
        self._updated: set[Path] = set()
        self.written: list[Path] = []
        """Paths of the goldens that were written."""

    def check_or_update(self, replayed: Replayed, file: str | Path = "") -> str:
        """Return the mismatches with the golden as lines; "" if there are none.

        In update mode, write the golden instead. Raises `UsageError` if it is missing or invalid.
        """
        if self._mode == NONE:
            return ""
        path = self._folder / file if str(file) else self._default
        # A second result of the test must not overwrite the first, so it is compared with it.
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
                "this test already wrote another result to this golden; use a separate golden for "
                "each result: assert_golden(FILE)"
            )
        else:
            hint = "if the new replies are correct, write them with --nri-golden=update"
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
                    f"golden {safe(str(path))}: cannot create its folder: {why.lower()}"
                ) from error
            new.save(path)
            self.written.append(path)
        self._updated.add(path)


def _shown(path: Path) -> str:
    """Return the path, relative to the current folder if it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
