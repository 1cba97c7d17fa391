# SPDX-License-Identifier: Apache-2.0
"""Check of ``diff`` for a crowd of containers, against plugins' notes and the runtime's specs.

Every method returns descriptions of errors; none if the result is correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.differ.blame.owned_lines import FinalOwners
from nri_scope.specs import ABSENT, Absent, Json, Spec, pointer, value_at

from .crowd import Life
from .deeds import GONE, MOUNTS, Deed, Value
from .truth import Stretch, Truth

JsonObject: TypeAlias = "dict[str, Any]"
"""A change or a round, as JSON."""

RESOURCES = "/linux/resources/"
SHARES = "/linux/resources/cpu/shares"
LIMIT, SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"
RULES, DEVICES = "/linux/resources/devices/", "/linux/devices/"
SET_AGAIN = ("/linux/resources/cpu/period", "/linux/resources/cpu/cpus")
"""Paths that plugins may set to the current value, so that they need not change."""


COUNT = re.compile(r"#\d+(?=/|$)")
"""Number that distinguishes hooks with the same path."""


class Range(NamedTuple):
    """Possible authors of a change, from an owner in JSON or an `Owner`."""

    who: str
    plugins: tuple[str, ...]
    first: str
    last: str
    ties: tuple[str, ...]
    or_runtime: bool

    @classmethod
    def of(cls, detail: Mapping[str, Any]) -> Range:
        return cls(
            detail["who"],
            tuple(detail["plugins"]),
            detail["first"],
            detail["last"],
            tuple(detail["ties"]),
            detail["or_runtime"],
        )

    @classmethod
    def of_owner(cls, owner: Owner) -> Range:
        return cls(
            str(owner.who), owner.plugins, owner.first, owner.last, owner.ties, owner.or_runtime
        )

    def holds(self, plugin: str) -> bool:
        """Whether the author can be a plugin (``NN-name``)."""
        if self.who == OwnerKind.UNKNOWN:
            return True
        if self.plugins:
            return plugin in self.plugins
        return bool(self.first) and (
            self.first <= plugin[:2] <= self.last or plugin[:2] in self.ties
        )

    @property
    def holds_others(self) -> bool:
        """Whether the author can be another one than a plugin."""
        return self.or_runtime or self.who in (
            OwnerKind.SPEC,
            OwnerKind.RUNTIME,
            OwnerKind.REQUEST,
            OwnerKind.UNKNOWN,
        )


class Verdict:
    """Check of reported changes and rounds against the truth."""

    def __init__(self, truth: Truth, lives: Mapping[str, Life]) -> None:
        self._truth = truth
        self._lives = lives
        self._stretches: dict[int, Stretch] = {}
        for event, container in truth.looks:
            for stretch in truth.stretches(event, container):
                self._stretches[stretch.last.event] = stretch
        self._deeds: dict[str, list[Deed]] = {}
        for deed in truth.deeds:
            self._deeds.setdefault(deed.container, []).append(deed)

    # -- changes ----------------------------------------------------------------------------

    def of_changes(self, reported: list[JsonObject]) -> list[str]:
        """Check that changes have the right owners, and that no visible change is missing."""
        problems: list[str] = []
        between: dict[int, list[JsonObject]] = {}
        for one in reported:
            if one["evidence"] == ["probes"]:
                between.setdefault(one["event"], []).append(one)
            elif problem := self._wrong_author(one):
                problems.append(f"{problem}: {_words(one)}")
        for event in {*between, *self._stretches}:
            stretch = self._stretches.get(event)
            if stretch is None:
                problems += [f"unknown event: {_words(one)}" for one in between[event]]
            else:
                problems += self._of_stretch(stretch, between.get(event, []))
        return problems

    def _of_stretch(self, stretch: Stretch, reported: list[JsonObject]) -> Iterator[str]:
        changed = stretch.changed
        missing = {path for path in changed if path not in SET_AGAIN}
        seen: dict[str, set[str]] = {}
        for one in reported:
            path, owner = one["path"], Range.of(one["owner_detail"])
            derived = path == SWAP and owner.who == OwnerKind.RUNTIME and _is_swap(one, changed)
            if not (derived or _is_between(owner, stretch)):
                yield f"not between {_names(stretch)}: {_words(one)}"
            member = next((each for each in changed if _is_at(path, each)), None)
            if member is None:
                if not (_is_move(one, stretch) or _is_swap(one, changed)):
                    yield f"this never happened: {_words(one)}"
                continue
            missing.discard(member)
            if one["op"] != "move":
                seen.setdefault(member, set()).add(path[len(member) + 1 :])
                if not _is_right(one, path[len(member) + 1 :], changed[member]):
                    yield f"it was {changed[member]}: {_words(one)}"
            authors = stretch.authors(member)
            if not any(map(owner.holds, authors)):
                yield f"it was {authors}: {_words(one)}"
        yield from (
            f"missing between {_names(stretch)}: {path} {changed[path]} by {stretch.authors(path)}"
            for path in missing
        )
        for member, parts in seen.items():
            if "" not in parts and parts != _parts(changed[member]):
                yield f"of {member} {changed[member]} only {parts} is reported"

    def _wrong_author(self, one: JsonObject) -> str:
        """Return why the owner is wrong, or ""; for changes without two connections around them."""
        owner, container = Range.of(one["owner_detail"]), one["container_id"]
        authors = self._authors(container, one["path"], one["after"])
        if authors and not (owner.or_runtime and _follows(one["path"])):
            return "" if any(map(owner.holds, authors)) else f"it was {authors}"
        life = self._lives.get(container)
        is_request = one["path"] == SHARES and life and one["after"] == life.shares
        if one["evidence"] == ["request"] and not is_request:
            return "this was not requested"
        return "" if owner.holds_others else "no plugin did this"

    def _authors(self, container: str, path: str, value: Json) -> list[str]:
        """Return the plugins that requested exactly this value, at any time."""
        return [
            deed.plugin for deed in self._deeds.get(container, []) if _is_doing(deed, path, value)
        ]

    def of_rounds(self, reported: list[JsonObject]) -> list[str]:
        """Check the connections of each round, and the remarks on missing connections."""
        problems = []
        left = {key: self._truth.rounds(*key) for key in self._truth.looks}
        for one in reported:
            key, where = (
                (one["event"], one["container_id"]),
                f"{one['event']} of {one['container']}",
            )
            if key not in left:
                continue
            seen = [look.plugin for look in left[key].pop(0)] if left[key] else []
            if one["seen_by"] != seen:
                problems.append(f"{where} was seen by {seen}, not by {one['seen_by']}")
            elif set(one["missed_by"]) & set(seen):
                problems.append(f"{where} was not missed by {one['missed_by']}")
            # The end of a connection is only known afterwards.
            elif one["failure"] and (
                seen[-1][:2] == "99" or "seems to have ended" not in one["failure"]
            ):
                problems.append(f"{where} did not fail: {one['failure']}")
            elif one["event"] == "CreateContainer" and not seen[0].startswith("00"):
                words = f"no connection before {seen[0]}"
                if not any(words in each for each in one["remarks"]):
                    problems.append(f"{where}: no remark on plugins before {seen[0]}")
        missing = (key for key, rounds in left.items() if rounds)
        return [*problems, *(f"{event} of {container} is missing" for event, container in missing)]

    # -- whole containers -------------------------------------------------------------------

    def of_histories(self, histories: Mapping[str, History]) -> list[str]:
        """Check the final owner of each line of the containers."""
        problems = [
            f"{life.name} is missing" for id, life in self._lives.items() if id not in histories
        ]
        for container, history in histories.items():
            paths = {deed.path for deed in self._deeds.get(container, [])}
            looks = self._truth.looks.get(("CreateContainer", container), [])
            if looks:
                paths |= looks[0].state.keys()
            for path, value in _lines(history.spec, sorted(paths)):
                owner = Range.of_owner(FinalOwners(history).by_events(path)[0])
                authors = self._authors(container, path, value)
                where = (
                    f"{history.name} {path}: {value!r} of {FinalOwners(history).by_events(path)[0]}"
                )
                if authors and not any(map(owner.holds, authors)):
                    problems.append(f"it was {authors}: {where}")
                if not authors and not owner.holds_others:
                    problems.append(f"no plugin did this: {where}")
            from_the_start = bool(looks) and looks[0].plugin.startswith("00")
            if (history.base_owner.who is OwnerKind.SPEC) != from_the_start:
                problems.append(f"{history.name} began with {history.base_owner}")
            problems += self._of_reality(history)
        return problems

    def of_blame(self, reported: Mapping[str, Any]) -> list[str]:
        """Check the owners in the output of ``blame`` for one container."""
        problems, container = [], reported["container"]["id"]
        for line in reported["lines"]:
            authors = self._authors(container, line["path"], line["value"])
            where = (
                f"{reported['container']['name']} {line['path']}: {line['value']!r} {line['owner']}"
            )
            by_others = line["owner"] in ("Pod spec/CRI", "runtime", "CRI request")
            others_too = (
                line["owner"].endswith(("or the runtime", "or Pod spec/CRI"))
                or line["owner"] == "unknown"
            )
            if authors and not (_follows(line["path"]) and (by_others or others_too)):
                plugins = not by_others and any(_is_within(each, line["index"]) for each in authors)
                if not plugins and line["owner"] != "unknown":
                    problems.append(f"it was {authors}: {where}")
            elif not authors and not (by_others or others_too):
                problems.append(f"no plugin did this: {where}")
        return problems

    def _of_reality(self, history: History) -> Iterator[str]:
        """Check the final resources against the runtime's last spec, or later requests."""
        life = self._lives.get(history.id)
        if life is None:
            return
        for path in {deed.path for deed in self._deeds.get(history.id, [])}:
            if path.startswith(RESOURCES):
                known, real = value_at(history.spec, path), value_at(life.real[-1], path)
                if known != real and not self._authors(history.id, path, _plain(known)):
                    yield f"{history.name} {path} is {real!r}, not {known!r}"

    # -- applied changes --------------------------------------------------------------------

    def of_applied(self, reported: list[JsonObject]) -> list[str]:
        """Check the outcomes of changes against the runtime's specs."""
        problems = []
        for one in reported:
            life = self._lives.get(one["container_id"])
            if one["outcome"]["kind"] != "in effect" or life is None or one["op"] == "move":
                continue
            real = [value_at(each, one["path"]) for each in life.real]
            if problem := self._wrong_outcome(one, real):
                problems.append(f"{problem}: {_words(one)} {one['outcome']}")
        return problems

    def _wrong_outcome(self, one: JsonObject, real: list[Json | Absent]) -> str:
        wanted: Json | Absent = ABSENT if one["op"] == "remove" else one["after"]
        path, container = one["path"], one["container_id"]
        # Resources may change again between two statuses.
        may_change_again = path.startswith(RESOURCES)
        if any(_is_made(path, wanted, each) for each in real):
            return ""
        if may_change_again and self._authors(container, path, one["after"]):
            return ""
        return f"{real}"


def _is_within(plugin: str, indices: str) -> bool:
    """Whether a range such as ``01–29`` contains a plugin, or a probe's index next to it."""
    first, _, last = indices.partition("–")
    return bool(first) and int(first) - 1 <= int(plugin[:2]) <= int(last or first) + 1


def _lines(spec: Spec, paths: Iterable[str]) -> Iterator[tuple[str, Json]]:
    """Yield paths and values line by line, as each line may have a different owner."""
    for path in paths:
        value = value_at(spec, path)
        if isinstance(value, dict):
            yield from ((pointer(path, key), part) for key, part in value.items())
        elif not isinstance(value, Absent):
            yield path, value


def _follows(path: str) -> bool:
    """Whether the runtime derives this path from a plugin's request."""
    return path == SWAP or path.startswith(RULES)


def _is_between(owner: Range, stretch: Stretch) -> bool:
    first, last = stretch.first.plugin[:2], stretch.last.plugin[:2]
    after, before = f"{int(first) + 1:02}", f"{int(last) - 1:02}"
    return owner == Range(OwnerKind.ONE_OF, (), after, before, (first, last), False)


def _is_at(path: str, member: str) -> bool:
    return path == member or path.startswith(f"{member}/")


def _is_move(one: JsonObject, stretch: Stretch) -> bool:
    return one["op"] == "move" and any(deed.path.startswith(MOUNTS) for deed in stretch.deeds)


def _is_swap(one: JsonObject, changed: Mapping[str, tuple[Value, Value]]) -> bool:
    """The swap limit follows the memory limit."""
    same: bool = LIMIT in changed and one["after"] == changed[LIMIT][1]
    return one["path"] == SWAP and same


def _is_right(one: JsonObject, part: str, truth: tuple[Value, Value]) -> bool:
    before, after = (_part(value, part) for value in truth)
    # The value before an update is unknown here.
    known: bool = before is GONE or one["before"] == _plain(before)
    same: bool = one["after"] == _plain(after)
    return known and same


def _parts(truth: tuple[Value, Value]) -> set[str]:
    before, after = (value if isinstance(value, dict) else {} for value in truth)
    return {key for key in {**before, **after} if before.get(key) != after.get(key)}


def _part(value: Value, part: str) -> Value:
    if not part:
        return value
    return value.get(part, GONE) if isinstance(value, dict) else GONE


def _is_doing(deed: Deed, path: str, value: Json) -> bool:
    if path == SWAP:
        path = LIMIT
    if path.startswith(RULES):
        device, rule = deed.value, path[len(RULES) :].partition("/")[0].partition("#")[0]
        return (
            deed.path.startswith(DEVICES)
            and isinstance(device, dict)
            and rule == f"{device['type']} {device['major']}:{device['minor']}"
        )
    base = COUNT.sub("", path)
    if not _is_at(base, deed.path):
        return False
    same: bool = _plain(_part(deed.value, base[len(deed.path) + 1 :])) == value
    return same


def _is_made(path: str, wanted: Json | Absent, real: Json | Absent) -> bool:
    """Whether a value was applied; runtimes add fields to devices."""
    if isinstance(wanted, dict) and isinstance(real, dict) and path.startswith(DEVICES):
        return wanted.items() <= real.items()
    same: bool = wanted == real
    return same


def _plain(value: Value | Absent) -> Json:
    return None if isinstance(value, Absent) or value is GONE else value


def _names(stretch: Stretch) -> str:
    return f"{stretch.first.plugin} and {stretch.last.plugin}"


def _words(one: JsonObject) -> str:
    return (
        f"event {one['event']}, {one['container']}: {one['op']} {one['path']} "
        f"{one['before']!r} -> {one['after']!r} by {one['owner']} ({', '.join(one['evidence'])})"
    )
