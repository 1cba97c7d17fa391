# SPDX-License-Identifier: Apache-2.0
"""The content of a bundle's manifest, read from the packed recording, and of its ``README.md``.

The latter is for people who find the bundle on an issue tracker.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nri_scope import __version__
from nri_scope.events import Role, Session, UserMark
from nri_scope.recording.bundle.manifest import Manifest, ManifestRuntime, Redaction, ReplacedValues
from nri_scope.recording.query.event_times import is_redacted
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import rfc3339
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many

from ..extract import Extracted, Selection
from ..redaction import Redactor

_MAX_RUNTIMES = 20
_MAX_PLUGINS = 200
"""Maximum number of plugins to list; keeps the manifest below `MAX_MANIFEST`."""
_MAX_NAME = 100
"""Maximum number of characters of a name. Longer names, which only untrusted recordings have, are
cut."""


@dataclass(frozen=True, slots=True)
class BundleContent:
    """What a bundle contains of a recording."""

    selection: Selection = Selection()  # noqa: RUF009 - frozen
    redactor: Redactor | None = None
    """None: nothing is redacted."""
    note: str = ""
    """Text for the bundle's readers, redacted as well."""
    marks: Sequence[UserMark] | None = None
    """The recording's marks; None: those stored in it and beside it."""


def manifest_of(
    source: Recording, content: BundleContent, rebuilt: Extracted
) -> tuple[Manifest, Counter[str]]:
    """Return the manifest without `Manifest.files`, and the number of events of each pod.

    Texts typed by the user are redacted, too. Raises RecordingError.
    """
    redactor, criteria = content.redactor, content.selection.criteria
    with Recording.open(rebuilt.path) as recording:
        sessions = [session for session in recording.sessions() if session.role != Role.CRI]
        chain = {session.plugin for session in sessions}
        pods: Counter[str] = Counter()
        for event in recording.events():
            chain.update(event.owners)
            if event.pod:
                pods[f"{event.namespace}/{event.pod}"] += 1
        version = recording.version
        # Omitted events are counted in `Counts.left_out`.
        gaps = sum(not gap.is_left_out for gap in recording.gaps())

    def shown(text: str, place: str) -> str:
        return text if redactor is None else redactor.text(text, f"manifest.{place}")

    manifest = Manifest(
        tool_version=__version__,
        recording_version=version,
        counts=replace(rebuilt.counts, gaps=gaps),
        first_ns=rebuilt.first_ns,
        last_ns=rebuilt.last_ns,
        runtimes=tuple(islice(dict.fromkeys(map(_runtime, sessions)), _MAX_RUNTIMES)),
        chain=tuple(plugin[:_MAX_NAME] for plugin in sorted(chain)[:_MAX_PLUGINS]),
        selection={name: shown(text, "selection") for name, text in criteria.items()},
        note=shown(content.note, "note"),
        damage=shown(rebuilt.damage, "damage")[:_MAX_NAME],
    )
    if redactor is not None:
        manifest = replace(manifest, redaction=_report(redactor, before=is_redacted(source)))
    return manifest, pods


def _report(redactor: Redactor, *, before: bool) -> Redaction:
    replaced = (
        ReplacedValues(one.rule, one.place[:_MAX_NAME], one.values) for one in redactor.tally
    )
    # The name of the rules file may itself be confidential.
    rules = "default, changed by a file or --keep" if redactor.rules.source else "default"
    return Redaction(rules, tuple(replaced), before=before)


def _runtime(session: Session) -> ManifestRuntime:
    return ManifestRuntime(
        session.runtime_name[:_MAX_NAME],
        session.runtime_version[:_MAX_NAME],
        session.nri_version[:_MAX_NAME],
        session.nri_version_inferred,
    )


_MAX_COLUMNS = 500
"""Maximum display width of a value in a table, in columns; longer values are cut."""
_MAX_SHOWN_PLUGINS = 50
_MAX_SHOWN_RUNTIMES = 5
_TICKS = re.compile("`+")
_TILDES = re.compile("~+")

_UNREDACTED = """\
**This bundle was packed without redaction.** Unless the recording was already redacted, it contains
everything that the runtime sent about its containers: environment variables with their secrets,
arguments, annotations. Share it only with people who are allowed to see these.
To pack a redacted bundle, run `nri-scope export FILE -o X.nriscope.zip --redact`."""

_USE = """\
## How to open it

There is no need to unpack the bundle: every nri-scope command that reads a recording also reads a
bundle.

```
nri-scope tui BUNDLE.nriscope.zip
nri-scope log BUNDLE.nriscope.zip
nri-scope replay BUNDLE.nriscope.zip -- ./your-plugin
nri-scope export BUNDLE.nriscope.zip -o recording.nriscope.db
```

`recording.nriscope.db` is an SQLite 3 database. Its view `log` has one row for each event:
`sqlite3 recording.nriscope.db 'SELECT * FROM log'`.
`manifest.json` contains the facts on this page in machine-readable form."""


def render(manifest: Manifest) -> str:
    """Return the page as Markdown. Text from the recording never acts as markup."""
    parts = [
        "# NRI events recorded by nri-scope",
        *_note(manifest.note),
        "\n".join(_table(manifest)),
    ]
    parts += [*_redaction(manifest), _USE]
    return "\n\n".join(parts) + "\n"


def _note(note: str) -> Iterator[str]:
    if note:
        # A fence longer than any run of tildes in the note, so that no line can end the block.
        fence = "~" * max(3, 1 + max(map(len, _TILDES.findall(note)), default=0))
        yield f"{fence}text\n{safe(note, newlines=True)}\n{fence}"


def _table(manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    yield "| | |"
    yield "|---|---|"
    for runtime in manifest.runtimes[:_MAX_SHOWN_RUNTIMES]:
        yield f"| runtime | {_code(_runtime_line(runtime))} |"
    if len(manifest.runtimes) > _MAX_SHOWN_RUNTIMES:
        yield f"| runtime | and {len(manifest.runtimes) - _MAX_SHOWN_RUNTIMES:,} more |"
    if manifest.chain:
        shown = [_code(plugin) for plugin in manifest.chain[:_MAX_SHOWN_PLUGINS]]
        more = len(manifest.chain) - len(shown)
        yield f"| plugins | {', '.join(shown)}{f' and {more} more' if more else ''} |"
    yield f"| events | {counts.events:,}{_more(manifest)} |"
    if manifest.first_ns is not None and manifest.last_ns is not None:
        yield f"| first event | {rfc3339(manifest.first_ns)} |"
        yield f"| last event | {rfc3339(manifest.last_ns)} |"
    yield (
        f"| scope | {many(counts.sessions, 'session')}, {many(counts.pods, 'pod')}, "
        f"{many(counts.containers, 'container')} |"
    )
    yield f"| gaps | {counts.gaps or 'none'} |"
    for option, value in manifest.selection.items():
        yield f"| selected with | {_code(option)} {_code(value)} |"
    if manifest.damage:
        yield f"| damaged original | {_code(manifest.damage)} |"
    yield f"| packed by | nri-scope {_code(manifest.tool_version)} |"


def _runtime_line(runtime: ManifestRuntime) -> str:
    name = f"{runtime.name} {runtime.version}".strip() or "unknown"
    if not runtime.nri_version:
        return name
    inferred = " (inferred)" if runtime.nri_version_inferred else ""
    return f"{name}, NRI {runtime.nri_version}{inferred}"


def _more(manifest: Manifest) -> str:
    counts = manifest.counts
    more = [f"and {counts.context:,} for context"] if counts.context else []
    more += [f"{counts.left_out:,} of the original left out"] if counts.left_out else []
    return f" ({'; '.join(more)})" if more else ""


def _redaction(manifest: Manifest) -> Iterator[str]:
    redaction = manifest.redaction
    yield "## Redaction"
    if redaction is None:
        yield _UNREDACTED
        return
    before = " The original had already been redacted." if redaction.before else ""
    yield (
        f"Rules: {_code(redaction.rules)}. Replaced: {many(redaction.total, 'value')}.{before} "
        "Within one container, and the containers of its name in the pods of one workload, equal "
        "values have equal tokens. Tokens of others cannot be compared. The bundle does "
        "not contain the original values."
    )
    if redaction.replaced:
        rows = [f"| {_code(rule)} | {values:,} |" for rule, values in redaction.by_rule().items()]
        yield "\n".join(["| rule | values |", "|---|---:|", *rows])


def _code(text: str) -> str:
    """Return ``text`` as code for a table cell, without markup, links or cell separators."""
    shown = safe(text, _MAX_COLUMNS) or " "
    ticks = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    # Without a space, a backtick at the edge would extend the delimiter.
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown.replace('|', chr(92) + '|')}{space}{ticks}"
