# SPDX-License-Identifier: Apache-2.0
"""The ``README.md`` of a bundle, for people who find the bundle on an issue tracker."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nri_scope.recording.bundle.manifest import Manifest, Runtime
from nri_scope.recording.display import many
from nri_scope.recording.records import rfc3339
from nri_scope.text.escape import safe

_MAX_COLUMNS = 500
"""Maximum display width of a value in a table, in columns; longer values are cut."""
_MAX_PLUGINS = 50
_MAX_RUNTIMES = 5
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
nri-scope import BUNDLE.nriscope.zip
```

`recording.nriscope.db` is an SQLite 3 database. Its view `log` has one row for each event:
`sqlite3 recording.nriscope.db 'SELECT * FROM log'`.
`manifest.json` contains the facts on this page in machine-readable form."""


def render(manifest: Manifest) -> str:
    """Return the page as Markdown. Text from the recording never acts as markup."""
    parts = [f"# {_title(manifest)}", *_note(manifest.note), "\n".join(_table(manifest))]
    parts += [*_redaction(manifest), _USE]
    return "\n\n".join(parts) + "\n"


def _title(manifest: Manifest) -> str:
    return "NRI events recorded by nri-scope"


def _note(note: str) -> Iterator[str]:
    if note:
        # A fence longer than any run of tildes in the note, so that no line can end the block.
        fence = "~" * max(3, 1 + max(map(len, _TILDES.findall(note)), default=0))
        yield f"{fence}text\n{safe(note, newlines=True)}\n{fence}"


def _table(manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    yield "| | |"
    yield "|---|---|"
    for one in manifest.runtimes[:_MAX_RUNTIMES]:
        yield f"| runtime | {_code(_runtime(one))} |"
    if len(manifest.runtimes) > _MAX_RUNTIMES:
        yield f"| runtime | and {len(manifest.runtimes) - _MAX_RUNTIMES:,} more |"
    if manifest.chain:
        shown = [_code(plugin) for plugin in manifest.chain[:_MAX_PLUGINS]]
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


def _runtime(runtime: Runtime) -> str:
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
        "Within one container, equal values have equal tokens. Tokens of different containers "
        "cannot be compared. The bundle does not contain the original values."
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
