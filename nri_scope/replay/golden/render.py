# SPDX-License-Identifier: Apache-2.0
"""Format mismatches, and single messages on one line, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.plain import UNKNOWN, Plain, clear_fields
from nri_scope.nri.request_subject import name_of_container
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many
from nri_scope.text.yaml_text import inline, yaml_lines

from .compare import Mismatch, MismatchKind, ReplyDifference
from .matchers import Expected, Ignored, Matcher, Present, RegexMatcher, Tolerance
from .reply_values import MARK, MOUNT_KEY, REMOVED, NameOf, plain_reply

MAX_LINES = 40
"""Maximum number of lines of one reply; the list of differing paths is not limited."""
MAX_WIDTH = 400
MAX_SHOWN = 50
"""Maximum number of mismatches listed."""

_CONTEXT = 40
"""Number of characters shown before the first difference of two long values."""
_NOTHING = "nothing"


def lines(
    mismatches: Sequence[Mismatch],
    golden: str,
    most: int | None = MAX_SHOWN,
    *,
    label: str = "golden",
) -> Iterator[str]:
    """Yield plain lines, safe for a terminal.

    ``golden``: file name as given by the user. ``label``: printed before it. Mismatches beyond
    ``most`` are only counted; None lists all.
    """
    if not mismatches:
        return
    file = f"{label} {safe(golden)}"
    yield f"{_counted(len(mismatches))} (expected: {file}; got: this replay)"
    listed = mismatches[:most]
    for alike, group in groupby(listed, _together):
        several = list(group)
        if alike is None:
            for mismatch in several:
                yield from _described(mismatch, file)
        else:
            yield from _quiet(several, file)
    if len(listed) < len(mismatches):
        yield f"… and {_counted(len(mismatches) - len(listed))} more"


def _counted(count: int) -> str:
    return f"{count} mismatch{'es' if count > 1 else ''}"


def _together(mismatch: Mismatch) -> tuple[MismatchKind, str, str] | None:
    return (mismatch.kind, *mismatch.key[:2]) if mismatch.quiet else None


def _quiet(mismatches: list[Mismatch], file: str) -> Iterator[str]:
    kind, key = mismatches[0].kind, mismatches[0].key
    events = ", ".join(mismatch.key.event for mismatch in mismatches)
    if kind is MismatchKind.MISSING:
        problem = f"got an empty reply that has no entry in {file}"
    else:
        problem = f"expected an empty reply ({file}), but the event did not occur"
    yield _cut(f"{safe(key.plugin)} {safe(key.subject)}: {problem}: {safe(events)}")


def _described(mismatch: Mismatch, file: str) -> Iterator[str]:
    position = file + (f", line {mismatch.line}" if mismatch.line else "")
    name = safe(str(mismatch.key))
    count = len(mismatch.differences)
    match mismatch.kind:
        case MismatchKind.DIFFERS:
            yield f"{name}: differs in {count} place{'s' if count > 1 else ''}"
            yield from _differing(mismatch.differences)
            yield f"  expected ({position}):"
            yield from _reply(mismatch.expected)
        case MismatchKind.UNUSED:
            yield f"{name}: expected, but the event did not occur (unused entry)"
            yield f"  expected ({position}):"
            yield from _reply(mismatch.expected)
        case MismatchKind.MISSING:
            yield f"{name}: got a reply that has no entry in {file} (missing entry)"
            yield "  got:"
            yield from _reply(mismatch.got)
            if mismatch.nearest is not None:
                yield f"  nearest expected ({position}): {safe(str(mismatch.nearest))}"
                yield from _reply(mismatch.expected)
                yield from _differing(mismatch.differences)


def _reply(reply: Expected | Plain) -> Iterator[str]:
    if reply == {}:
        yield "    (an empty reply)"
        return
    text = list(yaml_lines(cast("Expected", reply), short_lists=True))
    for line in text[:MAX_LINES]:
        yield _cut(f"    {line}")
    if len(text) > MAX_LINES:
        yield f"    … {len(text) - MAX_LINES} more lines"


def _differing(differences: Sequence[ReplyDifference]) -> Iterator[str]:
    if not differences:
        yield "  no path differs"
        return
    yield "  differing:"
    for difference in differences:
        expected, got = _inline(difference.expected), _inline(difference.got)
        same = _same(expected, got)
        if max(len(expected), len(got)) > MAX_WIDTH and same > _CONTEXT:
            expected, got = (f"…{side[same - _CONTEXT :]}" for side in (expected, got))
        yield f"    {safe(difference.path, MAX_WIDTH) or '/'}"
        yield f"      expected {_cut(expected)}"
        yield f"      got      {_cut(got)}"


def _inline(value: Expected | Plain) -> str:
    return _NOTHING if value is None else inline(cast("Expected", value))


def _same(left: str, right: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(left), len(right)))


def _cut(line: str) -> str:
    # `safe` would escape the text a second time.
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"


def as_data(mismatch: Mismatch) -> dict[str, Plain]:
    """Return the mismatch for JSON: a missing value is null, a matcher a mapping with its tag."""
    key, nearest = mismatch.key, mismatch.nearest
    return {
        "kind": mismatch.kind.value,
        "plugin": key.plugin,
        "subject": key.subject,
        "event": key.event,
        "expected": _data(mismatch.expected),
        "got": mismatch.got,
        "nearest": None
        if nearest is None
        else {"plugin": nearest.plugin, "subject": nearest.subject, "event": nearest.event},
        "line": mismatch.line or None,
        "differences": [
            {"path": difference.path, "expected": _data(difference.expected), "got": difference.got}
            for difference in mismatch.differences
        ],
    }


def _data(value: Expected) -> Plain:
    match value:
        case RegexMatcher() | Tolerance():
            return {value.tag: value.argument}
        case Present() | Ignored():
            return {value.tag: True}
        case dict():
            return {key: _data(item) for key, item in value.items()}
        case list():
            return [_data(item) for item in value]
    assert not isinstance(value, Matcher)
    return value


NOTHING = "{}"
"""Text of an empty reply: no change."""

PARTS_MAX = 24
"""Maximum number of parts shown of one message; `show` prints all."""
VALUE_MAX = 48
"""Maximum number of characters of one value."""

# Fields that only contain other fields, and are not shown themselves.
_WRAPPERS = frozenset({"adjust", "linux", "resources", "linux_resources"})
# Mappings whose values are texts.
_TEXTS = frozenset({"annotations", "env", "sysctl", "unified"})
# Mappings and lists of which only the keys are shown.
_KEYED = frozenset({"devices", "namespaces", "net_devices", "hooks", "CDI_devices"})
# The subject of a request, which is already on the line.
_SUBJECTS = frozenset({"pod", "container", "pods", "containers"})
_EVENTS_MAX = 3


def request_words(message: Message, name_of: NameOf) -> str:
    """Describe the content of a request without its subject; "" if there is none."""
    match message:
        case api.RegisterPluginRequest():
            return plugin_id(message.plugin_idx, message.plugin_name)
        case api.ConfigureRequest():
            runtime = f"{message.runtime_name} {message.runtime_version}".strip()
            config = f", {many(len(message.config), 'character')} of config"
            return runtime + (config if message.config else "")
        case api.SynchronizeRequest():
            counts = (
                f"{many(len(message.pods), 'pod')}, {many(len(message.containers), 'container')}"
            )
            return counts + (", more parts follow" if message.more else "")
        case api.StateChangeEvent():
            return ""
        case api.ValidateContainerAdjustmentRequest():
            changes = type(message)(adjust=message.adjust, update=message.update)
            return _reply_text(changes, name_of)
    content = deepcopy(message)
    clear_fields(content, _SUBJECTS.intersection(message.DESCRIPTOR.fields_by_name))
    return _reply_text(content, name_of)


def reply_words(message: Message, name_of: NameOf) -> str:
    """Describe a reply; `NOTHING` if it is empty."""
    if isinstance(message, api.ConfigureResponse):
        policy = "".join(f", {field.name}" for field, _ in message.failure_policy.ListFields())
        return _events(plain_reply(message, name_of).get("events")) + policy
    if isinstance(message, api.UpdateContainersResponse):
        failed = [name_of(update.container_id) or update.container_id for update in message.failed]
        return f"failed: {_listed(failed)}" if failed else NOTHING
    return _reply_text(message, name_of) or NOTHING


def synchronized_names(request: Message) -> Iterator[tuple[str, str]]:
    """Yield id and ``namespace/pod/container`` of each container in a Synchronize request.

    A pod missing in the message is shown as ``?``.
    """
    if isinstance(request, api.SynchronizeRequest):
        pods = {pod.id: f"{pod.namespace}/{pod.name}" for pod in request.pods}
        for container in request.containers:
            above = f"{pods.get(container.pod_sandbox_id, '?')}/"
            # Docker Engine has no pods.
            above = "" if container.pod_sandbox_id == container.id else above
            yield container.id, f"{above}{name_of_container(container)}"


def _events(names: Plain) -> str:
    if not isinstance(names, list):
        return f"events {names}"
    listed = ", ".join(map(str, names[:_EVENTS_MAX]))
    return f"{len(names)} events" if len(names) > _EVENTS_MAX else f"events {listed}"


def _reply_text(message: Message, name_of: NameOf) -> str:
    return _listed(list(_parts(plain_reply(message, name_of))))


def _listed(parts: list[str]) -> str:
    more = len(parts) - PARTS_MAX
    return ", ".join([*parts[:PARTS_MAX], *([f"and {more} more"] if more > 0 else [])])


def _parts(fields: dict[str, Plain], path: str = "") -> Iterator[str]:
    for name, value in fields.items():
        if name == UNKNOWN:
            yield f"{path}unknown fields"
        elif name in _WRAPPERS and isinstance(value, dict):
            yield from _parts(value, path)
        elif name in ("update", "evict") and isinstance(value, dict):
            yield from _update_parts(name, value)
        elif name == "mounts" and isinstance(value, list):
            yield from (f"mount {_destination(mount)}" for mount in value)
        elif name in _TEXTS and isinstance(value, dict):
            yield from (f"{_kind(name)} {_assigned(key, item)}" for key, item in value.items())
        elif name in _KEYED and isinstance(value, dict | list):
            yield from (f"{_kind(name)} {item}" for item in value if isinstance(item, str))
        elif name == "rlimits" and isinstance(value, dict):
            yield from (f"rlimit {key}={_limits(limits)}" for key, limits in value.items())
        elif isinstance(value, dict) and value:
            yield from _parts(value, f"{path}{name}.")
        else:
            yield _assigned(f"{path}{name}", value)


def _update_parts(name: str, values: dict[str, Plain]) -> Iterator[str]:
    """Yield requested updates or evictions of containers, each with the container's name."""
    for container, request in values.items():
        fields = request if isinstance(request, dict) else {}
        parts = [part for part in _parts(fields) if not part.startswith("container_id=")]
        yield f"{name} {container} {{{_listed(parts)}}}"


def _kind(name: str) -> str:
    return "CDI device" if name == "CDI_devices" else name.removesuffix("s").replace("_", " ")


def _limits(limit: Plain) -> str:
    """Format limits as ulimit and prlimit(1) do: soft, then hard."""
    if isinstance(limit, dict) and limit.keys() == {"soft", "hard"}:
        return f"{limit['soft']}:{limit['hard']}"
    return _short(limit)


def _destination(mount: Plain) -> str:
    return str(mount.get(MOUNT_KEY, "")) if isinstance(mount, dict) else str(mount)


def _assigned(key: str, value: Plain) -> str:
    if value == REMOVED and key.startswith(MARK):
        return key
    return f"{key}={_short(value)}"


def _short(value: Plain) -> str:
    match value:
        case bool():
            text = "true" if value else "false"
        case list():
            text = f"[{', '.join(map(_short, value))}]"
        case dict():
            text = f"{{{', '.join(_assigned(key, item) for key, item in value.items())}}}"
        case _:
            text = str(value)
    return text if len(text) <= VALUE_MAX else f"{text[: VALUE_MAX - 1]}…"
