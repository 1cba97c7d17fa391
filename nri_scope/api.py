# SPDX-License-Identifier: Apache-2.0
"""Recordings for Python programs: `nri_scope.open` and `nri_scope.create`.

Methods raise errors of `nri_scope.errors`. Texts may quote a recording, and nothing is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.events import Container, Event, Gap, Note, Pod, Printed, Session
from nri_scope.recording.query import lookup
from nri_scope.recording.query.lookup import Found
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare

if TYPE_CHECKING:
    from nri_scope.differ.attribution.attributed_changes import ChangeStep
    from nri_scope.differ.attribution.history import History
    from nri_scope.differ.blame.owned_lines import OwnedLine
    from nri_scope.differ.latency import TimeIn
    from nri_scope.differ.operations import Operation
    from nri_scope.filter import Filter
    from nri_scope.nri.plain import Plain
    from nri_scope.recording.query.coverage import Coverage
    from nri_scope.recording.query.stats import Summary
    from nri_scope.recording.reading.plugin_calls import MeasuredTimes
    from nri_scope.report.finding import Finding
    from nri_scope.report.report_data import Diagnosed, Facts
    from nri_scope.share.bundle import Bundle
    from nri_scope.share.extract import Selection
    from nri_scope.share.redaction import Redactor, Rules

# Rooms above `recording` are imported in the methods, as loading all of them takes 0.1 s.
Remark = Callable[[str], None]
"""Receives a line about a result, such as which of several pods of one name is meant."""


@dataclass(frozen=True, slots=True)
class ContainerHistory:
    """A container of a recording, and what became of it."""

    container: Container
    history: History
    changed_path: str = ""
    """The path of the spec, if the container was named by one that changed."""

    @property
    def name(self) -> str:
        """``namespace/pod/container``."""
        return self.history.name

    @property
    def requests(self) -> Sequence[ChangeStep]:
        """Each value that plugins, CRI clients or the runtime asked for, in order, with its owner,
        outcome and evidence.
        """
        return self.history.steps

    def blame(self) -> Mapping[str, OwnedLine]:
        """Return the lines of the newest spec by path, such as ``/process/env/FOO``, in order.

        Headings are included, also of an array's members, such as ``/mounts/~1data``.
        `OwnedLine.exists` is False for a value that was removed or refused.
        """
        from nri_scope.differ.blame.owned_lines import lines

        return {line.path: line for line in lines(self.history, members=True)}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts, rates and times of a recording."""

    summary: Summary
    chain: Sequence[TimeIn]
    """The time that events spent in plugins, as several connections show it."""
    runtime_metrics: Sequence[MeasuredTimes]
    coverage: Coverage
    """What was observed: the counts are of these times."""
    sender_facts: Sequence[tuple[str, str]] = ()
    """What the sender of a bundle says of it: names and texts."""

    def record(self) -> dict[str, Plain]:
        """Return the values as ``report FILE --format json`` prints them."""
        chain: list[Plain] = [entry.record() for entry in self.chain]
        metrics: list[Plain] = [times.record() for times in self.runtime_metrics]
        more: dict[str, Plain] = {"chain": chain, "runtime_metrics": metrics}
        more["bundle"] = dict(self.sender_facts)
        return {**self.summary.record(), "coverage": self.coverage.record(), **more}


@dataclass(frozen=True, slots=True)
class Exported:
    """A written file."""

    path: Path
    size: int
    """Size in bytes."""
    events: int
    """Number of the selected events."""
    damage: str = ""
    """Description of the original's damage, after which no events are copied; "" if undamaged."""
    bundle: Bundle | None = None
    """What was packed, if the file is a bundle."""


class OpenRecording(AbstractContextManager["OpenRecording"]):
    """A recording or a bundle, opened for reading; a context manager.

    WHAT names an event by its number, a pod as ``namespace/pod``, a container as
    ``namespace/pod/container`` (the newest of this name), either by the beginning of its id, or
    the only container in which a path of the spec changed by that path.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = "",
        original: Recording | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Open the file. Raises RecordingError. Other parameters are those of `redacted`.

        The attributes ``reader``, ``original`` and ``redactor`` are for nri-scope's own commands,
        and not a stable interface.
        """
        self.name = name or Path(path).name
        """The file's name; redacted, if the values are."""
        self.reader = Recording.open(path)
        """The file's rows."""
        self.original = self.reader if original is None else original
        """The rows before `redacted`, which resolve names and filters."""
        self.redactor = redactor
        """What replaced the values, in a result of `redacted`."""
        self._surveyed = ExitStack()
        self._is_surveyed = False

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._surveyed.close()
        self.reader.close()

    @property
    def is_redacted(self) -> bool:
        """Whether the file was redacted before it was opened."""
        from nri_scope.recording.query.event_times import is_redacted

        return is_redacted(self.original)

    def events(self, where: str = "") -> Iterator[Event]:
        """Yield the events that match a filter, in order, with the outcome of each request.

        The first call analyses the whole recording. Raises FilterError and RecordingError.
        """
        from nri_scope.survey.foreground import surveyed

        condition = self._condition(where)
        if not self._is_surveyed:
            self._surveyed.enter_context(surveyed(self.reader, None, needed=True))
            self._is_surveyed = True
        yield from self.reader.events(where=condition)

    def _condition(self, where: str | Filter | None) -> Filter | None:
        from nri_scope.filter import parse
        from nri_scope.recording.query.event_times import within

        if isinstance(where, str):
            where = parse(where) if where else None
        return within(self.reader, where)

    def to_dicts(self, where: str = "") -> Iterator[dict[str, Plain]]:
        """Yield the events as ``show --format json`` prints them, with decoded messages."""
        from nri_scope.recording.documents import event_document

        for event in self.events(where):
            messages = self.reader.request(event.id), self.reader.reply(event.id)
            yield event_document(event, *messages)

    def operations(self) -> Iterator[Operation]:
        """Yield the operations: each event on its way through the chain, at all connections."""
        from nri_scope.differ.operations import Operation, OperationMerger

        merger = OperationMerger(self.reader, None, None, (None, None))
        for item in merger.merge(self.events(), ended=True):
            if isinstance(item, Operation):
                yield item

    def find(self, what: str, remark: Remark | None = None) -> Found:
        """Return the event, pod or container named WHAT. Raises UsageError."""
        return self.counterpart(self._named(what, remark)[0])

    def _named(self, what: str, remark: Remark | None) -> tuple[Found, str]:
        """Return the event, pod or container named WHAT, and the path if WHAT is a changed one."""
        is_path = lookup.may_be_path(what)
        try:
            return lookup.find(self.original, what, remark, or_path=is_path), ""
        except UsageError as error:
            if not is_path:
                raise
            from nri_scope.differ.changed_paths import container_changed_at

            return container_changed_at(self.original, what, error)

    def counterpart(self, subject: Found) -> Found:
        """Return the redacted value of one of ``original``. Raises UsageError."""
        if self.redactor is None:
            return subject
        counterpart: Found | None
        if isinstance(subject, Event):
            counterpart = self.reader.event(subject.id)
        else:
            alike = self.pods() if isinstance(subject, Pod) else self.containers()
            counterpart = next((one for one in alike if one.id == subject.id), None)
        if counterpart is None:
            raise UsageError(
                "the redaction rules replace the id of the named event, pod or container",
                "write a redacted copy with `export --redact`, and look up its id there",
            )
        return counterpart

    def with_outcomes(self, event: Event) -> Event:
        """Return an event with the changes and outcomes that only several events show.

        Raises RecordingError.
        """
        from nri_scope.survey.foreground import attributed

        return attributed(self.reader, [event]).get(event.id, event)

    def document(self, subject: Found) -> dict[str, Plain]:
        """Return all data of an event, a pod or a container as the command show prints it."""
        from nri_scope.recording.documents import document

        return document(self.reader, subject)

    def container(self, what: str, remark: Remark | None = None) -> ContainerHistory:
        """Return a container named WHAT, by an event about it, or by its pod if that has only one.

        Raises UsageError.
        """
        from nri_scope.differ.recording_differ import history_from
        from nri_scope.recording.query.container_events import history_events

        subject, path = self._named(what, remark)
        container = self.counterpart(lookup.container_of(self.original, subject, remark))
        assert isinstance(container, Container)
        events = history_events(self.reader, container)
        return ContainerHistory(container, history_from(events), path)

    def containers(self) -> list[Container]:
        """Return all containers of events and Synchronize requests."""
        return self.reader.containers()

    def pods(self) -> list[Pod]:
        """Return all pods of events and Synchronize requests."""
        return self.reader.pods()

    def sessions(self) -> list[Session]:
        """Return all sessions, oldest first."""
        return self.reader.sessions()

    def gaps(self) -> list[Gap]:
        """Return the intervals that were not observed, or only partly, ordered by start."""
        return self.reader.gaps()

    def coverage(self, since: str | None = None, until: str | None = None) -> Coverage:
        """Return which of a time was observed, by default of the whole recording.

        No events, findings or changes of a time that was not observed mean nothing. Raises
        UsageError.
        """
        from nri_scope.recording.query.coverage import coverage
        from nri_scope.recording.query.event_times import times_of

        return coverage(self.reader, *times_of(self.reader, since, until))

    def notes(self) -> list[Note]:
        """Return the remarks of the programs that wrote the recording, ordered by time."""
        return self.reader.notes()

    def output(self) -> Iterator[Printed]:
        """Yield the lines that tapped plugins printed, in recorded order."""
        from nri_scope.recording.reading.tap_tables import printed

        return printed(self.reader)

    def statistics(self) -> Statistics:
        """Return counts, rates and times."""
        from nri_scope.differ.latency import latency
        from nri_scope.recording.query.coverage import coverage
        from nri_scope.recording.query.event_times import sender_facts
        from nri_scope.recording.query.stats import summarise
        from nri_scope.recording.reading.plugin_calls import measured_times

        return Statistics(
            summarise(self.reader),
            latency(self.reader),
            measured_times(self.reader),
            coverage(self.reader),
            sender_facts(self.reader),
        )

    def findings(self) -> Sequence[Finding]:
        """Return the problems that ``report --diagnose`` names, the worst first."""
        return self.diagnosis().findings

    def diagnosis(
        self, subject: Found | None = None, on_progress: OnShare | None = None
    ) -> Diagnosed:
        """Return the findings about a pod, a container or all, and what they are about."""
        from nri_scope.report.finder import diagnose

        diagnosis = diagnose(self.reader, subject, on_progress=on_progress)
        return diagnosis if self.redactor is None else replace(diagnosis, file=self.name)

    def report(self, subject: Found | None = None, on_progress: OnShare | None = None) -> Facts:
        """Return the content of a report about a pod, a container or all."""
        from nri_scope.report.collect import collect

        facts = collect(self.reader, subject, on_progress=on_progress)
        return facts if self.redactor is None else replace(facts, file=self.name)

    def selection(
        self,
        where: str | Filter | None = None,
        since: str | None = None,
        until: str | None = None,
        pod: str | None = None,
        on_progress: OnShare | None = None,
    ) -> Selection:
        """Return a choice of events for `export`, by the options of ``export``.

        Raises FilterError and UsageError.
        """
        from nri_scope.recording.query.event_times import times_of
        from nri_scope.share.extract import Selection
        from nri_scope.survey.foreground import resolved

        condition = resolved(self.reader, self._condition(where), on_progress)
        return Selection(condition, *times_of(self.reader, since, until), pod or "")

    def export(
        self,
        output: str | Path,
        selection: Selection | None = None,
        *,
        redactor: Redactor | None = None,
        form: str = "",
        note: str = "",
        max_bytes: int | None = None,
        force: bool = False,
        on_progress: OnShare | None = None,
    ) -> Exported:
        """Write selected events, all by default, as the command ``export`` does.

        A file named *.zip is a bundle, with ``note`` and at most ``max_bytes`` (25,000,000); with
        ``form``, the file is of that format for other programs; any other file is a recording.
        ``redactor`` is of `nri_scope.share.bundle.redactor_for`. ``force``: replace files. Raises
        UsageError, RedactionLeak and RecordingError; the file is complete, or is not written.
        """
        from nri_scope.share import bundle, redacted_copy
        from nri_scope.share.extract import Selection
        from nri_scope.share.formats import FORMATS
        from nri_scope.share.output_files import Outputs
        from nri_scope.survey.foreground import analysed

        path, chosen = Path(output), selection or Selection()
        if form:
            with Outputs(path, self.reader.path, force=force) as outputs:
                draft = outputs.new(FORMATS[form].suffix)
                count = redacted_copy.convert(
                    self.reader, FORMATS[form], draft, path, chosen, redactor, analysed, on_progress
                )
                size = draft.stat().st_size
                outputs.place(draft)
            return Exported(path, size, count)
        if path.suffix.lower() == ".zip":
            packed = bundle.export(
                self.reader,
                path,
                bundle.BundleContent(chosen, redactor, note),
                max_bytes=max_bytes or bundle.MAX_BYTES,
                force=force,
                on_progress=on_progress,
            )
            size, manifest = packed.size, packed.manifest
            return Exported(packed.path, size, manifest.counts.events, manifest.damage, packed)
        copy = redacted_copy.copy_recording(
            self.reader, path, redactor, chosen, force=force, on_progress=on_progress
        )
        return Exported(path, path.stat().st_size, copy.counts.events, copy.damage)


@contextmanager
def redacted(
    recordings: Sequence[OpenRecording],
    rules: Rules,
    *,
    on_progress: OnShare | None = None,
    remark: Remark = lambda text: None,
) -> Iterator[list[OpenRecording]]:
    """Yield recordings with secret and personal values replaced, and equal numbers and ids.

    Containers of one name have equal tokens for equal values in all of them. Raises RedactionLeak,
    RecordingError, and UsageError if temporary files cannot be written.
    """
    from nri_scope.recording.file.temporary_files import temporary_folder, writing_to
    from nri_scope.share.bundle import redactor_for
    from nri_scope.share.redacted_copy import redact_for_comparison

    originals = [recording.original for recording in recordings]
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        # One, so that containers of one name have equal tokens for equal values.
        redactor = redactor_for(originals[0], rules)
        with writing_to(folder):
            copies = redact_for_comparison(originals, folder, redactor, on_progress)
        views: list[OpenRecording] = []
        for recording, copy in zip(recordings, copies, strict=True):
            if copy.damage:
                remark(f"data after the damage is missing: {copy.damage}")
            # A default name of `record` contains the host name.
            name = redactor.text(recording.name, "file.name")
            view = OpenRecording(
                copy.path, name=name, original=recording.original, redactor=redactor
            )
            views.append(stack.enter_context(view))
        yield views
