# SPDX-License-Identifier: Apache-2.0
"""A replay's result as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from nri_scope.recording.display import duration
from nri_scope.text.escape import safe

from ..golden import SESSION, Key
from ..replies import Reply, Verdict
from ..result import PlayedEvent, Replayed


def junit(
    replayed: Replayed,
    mismatches: Mapping[Key, Sequence[str]],
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


def _title(key: Key) -> str:
    return f"{key.event} {key.subject}"


def _key(reply: Reply) -> Key:
    """Return the key of the reply's entry in a golden."""
    number = f"#{reply.occurrence}" if reply.occurrence > 1 else ""
    return Key(reply.plugin, reply.subject or SESSION, f"{reply.event}{number}")
