# SPDX-License-Identifier: Apache-2.0
"""Print changes in a recording, or between two recordings, for ``diff``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from nri_scope import oci
from nri_scope.api import OpenRecording
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.changed_paths import error_without_changes
from nri_scope.differ.comparison import Comparison, compare_containers, compare_recordings
from nri_scope.differ.comparison_output import comparison
from nri_scope.differ.recording_differ import differ_of, rounds
from nri_scope.differ.render import Format, NameOf, renderer
from nri_scope.errors import THE_RECORDING, UsageError
from nri_scope.events import Container, Pod, Role, Session
from nri_scope.filter import Filter
from nri_scope.recording.display import left_out_words, runtime
from nri_scope.recording.query import lookup
from nri_scope.recording.query.coverage import (
    CHANGING,
    Coverage,
    coverage,
    life_coverage,
    range_words,
)
from nri_scope.recording.query.event_times import times_of, within
from nri_scope.recording.query.stats import GapStats
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs.path_labels import Meaning, meaning
from nri_scope.text.quantities import SHORT_ID, first_names

from .main import RECORDING_SUFFIXES
from .output import Output
from .params import say
from .recording_views import open_view, open_views, resolved_where
from .time_arguments import limited

if TYPE_CHECKING:
    from nri_scope.share.redaction import Rules

_LISTED = 12
"""Maximum number of connections listed in the title."""
_RUNTIMES = 3
"""Maximum number of runtimes listed in the title."""
_WITH_REPLIES = (Role.TAP, Role.REPLAY)


class DiffOptions(TypedDict):
    """The options of ``diff`` as click passes them."""

    arguments: tuple[str, ...]
    live: bool
    socket: Path
    name: str
    probes: str
    validate: bool
    cri: Path | None
    output: Path | None
    duration: float | None
    once: bool
    wait: bool
    redact: Rules | None
    where: Filter | None
    since: str | None
    until: str | None
    output_format: Format
    show_all: bool


def is_recording(text: str) -> bool:
    """Return whether `text` names a recording: by its suffix, or as an existing file."""
    try:
        return text.endswith(RECORDING_SUFFIXES) or Path(text).is_file()
    except (OSError, ValueError):
        return False


def one_recording(file: Path, what: str | None, options: DiffOptions) -> bool:
    """Print the changes of a recording, or of one event, pod or container in it.

    Returns whether there were any.
    """
    with Output() as output, open_view(file, options["redact"]) as view:
        recording = view.reader
        subject, meant = _subject(view, what)
        sessions = recording.sessions()
        # The CRI's answers are recorded later, possibly after the container was removed.
        has_cri_answers = any(session.role == Role.CRI for session in sessions)
        gaps = recording.gaps()
        differ = differ_of(recording, keep=has_cri_answers)
        render = renderer(
            options["output_format"],
            width=output.width,
            quiet_unchanged=not options["show_all"],
        )
        selected = _selected_events(view.original, options)
        name_of = _names(recording, differ)
        has_rounds = is_any_shown = False
        found = rounds(recording, subject, differ=differ)
        for diff in found if meant is None else _at_path(found, meant):
            if not has_rounds:
                has_rounds = True
                for line in render.head(view.name, _details(sessions, GapStats.of(gaps))):
                    output.line(line)
            if selected is None or not selected.isdisjoint(diff.events):
                is_any_shown = True
                for line in render.round(diff, name_of):
                    output.line(line)
        observed = None
        if isinstance(subject, Pod | Container):
            observed = life_coverage(recording, subject)
        elif subject is None:
            times = times_of(view.original, options["since"], options["until"])
            times = limited(within(view.original, options["where"]), times)
            observed = coverage(recording, *times, CHANGING)
        if not has_rounds:
            if meant is not None and what is not None:
                raise error_without_changes(view.original, what)
            raise _no_events(file, what, observed)
        if not is_any_shown:
            words = "no event in which plugins can make changes matches"
            say(f"{words}; {range_words(view.original)}")
        for line in render.end(observed):
            output.line(line)
        return render.changed
    # The reader of the output is gone.
    return False


def _subject(view: OpenRecording, what: str | None) -> tuple[lookup.Found | None, Meaning | None]:
    """Return the event, pod or container that `what` names, or else paths that it may mean."""
    if what is None:
        return None, None
    try:
        return view.counterpart(lookup.find(view.original, what, say)), None
    except UsageError:
        if not lookup.may_be_path(what):
            raise
        return None, meaning(what)


def _at_path(diffs: Iterable[RoundDiff], meant: Meaning) -> Iterator[RoundDiff]:
    """Yield the rounds with changes and requests at some paths, without the others."""
    for diff in diffs:
        steps = tuple(step for step in diff.steps if meant.includes(step.change.path))
        if steps:
            yield replace(diff, steps=steps, settled=(), spans=())


def two_recordings(one: Path, name: str, redact: Rules | None, output_format: Format) -> bool:
    """Print which containers differ between two recordings; return whether any does.

    `name` is that of the other file. Raises UsageError if it also names something in the first one.
    """
    other = Path(name)
    with open_views([one, other], redact) as (a, b):
        if not name.endswith(RECORDING_SUFFIXES) and _has(a.original, name):
            raise UsageError(
                f"{name} is a file, and also in {one}",
                f"use ./{name} for the file, or an id for what {one} contains",
            )
        compared = compare_recordings(a.reader, b.reader)
    if not (compared.same or compared.differs):
        raise UsageError("neither recording has containers", "`log` shows their events")
    # Full paths distinguish files of the same name in two folders.
    names = (str(one), str(other)) if redact is None else (a.name, b.name)
    return _compared(*names, compared, output_format)


class _Side(NamedTuple):
    """One of two compared containers, in its file."""

    view: OpenRecording
    file: str
    """The file's name in the title."""
    container: Container

    @property
    def title(self) -> str:
        """The names of the file and the container, and the beginning of the container's id."""
        name = lookup.container_name(self.container)
        return f"{self.file}: {name} {self.container.id[:SHORT_ID]}"


def two_containers(
    one: tuple[Path, str],
    other: tuple[Path, str],
    redact: Rules | None,
    output_format: Format,
    names: Sequence[str] = ("", ""),
) -> bool:
    """Print the differences between two containers of files; return whether there are any.

    ``names``: those of the files in the titles, if not their paths.
    """
    files = [one[0]] if other[0] == one[0] else [one[0], other[0]]
    with open_views(files, redact) as views:
        # Full paths distinguish files of the same name in two folders.
        titles = [str(file) for file in files] if redact is None else [view.name for view in views]
        a, b = (
            _Side(views[at], names[at] or titles[at], _container(views[at], file, what))
            for at, (file, what) in ((0, one), (-1, other))
        )
        compared = compare_containers(a.view.reader, a.container, b.view.reader, b.container)
    return _compared(a.title, b.title, compared, output_format)


def _compared(a: str, b: str, compared: Comparison, output_format: Format) -> bool:
    """Print the differences between two sides; return whether there are any."""
    with Output() as output:
        for line in comparison(a, b, compared, output_format, width=output.width):
            output.line(line)
    return compared.differs


def _has(recording: Recording, what: str) -> bool:
    try:
        lookup.find(recording, what)
    except UsageError:
        return False
    return True


def _container(view: OpenRecording, file: Path, what: str) -> Container:
    try:
        return view.container(what, say).container
    except UsageError as error:
        if is_recording(what):
            raise UsageError(
                f"{what} is a file, and no container in {THE_RECORDING}",
                "name both containers: FILE A B, or FILE A OTHER B",
                file,
            ) from error
        raise


def _names(recording: Recording, differ: Differ) -> NameOf:
    """Return a function from ids to names, as known to the recording, else to the differ."""
    # Names are built on demand: a million containers may share one long pod name.
    subjects: dict[str, Pod | Container] = {pod.id: pod for pod in recording.pods()}
    # In Docker Engine, a container's pod has its id.
    subjects |= {container.id: container for container in recording.containers()}

    def name_of(object_id: str) -> str:
        subject = subjects.get(object_id)
        name = "" if subject is None else lookup.subject_name(subject)
        return name or differ.name_of(object_id)

    return name_of


def _selected_events(recording: Recording, options: DiffOptions) -> set[int] | None:
    """Return the ids of the events to show; None for all. Other events still count as evidence."""
    if options["where"] is None and options["since"] is None and options["until"] is None:
        return None
    since_ns, until_ns = times_of(recording, options["since"], options["until"])
    where = resolved_where(recording.path, options["where"])
    events = recording.events(where=where, since_ns=since_ns, until_ns=until_ns)
    return {event.id for event in events}


def _details(sessions: list[Session], gaps: GapStats) -> list[str]:
    """Return descriptions of connections, runtimes and gaps for the title."""
    plugins = [session for session in sessions if session.is_connection]
    answering = [session.plugin for session in plugins if session.role in _WITH_REPLIES]
    passive = [session.plugin for session in plugins if session.role not in _WITH_REPLIES]
    runtimes = [*dict.fromkeys(runtime(session) for session in plugins)]
    found = [f"passive connections: {_listed(passive)}"] if passive else []
    found += [f"plugins with their answers: {_listed(answering)}"] if answering else []
    found += [f"runtime: {'; '.join(runtimes[:_RUNTIMES])}"] if runtimes else []
    blind_spots = {oci.runtime_rules_of(session.runtime_name).blind_spot for session in plugins}
    found += sorted(blind_spots - {""})
    if (
        len({*passive}) == 1
        and len(plugins) == len(sessions)
        and not (answering or any(blind_spots))
    ):
        found.append("only one connection: changes by plugins are visible only in later events")
    if len(plugins) < len(sessions):
        found.append("CRI: the runtime was queried for the specs it used")
    if gaps.count:
        text = f"gaps: {gaps.count:,}, which may hide changes"
        found.append(f"{text}; `log` shows them")
    if gaps.left_out:
        found.append(left_out_words(gaps.left_out))
    return found


def _listed(plugins: list[str]) -> str:
    return first_names([*dict.fromkeys(plugins)], _LISTED)


def _no_events(file: Path, what: str | None, observed: Coverage | None) -> UsageError:
    about = f' about "{what}"' if what else ""
    problem = f"{THE_RECORDING} has no events{about} in which plugins can make changes"
    problem = problem if observed is None else observed.limited(problem)
    return UsageError(problem, "`log` shows its events", file)
