# SPDX-License-Identifier: Apache-2.0
"""Write a failing replay as a test case for `nri_scope.pytest_plugin`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.regular_files import write_private
from nri_scope.runtime import RECORDED
from nri_scope.text.escape import safe

from ..chain import Command
from ..golden import Golden, Key, entries_of
from ..golden.compare import merge_matchers
from ..golden.matchers import Expected
from ..replies import Reply
from ..result import Replayed
from ..run import Job
from .failure import Check
from .shrink import AgainstGolden, key_of

_NAME_MAX = 80
"""Maximum number of characters of a test's name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Paths of a test case's files."""

    folder: Path
    name: str
    """Name of the test, with which the names of all files begin."""

    @property
    def test(self) -> Path:
        """Path of the test itself."""
        return self.folder / f"{self.name}.py"

    @property
    def recording(self) -> Path:
        """Path of the recording."""
        return self.folder / f"{self.name}.nriscope.db"

    @property
    def golden(self) -> Path:
        """Path of the golden, where the fixture expects it."""
        return self.folder / "goldens" / self.name / f"{self.name}.yaml"

    def config(self, index: str) -> Path:
        """Return the path of a plugin's configuration; of all plugins' for ``index`` ""."""
        return self.folder / f"{self.name}.{index or 'all'}.conf"

    @classmethod
    def of(cls, folder: Path, check: Check, *, force: bool = False) -> Place:
        """Name the test after the failure. Raises UsageError if files exist, unless ``force``."""
        words = f"{check.event} {check.subject}" if check.event else f"{check.plugin} {check.kind}"
        separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words).lower()
        name = re.sub(r"[^a-z0-9]+", "_", f"test {separated}").strip("_")[:_NAME_MAX]
        place = cls(folder, name)
        for path in (place.test, place.recording, place.golden):
            if os.path.lexists(path) and not force:
                raise UsageError(
                    f"{path}: file exists",
                    "name another folder after --pytest, or add --force",
                )
        return place


def write_test(
    place: Place,
    job: Job,
    check: Check,
    *,
    faults: Sequence[str] = (),
    has_golden: bool = False,
    force: bool = False,
) -> None:
    """Write the test, and the configuration of its plugins. Raises `UsageError`.

    ``faults``: in the syntax of ``--fault``. ``force``: overwrite existing files. The caller writes
    the recording and the golden.
    """
    last = f"    result.{'assert_golden' if has_golden else 'assert_ok'}()"
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
        for index, config in job.plugin_set.configs.items():
            write_private(place.config(index), config.encode(), only_new=not force)
        test = "\n".join([*_head(check), *_body(place, job, faults), last, ""])
        write_private(place.test, test.encode(), only_new=not force)
    except OSError as error:
        raise UsageError(
            f"{error.filename or place.test}: cannot be written: {error_words(error)}",
            "name another folder after --pytest",
        ) from error


def golden_of(against: AgainstGolden, check: Check, replayed: Replayed) -> Golden:
    """Return the golden for a part of a recording, from the golden of the whole.

    Current replies that differ because of removed events are accepted, but not the failing check.
    ``replayed``: a replay of the part.
    """
    entries: dict[Key, Expected] = {}
    expected, failing = against.golden.entries, key_of(check)
    replies = list(replayed.replies())
    differ = {key_of(one) for one in against.checks(replayed) if one.kind.startswith("golden ")}
    for reply, as_whole in zip(replies, against.as_in_whole(replies), strict=True):
        key, content = _entry(reply, replayed)
        old, _ = _entry(as_whole, replayed)
        if old == failing and old not in expected:
            # This reply must not occur.
            continue
        entries[key] = (
            expected[old] if old in expected and (old == failing or old not in differ) else content
        )
    if check.kind == "golden unused":
        entries[failing] = expected[failing]
    entries = dict(sorted(entries.items(), key=lambda entry: entry[0].place))
    return replace(against.golden, origin=replayed.origin, entries=entries, path="", lines={})


def _entry(reply: Reply, replayed: Replayed) -> tuple[Key, Expected]:
    ((key, content),) = entries_of([reply], replayed.name_of).items()
    return key, merge_matchers({}, content)


# -- the test itself ---------------------------------------------------------------------------


def _head(check: Check) -> Iterator[str]:
    yield f'"""{_docstring_text(check)}'
    yield ""
    yield "Written by `nri-scope shrink`; it fails until the plugin is fixed."
    yield '"""'
    yield ""
    yield "from pathlib import Path"
    yield ""
    yield "import pytest"
    yield "from nri_scope.pytest_plugin import NriReplay"
    yield ""
    yield "HERE = Path(__file__).parent"
    yield ""


def _body(place: Place, job: Job, faults: Sequence[str]) -> Iterator[str]:
    yield "PLUGINS = {"
    for plugin in sorted(job.plugin_set.plugins, key=lambda one: one.index):
        argv = plugin.argv if isinstance(plugin, Command) else ()
        yield f"    {_text(plugin.id)}: ["
        for index, word in enumerate(argv):
            # A program without a slash is looked up in PATH.
            is_path = "/" in word or (index > 0 and "." in word)
            yield f"        {_word(word, place.folder) if is_path else _text(word)},"
        yield "    ],"
    yield "}"
    yield ""
    yield ""
    yield f"@pytest.mark.nri_recording({_text(place.recording.name)})"
    yield f"def {place.name}(nri_replay: NriReplay) -> None:"
    arguments = list(_arguments(place, job, faults))
    if arguments:
        yield "    result = nri_replay("
        yield "        PLUGINS,"
        yield from (f"        {line}" for line in arguments)
        yield "    )"
    else:
        yield "    result = nri_replay(PLUGINS)"


def _arguments(place: Place, job: Job, faults: Sequence[str]) -> Iterator[str]:
    plugin_set = job.plugin_set
    if plugin_set.configs:
        files = ((index, place.config(index).name) for index in plugin_set.configs)
        yield from _mapping(
            "config", {index: f"(HERE / {_text(name)}).read_text()" for index, name in files}
        )
    if plugin_set.environment:
        variables = plugin_set.environment.items()
        yield from _mapping("environment", {name: _text(value) for name, value in variables})
    if job.profile != RECORDED:
        yield f"profile={_text(job.profile)},"
    if faults:
        yield f"faults=[{', '.join(map(_text, faults))}],"
    if not job.playback.effects:
        yield "effects=False,"
    if job.ideal:
        yield "ideal=True,"
    if any(isinstance(one, Command) and one.external for one in job.plugin_set.plugins):
        yield "external=True,"


def _mapping(name: str, items: Mapping[str, str]) -> Iterator[str]:
    """Yield a keyword argument, one line per item. Values are code."""
    yield f"{name}={{"
    yield from (f"    {_text(key)}: {value}," for key, value in items.items())
    yield "},"


def _word(word: str, folder: Path) -> str:
    """Return code for a word of a command, with paths of files relative to the test."""
    if Path(word).is_absolute() or not os.path.lexists(word):
        return _text(word)
    return f"str(HERE / {_text(os.path.relpath(word, folder))})"


def _text(text: str) -> str:
    """Return a Python string literal for ``text``."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else ascii(text)


def _docstring_text(check: Check) -> str:
    """Return the text of a check, safe in a docstring."""
    text = safe(check.text, 90).replace("\\", "/").replace('"', "'")
    return text if text.endswith((".", "…")) else f"{text}."
