# SPDX-License-Identifier: Apache-2.0
"""Simulated chains observed in part by a differ, with the real effect of each plugin."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event, Role, Session, Status
from nri_scope.nri import merging
from nri_scope.nri.changes import changes_of
from nri_scope.nri.versions import NriVersion

START_NS = 1_700_000_000 * 10**9
POD = api.PodSandbox(id="pod-id", name="web", namespace="shop")
BEGUN_NS = START_NS - 10**9


def session(
    number: int,
    plugin: str,
    role: Role = Role.PROBE,
    *,
    version: str = "0.12.5",
    started_ns: int = BEGUN_NS,
    ended_ns: int | None = None,
    mask: int = 0,
) -> Session:
    """Return a session of ``NN-name``; a zero mask subscribes to changed_paths."""
    index, _, name = plugin.partition("-")
    return Session(
        id=number,
        role=role,
        plugin_name=name,
        plugin_index=index,
        runtime_name="containerd",
        runtime_version="v2.3.0",
        nri_version=version,
        nri_version_inferred=False,
        mask=mask,
        registration_timeout_ms=5_000,
        request_timeout_ms=2_000,
        started_ns=started_ns,
        ended_ns=ended_ns,
        end_reason="" if ended_ns is None else "closed",
    )


@dataclass
class Traffic:
    """Sends events to a differ, one per millisecond."""

    differ: Differ
    sessions: dict[str, Session] = field(default_factory=dict)
    found: list[RoundDiff] = field(default_factory=list)
    now_ns: int = START_NS
    number: int = 0
    sequence_numbers: dict[str, int] = field(default_factory=dict)

    def connect(self, plugin: str, role: Role = Role.PROBE, *, version: str = "0.12.5") -> None:
        """Begin a session now."""
        made = session(
            len(self.sessions) + 1, plugin, role, version=version, started_ns=self.now_ns + 1
        )
        self.sessions[plugin] = made
        self.differ.begin(made)

    def skip(self, plugin: str) -> None:
        """Skip the sequence number of an unrecorded event."""
        self.sequence_numbers[plugin] = self.sequence_numbers.get(plugin, 0) + 1

    def send(
        self,
        plugin: str,
        method: str,
        request: Message | bytes,
        reply: Message | None = None,
        *,
        event: str = "",
        status: tuple[int, str] = (0, ""),
        took_ns: int = 50_000,
        mark: str = "",
        raw_reply: bytes = b"",
        about: str = "",
    ) -> int:
        """Send one event and return its number; `about` overrides the container in the request."""
        self.number += 1
        self.now_ns += 10**6
        self.skip(plugin)
        content = request if isinstance(request, bytes) else request.SerializeToString()
        container = getattr(request, "container", None)
        pod = getattr(request, "pod", None)
        event_fields = Event(
            id=self.number,
            session=self.sessions[plugin].id,
            seq=self.sequence_numbers[plugin],
            at_ns=self.now_ns,
            mono_ns=self.now_ns - START_NS,
            plugin=plugin,
            runtime="containerd",
            method=method,
            event=event or method,
            namespace=pod.namespace if pod is not None else "",
            pod=pod.name if pod is not None else "",
            container=container.name if container is not None else "",
            pod_id=pod.id if pod is not None else "",
            container_id=about or (container.id if container is not None else ""),
            took_ns=took_ns,
            timeout_ns=2 * 10**9,
            size=len(content),
            status=Status.OK if not status[0] else Status.ERROR,
            status_code=status[0],
            status_message=status[1],
            mark=mark,
        )
        answer = raw_reply if reply is None else reply.SerializeToString()
        self.found += self.differ.feed(event_fields, content, answer)
        return self.number

    def end(self) -> list[RoundDiff]:
        """Flush the differ and return all rounds."""
        self.found += self.differ.flush()
        return self.found


def traffic(**connections: Role) -> Traffic:
    """Return traffic with a connection per keyword, such as ``p00_name=Role.PROBE``."""
    made = Traffic(Differ())
    for name, role in connections.items():
        index, _, rest = name.removeprefix("p").partition("_")
        made.connect(f"{index}-{rest}", role)
    return made


@dataclass(frozen=True)
class Truth:
    """Real outcome of a chain."""

    changed: Mapping[str, frozenset[str]]
    """Changed paths by plugin."""
    claimed: Mapping[str, frozenset[str]]
    """Paths set by each plugin, with the same value or another."""
    before: specs.Spec
    after: specs.Spec

    def admits(self, owner: Owner, path: str) -> bool:
        """Return whether a plugin that `owner` includes set `path`, a part or a parent of it."""
        return any(
            includes(owner, plugin) and any(related(path, one) for one in paths)
            for plugin, paths in self.claimed.items()
        )


def includes(owner: Owner, plugin: str) -> bool:
    """Return whether `owner` includes `plugin`."""
    if owner.plugins:
        return plugin in owner.plugins
    index = plugin[:2]
    return owner.who is OwnerKind.ONE_OF and (
        owner.first <= index <= owner.last or index in owner.ties
    )


def related(one: str, other: str) -> bool:
    """Return whether one path equals or contains the other; ``KEY#2`` counts as ``KEY``.

    The numbering of members with equal keys differs between observers.
    """
    one, other = (re.split("[#=]", path)[0] for path in (one, other))
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def play(
    made: Traffic,
    request: api.CreateContainerRequest,
    replies: Sequence[tuple[str, api.CreateContainerResponse | None]],
    seen: Mapping[str, Role],
    *,
    validator: str = "",
    version: NriVersion | None = None,
) -> Truth | None:
    """Run one creation through a chain whose plugins in `seen` the differ observes.

    `replies` has the whole chain in call order, with None for passive plugins. Return None if the
    runtime refuses a reply.
    """
    turn = merging.CreationMerging(request, version=version)
    changed: dict[str, frozenset[str]] = {}
    claimed: dict[str, frozenset[str]] = {}
    before = spec = view(turn)
    for plugin, reply in replies:
        shown = api.CreateContainerRequest()
        shown.CopyFrom(turn.request)
        shown.pod.CopyFrom(POD)
        if plugin in seen:
            made.send(plugin, "CreateContainer", shown, reply)
        if reply is None:
            continue
        try:
            turn.apply(reply, plugin)
        except AdjustmentRefused:
            return None
        after = view(turn)
        # Runtimes sort mounts, so their order is not a plugin's change.
        changed[plugin] = frozenset(
            change.path for change in specs.changes(spec, after) if change.kind != "moved"
        )
        paths, _ = changes_of("CreateContainer", request, reply, plugin)
        claimed[plugin] = changed[plugin] | set(paths)
        spec = after
    if validator:
        instances = [api.PluginInstance(name=plugin[3:], index=plugin[:2]) for plugin, _ in replies]
        asked = turn.validation(instances)
        asked.pod.CopyFrom(POD)
        made.send(validator, "ValidateContainerAdjustment", asked)
    return Truth(changed, claimed, before, spec)


def view(turn: merging.CreationMerging) -> specs.Spec:
    """Return the container's spec after the chain, with fields that plugins are not shown."""
    hidden = api.ContainerAdjustment(CDI_devices=turn.adjustment.CDI_devices)
    if turn.adjustment.linux.HasField("rdt"):
        hidden.linux.rdt.CopyFrom(turn.adjustment.linux.rdt)
    if turn.adjustment.linux.HasField("memory_policy"):
        hidden.linux.memory_policy.CopyFrom(turn.adjustment.linux.memory_policy)
    return oci.adjust(oci.spec_of(turn.request.container), hidden)
