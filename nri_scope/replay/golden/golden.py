# SPDX-License-Identifier: Apache-2.0
"""A golden: the expected replies of plugins to the events of one recording."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recording.file.trusted_location import (
    check_folder,
    read_regular,
    trusted_users,
    without_links,
    write_atomically,
)
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import MAX_BYTES, MalformedYaml, parse_yaml
from nri_scope.text.yaml_text import to_yaml

from ..replies import Reply
from .compare import Mismatch, compare_entries, matchers_in, merge_matchers
from .entries import Origin, ReplyKey, entries_of, read_tree, write_tree
from .matchers import Expected, Ignored, parse_matcher
from .reply_values import NameOf

_FIX = "correct it, or delete the file and rewrite it with --update-golden"
_UPDATE = "rewrite it with --update-golden"

HEAD = """\
# The replies that plugins are expected to give, as `nri-scope replay --update-golden` writes them.
# In place of any value may stand: !regex '^a.*z$', !tolerance 512 ±10%, !present, !ignored.
# An update keeps these where they still fit, and this comment; comments further down are lost.
"""


@dataclass(frozen=True, slots=True)
class Golden:
    """Expected replies, with the recording and profile to which they belong."""

    origin: Origin
    entries: Mapping[ReplyKey, Expected]
    """Entries in the order of the file; {} for an empty reply."""
    path: str = ""
    """Path from which it was loaded, as given by the user."""
    lines: Mapping[ReplyKey, int] = field(default_factory=dict[ReplyKey, int])
    """Line numbers in the loaded file, from 1."""
    head: str = HEAD
    """Comment at the beginning of the file."""

    @classmethod
    def of(cls, replies: Iterable[Reply], origin: Origin, name_of: NameOf) -> Golden:
        """Return a golden that expects exactly these replies."""
        return cls(origin, {}).updated(replies, origin, name_of)

    @classmethod
    def load(cls, path: str | Path) -> Golden:
        """Read a golden, which may be untrusted.

        Raises UsageError with file and line if it does not exist or is not a golden.
        """
        name = safe(str(path))
        try:
            content = read_regular(Path(path), MAX_BYTES + 1)
        except FileNotFoundError:
            raise UsageError(
                f"golden {name}: no such file", "write it with --update-golden"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"golden {name}: cannot be read: {why}") from None
        if len(content) > MAX_BYTES:
            raise UsageError(f"golden {name}: larger than {MAX_BYTES >> 20} MiB", _FIX)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise UsageError(f"golden {name}: line {line}: not UTF-8", _FIX) from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, path: str = "") -> Golden:
        """Parse the text of a golden. Raises UsageError, which names ``path``."""
        try:
            origin, entries, lines = read_tree(parse_yaml(text, parse_matcher))
        except MalformedYaml as error:
            line = f"line {error.line}: " if error.line else ""
            hint = error.hint if error.hint else _FIX
            named = f"golden {safe(path)}: " if path else "golden: "
            raise UsageError(f"{named}{line}{safe(error.problem)}", safe(hint)) from None
        return cls(origin, entries, path, lines, _head_of(text))

    @property
    def text(self) -> str:
        """Content of the file; byte-identical for equal goldens."""
        return self.head + to_yaml(write_tree(self.origin, self.entries), short_lists=True)

    @staticmethod
    def check_place(path: Path) -> None:
        """Raise the UsageError of `save`, as far as it can be predicted; change nothing."""
        try:
            target = without_links(path)
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            check_folder(target.parent)
        except (OSError, ValueError, RuntimeError) as error:
            raise _unwritable(path, error) from None

    def save(self, path: str | Path) -> None:
        """Write the file atomically. Raises UsageError if that fails.

        A new file is readable only by its owner, as it contains plugins' replies. An existing file
        of this user keeps its mode.
        """
        target = Path(path)
        content = self.text.encode("utf-8")
        if len(content) > MAX_BYTES:
            raise UsageError(
                f"golden {safe(str(path))}: would be larger than {MAX_BYTES >> 20} MiB",
                "replay a part of the recording",
            )
        try:
            # Follow a link to the file itself, whose permissions are kept.
            target = without_links(target)
            mode = 0o600
            if target.exists() and (status := target.stat()).st_uid in trusted_users():
                mode = stat.S_IMODE(status.st_mode)
            write_atomically(target, content, mode)
        except (OSError, ValueError, RuntimeError) as error:
            raise _unwritable(path, error) from None

    def check_origin(self, origin: Origin) -> None:
        """Raise UsageError if this golden belongs to another recording or profile."""
        named = f"golden {safe(self.path)}" if self.path else "this golden"
        if origin.fingerprint != self.origin.fingerprint:
            raise UsageError(
                f"{named} is for another recording or selection of events"
                f" ({safe(self.origin.recording)}) than the replayed one"
                f" ({safe(origin.recording)})",
                f"name the golden of this selection, or {_UPDATE}",
            )
        if origin.profile != self.origin.profile:
            raise UsageError(
                f"{named} is for profile {safe(self.origin.profile)}, but the replay uses"
                f" {safe(origin.profile)}",
                f"replay with --profile {safe(self.origin.profile)}, or {_UPDATE}",
            )

    def compare(self, replies: Iterable[Reply], name_of: NameOf) -> list[Mismatch]:
        """Return all mismatches of ``replies`` with this golden, in its order.

        Includes replies without an entry, and entries without a reply.
        """
        return compare_entries(self.entries, entries_of(replies, name_of), self.lines)

    def updated(self, replies: Iterable[Reply], origin: Origin, name_of: NameOf) -> Golden:
        """Return a golden for these replies that keeps the matchers that accept them."""
        entries: dict[ReplyKey, Expected] = {}
        for key, reply in entries_of(replies, name_of).items():
            old = self.entries.get(key)
            entries[key] = merge_matchers({} if old is None else old, reply)
        for key, old in self.entries.items():
            if key not in entries and isinstance(old, Ignored):
                entries[key] = old
        entries = dict(sorted(entries.items(), key=lambda entry: entry[0].sort_key))
        return Golden(origin, entries, self.path, {}, self.head)

    def lost(self, new: Golden) -> list[str]:
        """Return the matchers of this golden that ``new`` lacks, each with its reply's key."""
        left = Counter(new._matchers())
        lost: list[str] = []
        for matcher in self._matchers():
            if left[matcher]:
                left[matcher] -= 1
            else:
                lost.append(f"{matcher[1]} of {matcher[0]}")
        return lost

    def _matchers(self) -> Iterator[tuple[str, str]]:
        for key, entry in self.entries.items():
            for matcher in matchers_in(entry):
                yield str(key), f"{matcher.tag} {matcher.argument}".rstrip()


def _head_of(text: str) -> str:
    """Return the comment and blank lines at the beginning."""
    head: list[str] = []
    for line in text.removeprefix("\ufeff").splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            break
        head.append(line)
    return "".join(head)


def _unwritable(path: str | Path, error: Exception) -> UsageError:
    why = error.strerror if isinstance(error, OSError) else error
    return UsageError(
        f"golden {safe(str(path))}: cannot be written: {why}", "name another file after --golden"
    )
