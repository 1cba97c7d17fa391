# SPDX-License-Identifier: Apache-2.0
"""Encode and parse ``manifest.json``, the description of a bundle by the program that packed it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TypeVar

from nri_scope.nri.plain import Plain

FORMAT = "nri-scope bundle"
VERSION = 1
"""Increased for changes that an older reader could not understand, not for additions."""

MANIFEST, README, RECORDING = "manifest.json", "README.md", "recording.nriscope.db"

MAX_MANIFEST = 1 << 20
"""Maximum number of bytes of a manifest."""
_MAX_LIST = 10_000
_MAX_DIGITS = 20
"""Maximum number of digits displayed in an error. Python parses numbers of up to 4,300."""
_SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")


class ManifestError(ValueError):
    """Malformed manifest. The text is the reason."""


class NewerBundle(ManifestError):
    """Manifest of a newer version."""


@dataclass(frozen=True, slots=True)
class File:
    """File in the bundle."""

    size: int
    sha256: str
    """Hash of the file, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class ManifestRuntime:
    """Runtime whose events are in the recording."""

    name: str
    version: str
    nri_version: str
    """Version of NRI; "" if unknown."""
    nri_version_inferred: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of events, sessions, pods, containers and gaps in the recording."""

    events: int
    """Number of selected events."""
    context: int
    """Number of additional events that are needed to replay the selected ones."""
    left_out: int
    """Number of events of the original that are not in the bundle."""
    sessions: int
    pods: int
    containers: int
    gaps: int


@dataclass(frozen=True, slots=True)
class ReplacedValues:
    """Number of replaced values for one rule and place."""

    rule: str
    place: str
    values: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """Replaced values, without the originals."""

    rules: str
    """Description of the rules: whether they were the default ones."""
    replaced: tuple[ReplacedValues, ...] = ()
    before: bool = False
    """Whether the original had been redacted before."""

    @property
    def total(self) -> int:
        """Total number of replacements."""
        return sum(replacement.values for replacement in self.replaced)

    def by_rule(self) -> dict[str, int]:
        """Return the replacements of each rule, by its name."""
        sums: dict[str, int] = {}
        for replacement in self.replaced:
            sums[replacement.rule] = sums.get(replacement.rule, 0) + replacement.values
        return dict(sorted(sums.items()))


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a bundle. Times are wall clock, ns since 1970 UTC."""

    tool_version: str
    recording_version: int
    counts: Counts
    first_ns: int | None
    """Time of the first selected event; None if there is none."""
    last_ns: int | None
    runtimes: tuple[ManifestRuntime, ...] = ()
    chain: tuple[str, ...] = ()
    """Plugins (``NN-name``) that were recorded, or that made changes."""
    selection: Mapping[str, str] = field(default_factory=dict[str, str])
    """Selection criteria, by option."""
    redaction: Redaction | None = None
    """None if the recording is not redacted."""
    note: str = ""
    damage: str = ""
    """Damage of the original recording; "" if none."""
    files: Mapping[str, File] = field(default_factory=dict[str, File])
    """All other files in the bundle, by name."""

    @property
    def subject(self) -> str:
        """The pod or container whose events were selected; "" if the selection names none."""
        return subject_of(self.selection)


def subject_of(selection: Mapping[str, str]) -> str:
    """Return ``pod NS/POD`` or ``container NS/POD/NAME`` of a selection; "" if it names none."""
    for name in ("container", "pod", "--pod"):
        if selection.get(name):
            return f"{name.removeprefix('--')} {selection[name]}"
    return ""


def to_bytes(manifest: Manifest) -> bytes:
    """Return a manifest as JSON."""
    redaction = manifest.redaction
    document: dict[str, Plain] = {
        "format": FORMAT,
        "version": VERSION,
        "tool": {"name": "nri-scope", "version": manifest.tool_version},
        "recording": {
            "version": manifest.recording_version,
            **asdict(manifest.counts),
            "first_ns": manifest.first_ns,
            "last_ns": manifest.last_ns,
            "damage": manifest.damage,
        },
        "runtimes": [asdict(runtime) for runtime in manifest.runtimes],
        "chain": list(manifest.chain),
        "selection": dict(manifest.selection),
        "redaction": None
        if redaction is None
        else {
            "rules": redaction.rules,
            "total": redaction.total,
            "by_rule": dict(redaction.by_rule()),
            "replaced": [asdict(values) for values in redaction.replaced],
            "before": redaction.before,
        },
        "note": manifest.note,
        "files": {name: asdict(file) for name, file in manifest.files.items()},
    }
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def from_bytes(data: bytes) -> Manifest:
    """Parse and check a manifest. Raises no error but ManifestError.

    Unknown keys are ignored, as a later version may have added them.
    """
    top = _Table(_parsed(data), "the manifest")
    if top.get("format", str) != FORMAT:
        raise ManifestError("its manifest is not a bundle's")
    version = top.get("version", int)
    if version > VERSION:
        raise NewerBundle(
            f"a bundle of version {_digits(version)}, and this nri-scope reads up to {VERSION}"
        )
    if version < 1:
        raise ManifestError(f"there is no version {_digits(version)} of bundles")
    recording = top.table("recording")
    return Manifest(
        tool_version=top.table("tool").get("version", str),
        recording_version=recording.count("version"),
        counts=Counts(**{member.name: recording.count(member.name) for member in fields(Counts)}),
        first_ns=recording.time("first_ns"),
        last_ns=recording.time("last_ns"),
        runtimes=tuple(
            ManifestRuntime(
                name=table.get("name", str),
                version=table.get("version", str),
                nri_version=table.get("nri_version", str),
                nri_version_inferred=table.get("nri_version_inferred", bool),
            )
            for table in top.tables("runtimes")
        ),
        chain=tuple(_as(plugin, str, "chain") for plugin in top.values("chain")),
        selection={
            name: _as(value, str, f"selection.{name}")
            for name, value in top.table("selection").items()
        },
        redaction=_redaction(top.optional_table("redaction")),
        note=top.get("note", str),
        damage=recording.get("damage", str),
        files={name: _file(table) for name, table in top.table("files").tables_by_name()},
    )


def _redaction(table: _Table | None) -> Redaction | None:
    if table is None:
        return None
    return Redaction(
        rules=table.get("rules", str),
        replaced=tuple(
            ReplacedValues(row.get("rule", str), row.get("place", str), row.count("values"))
            for row in table.tables("replaced")
        ),
        before=table.flag("before"),
    )


def _file(table: _Table) -> File:
    file = File(table.count("size"), table.get("sha256", str))
    if not _SHA256.fullmatch(file.sha256):
        raise ManifestError(f"{table.path}.sha256 in its manifest is not a SHA-256")
    return file


class _Table:
    """JSON object; ``path`` is used in errors."""

    def __init__(self, value: object, path: str) -> None:
        self._values = _as_table(value, path)
        self.path = path

    def get(self, name: str, kind: type[T]) -> T:
        if name not in self._values:
            raise ManifestError(f"its manifest has no {self._member_path(name)}")
        return _as(self._values[name], kind, self._member_path(name))

    def count(self, name: str) -> int:
        number = self.get(name, int)
        if not 0 <= number < 1 << 63:
            raise ManifestError(f"{self._member_path(name)} in its manifest is not a count")
        return number

    def flag(self, name: str) -> bool:
        """Return a boolean that earlier versions did not write."""
        return name in self._values and self.get(name, bool)

    def time(self, name: str) -> int | None:
        if self._values.get(name) is None:
            return None
        moment = self.get(name, int)
        # An untrusted recording may have times before 1970.
        if not -(1 << 63) <= moment < 1 << 63:
            raise ManifestError(f"{self._member_path(name)} in its manifest is not a time")
        return moment

    def table(self, name: str) -> _Table:
        return _Table(self._values.get(name), self._member_path(name))

    def optional_table(self, name: str) -> _Table | None:
        return None if self._values.get(name) is None else self.table(name)

    def values(self, name: str) -> list[object]:
        members = self._values.get(name)
        if not isinstance(members, list) or len(members) > _MAX_LIST:
            raise ManifestError(f"{self._member_path(name)} in its manifest is not a list")
        return members

    def tables(self, name: str) -> list[_Table]:
        path = self._member_path(name)
        return [_Table(member, f"{path}.{index}") for index, member in enumerate(self.values(name))]

    def tables_by_name(self) -> list[tuple[str, _Table]]:
        return [(name, self.table(name)) for name in self._values]

    def items(self) -> list[tuple[str, object]]:
        return list(self._values.items())

    def _member_path(self, name: str) -> str:
        # The name may be untrusted, so a long one is shortened.
        short = name if len(name) <= 60 else f"{name[:60]}…"
        return short if self.path == "the manifest" else f"{self.path}.{short}"


def _as_table(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict) or len(value) > _MAX_LIST:
        raise ManifestError(f"{path} is not an object" if path == "the manifest" else _kind(path))
    return value


def _as(value: object, kind: type[T], path: str) -> T:
    # Not isinstance, as a bool is an int.
    if type(value) is not kind:
        raise ManifestError(_kind(path))
    assert isinstance(value, kind)
    return value


def _digits(number: int) -> str:
    text = str(number)
    return text if len(text) <= _MAX_DIGITS else f"{text[:_MAX_DIGITS]}…"


def _kind(path: str) -> str:
    return f"{path} in its manifest has the wrong type"


def _parsed(data: bytes) -> object:
    if len(data) > MAX_MANIFEST:
        raise ManifestError("its manifest is too large")
    try:
        parsed: object = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except ManifestError:
        raise
    except (ValueError, RecursionError) as error:
        raise ManifestError("its manifest is not JSON") from error
    return parsed


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ManifestError("its manifest has a duplicate key")
    return table
