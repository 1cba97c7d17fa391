# SPDX-License-Identifier: Apache-2.0
"""The settings of a tap, from the command line or from the file that a wrapper reads, with faults
to inject in resilience tests.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.nri.events import Event
from nri_scope.writer.messages import CriSource, RecordingOptions

if TYPE_CHECKING:
    from nri_scope.share.redaction.rules import Rules


ALL = "all"
"""Placeholder for all events, used instead of an event's name."""
DELAY_MAX_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault for requests of certain events."""

    text: str
    """The value of the option."""
    events: frozenset[str]
    """Names of events."""
    probability: float
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of one tap. If several match an event, the first in field order is injected."""

    drops: tuple[Fault, ...] = ()
    """Requests that never reach the plugin."""
    errors: tuple[Fault, ...] = ()
    """Requests that are answered with an error instead of being sent to the plugin."""
    delays: tuple[Fault, ...] = ()
    """Requests whose replies are delayed."""
    seed: int = 0

    @property
    def any(self) -> bool:
        """Whether there is at least one fault."""
        return bool(self.drops or self.errors or self.delays)

    @property
    def announcement(self) -> str:
        """Note for the recording, so that faults are not mistaken for the plugin's behaviour."""
        options = [
            f"{option} {fault.text}"
            for option, faults in (
                ("--delay", self.delays),
                ("--drop", self.drops),
                ("--error", self.errors),
            )
            for fault in faults
        ]
        return f"injecting faults: {' '.join(options)} --seed {self.seed}"


def parse_faults(
    delays: Sequence[str], drops: Sequence[str], errors: Sequence[str], seed: int = 0
) -> Faults:
    """Parse the values of ``--delay``, ``--drop`` and ``--error``. Raise `UsageError`."""
    return Faults(
        drops=tuple(_fault("--drop", text) for text in drops),
        errors=tuple(_fault("--error", text) for text in errors),
        delays=tuple(_delay(text) for text in delays),
        seed=seed,
    )


def _delay(text: str) -> Fault:
    # Imported here: without this fault, a tap does not need the filter language.
    from nri_scope.filter.quantity import parse_duration

    name, equals, rest = text.partition("=")
    duration, colon, probability = rest.partition(":")
    nanoseconds = parse_duration(duration) if equals else None
    if not nanoseconds or nanoseconds / 1e9 > DELAY_MAX_S:
        raise UsageError(
            f"--delay {text!r} has no valid duration",
            "write it as EVENT=DURATION or EVENT=DURATION:P, for example CreateContainer=3s:0.1",
        )
    return Fault(
        text,
        _events("--delay", name),
        _probability("--delay", text, probability if colon else None),
        nanoseconds / 1e9,
    )


def _fault(option: str, text: str) -> Fault:
    name, colon, probability = text.partition(":")
    return Fault(
        text, _events(option, name), _probability(option, text, probability if colon else None)
    )


def _events(option: str, name: str) -> frozenset[str]:
    by_name = {event.name.lower(): event.name for event in Event}
    if name.lower() == ALL:
        return frozenset(by_name.values())
    event = by_name.get(name.lower())
    if event is None:
        nearest = difflib.get_close_matches(name.lower(), by_name, n=1, cutoff=0.4)
        hint = (
            f"did you mean {by_name[nearest[0]]}?" if nearest else "use for example CreateContainer"
        )
        raise UsageError(f"{option}: there is no event {name!r}", hint)
    return frozenset((event,))


def _probability(option: str, text: str, written: str | None) -> float:
    if written is None:
        return 1.0
    try:
        probability = float(written)
    except ValueError:
        probability = -1.0
    # NaN fails this comparison, too.
    if not 0.0 <= probability <= 1.0:
        raise UsageError(
            f"{option} {text!r}: {written!r} is not a probability", "write a number from 0 to 1"
        )
    return probability


@dataclass(frozen=True, slots=True)
class Settings:
    """A tap's settings as plain values, which can be stored in a file."""

    output: str
    where: str = ""
    """Filter of the events to keep; "" keeps all."""
    redact: str | None = None
    """A file of redaction rules; "" for the default rules; None to record without redaction."""
    cri: str | None = None
    """Socket of the CRI to query; None not to."""
    cri_waits: bool = False
    """Whether the CRI may be unavailable at first."""
    max_size: int | None = None
    """Maximum size of the recording in bytes."""
    max_age: float | None = None
    """Maximum age of events in seconds."""
    delays: tuple[str, ...] = ()
    """Values of the fault option of this name; also for the next two fields."""
    drops: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    seed: int = 0

    def recording(self) -> RecordingOptions:
        """Return the options of the recording, for its writer. Raise `NriScopeError`."""
        return RecordingOptions(
            Path(self.output).absolute(),
            os.path.lexists(self.output),
            self.max_size,
            self.max_age,
            self.where or None,
            self._rules(),
            cri=CriSource(Path(self.cri), self.cri_waits) if self.cri is not None else None,
        )

    def check(self) -> None:
        """Raise `NriScopeError` for what a writer would reject, without creating a file."""
        # Imported here: a tap itself needs neither SQLite nor the filter language.
        from nri_scope.filter import parse
        from nri_scope.recorder.ring import MIN_SIZE
        from nri_scope.recording.reader import Recording
        from nri_scope.share.source_redaction import check_continued

        parse(self.where)
        rules = self._rules()
        self.faults()
        if self.max_size is not None and self.max_size < MIN_SIZE:
            raise UsageError(
                f"a recording of at most {self.max_size} bytes is too small", "use for example 1M"
            )
        path = Path(self.output)
        if path.exists() or path.is_symlink():
            Recording.open(path).close()
        check_continued(path, redacts=rules is not None)

    def faults(self) -> Faults:
        """Return the faults to inject. Raise `UsageError` for invalid values."""
        return parse_faults(self.delays, self.drops, self.errors, self.seed)

    def _rules(self) -> Rules | None:
        if self.redact is None:
            return None
        from nri_scope.share.redaction.rule_file import read_rules
        from nri_scope.share.redaction.rules import Rules

        return read_rules(Path(self.redact)) if self.redact else Rules.DEFAULT

    def plain(self) -> dict[str, object]:
        """Return the settings as plain values, for a file."""
        return asdict(self)

    @classmethod
    def read(cls, plain: Mapping[str, object]) -> Settings:
        """Return the settings from plain values. Raise `UsageError` without an output file."""
        known = {field.name for field in fields(cls)}
        values = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in plain.items()
            if name in known
        }
        if not isinstance(values.get("output"), str):
            raise UsageError("the tap's settings have no output file")
        return cls(**values)  # type: ignore[arg-type]
