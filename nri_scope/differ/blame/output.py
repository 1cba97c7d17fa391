# SPDX-License-Identifier: Apache-2.0
"""Print what `blame` shows of a container: lines of text, or a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nri_scope.nri.plain import Plain
from nri_scope.recording.records import SCHEMA_VERSION, rfc3339
from nri_scope.specs import Absent

from ..attribution.attributed_changes import ChangeStep
from ..attribution.history import History
from ..render.document import shallow, step_record
from .owned_lines import OwnedLine
from .path_history import PathHistory, history_body, whole_container_requests
from .text import View, body, head, legend, view


def page(
    history: History,
    lines: Sequence[OwnedLine],
    histories: Sequence[PathHistory] | None,
    kind: View,
    width: int | None,
) -> Iterator[str]:
    """Yield the lines of a container, or of path histories, with a head and a legend."""
    if histories is None:
        shown, items = body(view(lines, kind), width)
        yield from head(history, lines, width)
    else:
        shown, items = history_body(history, histories, width)
        yield from head(history, None, width, whole_container_requests(history))
    yield from ("", *shown, "") if shown else ()
    yield from legend(items, width)


def document(
    history: History,
    lines: Iterable[OwnedLine],
    histories: Iterable[PathHistory] | None = None,
    path: str = "",
) -> dict[str, Plain | Iterator[Plain]]:
    """Return the existing ``lines`` that have a value, with their owners, and ``changes`` and other
    ``requests`` in order.

    They are iterators: a hostile recording may contain a huge number. With `histories` the document
    is the history of `path`, and ``began`` contains the initial values.
    """
    result: dict[str, Plain | Iterator[Plain]] = {
        "schema_version": SCHEMA_VERSION,
        "container": {
            "name": history.name,
            "id": history.id,
            "created_event": history.created_event or None,
            "created": history.created and not history.failure,
            "absences": [*history.absences],
            "failure": history.failure,
            "doubt": history.doubt,
            "real_event": history.real_event if history.real is not None else None,
        },
    }
    if histories is None:
        steps: list[ChangeStep] = list(history.steps)
    else:
        histories = list(histories)
        paths = {path_history.path for path_history in histories}
        steps = [step for step in history.steps if step.change.path in paths]
        result["path"] = path
        result["began"] = [
            {
                "path": path_history.path,
                "value": shallow(path_history.began),
                "owner": str(history.base_owner),
            }
            for path_history in histories
            if not isinstance(path_history.began, Absent)
        ]
    result["lines"] = (
        _line(row) for row in lines if row.exists and not row.heading and _is_in(row.path, path)
    )

    def name_of(_id: str) -> str:
        return history.name

    result["changes"] = (step_record(step, name_of) for step in steps if step.is_change)
    result["requests"] = (step_record(step, name_of) for step in steps if not step.is_change)
    result["remarks"] = list(history.remarks)
    result["coverage"] = None if history.coverage is None else history.coverage.record()
    return result


def _is_in(path: str, parent: str) -> bool:
    return not parent or path == parent or path.startswith(f"{parent}/")


def _line(line: OwnedLine) -> dict[str, Plain]:
    step = line.step
    return {
        "path": line.path,
        "value": shallow(line.value),
        "owner": str(line.owner),
        "index": "" if line.owner is None else line.owner.index,
        "evidence": [str(kind) for kind in line.evidence],
        "event": None if step is None else step.event,
        "at": None if step is None else rfc3339(step.at_ns),
        "before": shallow(line.before),
        "changed": line.changed,
    }
