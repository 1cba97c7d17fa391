# SPDX-License-Identifier: Apache-2.0
"""A replay's result as one JSON object, and as JUnit XML, which CI systems show as tests.

Two replays of the same events to the same plugins produce identical bytes of JSON, except below the
key ``times``, which contains durations and the output of plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.records import SCHEMA_VERSION
from nri_scope.specs import Change
from nri_scope.text.escape import safe
from nri_scope.text.quantities import duration

from ..golden import SESSION, ReplyKey, plain_reply
from ..replies import Reply, Verdict
from ..result import ContainerResult, PlayedEvent, Replayed


def document(replayed: Replayed) -> dict[str, Plain]:
    """Return the JSON object of the whole result."""
    name_of = replayed.name_of
    return {
        "schema_version": SCHEMA_VERSION,
        "source": replayed.source,
        "fingerprint": replayed.fingerprint,
        "profile": replayed.profile,
        "runtime": replayed.title,
        "ok": replayed.ok,
        "failures": list(replayed.failures()),
        "plugins": [asdict(plugin) for plugin in replayed.plugins],
        "events": [_event(event, name_of) for event in replayed.events],
        "containers": {name: _container(result) for name, result in replayed.containers.items()},
        "times": {
            "total_ms": replayed.took_ns // 1_000_000,
            "playing_ms": replayed.playing_ns // 1_000_000,
            "events": [_times(event) for event in replayed.events],
        },
    }


def _event(event: PlayedEvent, name_of: Callable[[str], str]) -> dict[str, Plain]:
    return {
        "id": event.event_id,
        "event": event.event,
        "subject": event.subject,
        "skipped": event.skipped,
        "fault": event.fault,
        "note": event.note,
        "failure": event.failure,
        "logged": event.logged,
        "replies": [_reply(reply, name_of) for reply in event.replies],
        "changes": [
            {"plugin": made.plugin, "container": made.container, **change_record(made.change)}
            for made in event.changes
        ],
        "dropped": [
            {
                "plugin": dropped.plugin,
                "container": name_of(dropped.container_id),
                "path": dropped.path,
                "reason": dropped.reason,
            }
            for dropped in event.dropped
        ],
    }


def _reply(reply: Reply, name_of: Callable[[str], str]) -> dict[str, Plain]:
    return {
        "plugin": reply.plugin,
        "event": reply.event,
        "verdict": str(reply.verdict),
        "problem": reply.problem,
        "reply": None if reply.message is None else plain_reply(reply.message, name_of),
    }


def _container(container: ContainerResult) -> dict[str, Plain]:
    return {
        "created": container.created,
        "failure": container.failure,
        "runtime_died": container.runtime_died,
        "start_failure": container.start_failure,
        "changes": [
            {**change_record(change), "plugin": container.owner(change.path)}
            for change in container.changes
        ],
        "spec": container.spec,
    }


def change_record(change: Change) -> dict[str, Plain]:
    """Return the JSON object of one change of an OCI spec."""
    return {
        "kind": change.kind,
        "path": change.path,
        "before": change.before,
        "after": change.after,
    }


def _times(event: PlayedEvent) -> dict[str, Plain]:
    return {
        "id": event.event_id,
        "replies": [
            {
                "plugin": reply.plugin,
                "took_us": reply.took_ns // 1000,
                "deadline_ms": reply.deadline_ns // 1_000_000,
                "slow": reply.slow,
                "too_slow": reply.too_slow,
            }
            for reply in event.replies
        ],
        "output": [
            {"plugin": line.plugin, "stream": line.stream, "text": line.text}
            for line in event.output
        ],
        "output_left_out": event.output_left_out,
    }


def junit(
    replayed: Replayed,
    mismatches: Mapping[ReplyKey, Sequence[str]],
    *,
    has_golden: bool = False,
    differences: Sequence[str] = (),
) -> str:
    """Return JUnit XML with a suite for each plugin and a case for each reply.

    ``mismatches``: lines of each mismatch with a golden. Mismatches without a reply become cases of
    a suite named golden, and other failures cases of a suite named replay, as are ``differences``
    from another chain. If ``has_golden``, a failed reply is a failure only if it is a mismatch.
    """
    left = dict(mismatches)
    root = ElementTree.Element("testsuites", name="nri-scope replay")
    for plugin in replayed.plugins:
        suite = ElementTree.SubElement(root, "testsuite", name=safe(plugin.plugin))
        for event in replayed.events:
            for reply in event.replies:
                if reply.plugin == plugin.plugin:
                    mismatch = left.pop(_key(reply), ())
                    _case(suite, event, reply, mismatch, has_golden=has_golden)
    if left:
        suite = ElementTree.SubElement(root, "testsuite", name="golden")
        for key, lines in left.items():
            case = ElementTree.SubElement(
                suite, "testcase", classname="golden", name=safe(str(key))
            )
            _failure(case, "golden", lines)
    if texts := [*replayed.other_failures(), *differences]:
        suite = ElementTree.SubElement(root, "testsuite", name="replay")
        for text in texts:
            case = ElementTree.SubElement(suite, "testcase", classname="replay", name=safe(text))
            _failure(case, "replay", [text])
    for suite in root:
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    suite: ElementTree.Element,
    event: PlayedEvent,
    reply: Reply,
    mismatch: Sequence[str],
    *,
    has_golden: bool,
) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=safe(reply.plugin),
        name=safe(_title(_key(reply))),
        time=f"{reply.took_ns / 1e9:.6f}",
    )
    if reply.verdict is not Verdict.OK and not has_golden:
        _failure(case, str(reply.verdict), [reply.problem])
    elif reply.too_slow:
        took, limit = duration(reply.took_ns), duration(reply.max_took_ns)
        _failure(case, "too slow", [f"took more than {limit}", f"took {took}"])
    if mismatch:
        _failure(case, "golden", mismatch)
    printed = [line.text for line in event.output if line.plugin == reply.plugin]
    if printed:
        ElementTree.SubElement(case, "system-out").text = "\n".join(map(safe, printed))


def _failure(case: ElementTree.Element, kind: str, lines: Sequence[str]) -> None:
    failure = ElementTree.SubElement(
        case, "failure", type=kind, message=safe(lines[0] if lines else kind)
    )
    failure.text = "\n".join(map(safe, lines))


def _title(key: ReplyKey) -> str:
    return f"{key.event} {key.subject}"


def _key(reply: Reply) -> ReplyKey:
    """Return the key of the reply's entry in a golden."""
    number = f"#{reply.occurrence}" if reply.occurrence > 1 else ""
    return ReplyKey(reply.plugin, reply.subject or SESSION, f"{reply.event}{number}")
