# SPDX-License-Identifier: Apache-2.0
"""A small model of a node: a runtime that runs containers through a chain of plugins.

It records the events that a part of the chain observed, and stores the real outcome: the plugins'
requests, their effects and the failed creations. The runtimes' handling of merged replies is
reimplemented here from their sources and from observation (containerd internal/cri/nri and
internal/nri, CRI-O server/nri-api.go and internal/nri), independently of the differ. Other tests
compare merging and adjusting with upstream's code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

from google.protobuf.message import Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, CapturedCall, Gap, Role, SessionStart
from nri_scope.nri import merging
from nri_scope.nri.changes import changes_of
from nri_scope.nri.events import RUNTIME_SERVICE, EventKind
from nri_scope.nri.versions import NriVersion
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading import event_messages
from tests.interop.merge_cases import CREATED, PLUGINS, Case, generated
from tests.nri.merging.merged_replies import update_response

from .chains import view
from .node_state import Claim, Connection, Creation, Life

MS = 10**6
START_NS = 1_700_000_000 * 10**9
POD = api.PodSandbox(id="pod-id", name="web", namespace="shop", uid="pod-uid")
PROBES = ("00-p", "15-p", "20-p", "35-p", "99-p")
GHOST = "ghost-id"
"""ID of a container that never existed."""
_POSTS = ("PostCreateContainer", "PostStartContainer", "PostUpdateContainer")
_CGROUP_VALUES = (
    "/linux/resources/cpu/quota", "/linux/resources/cpu/period", "/linux/resources/cpu/cpus",
    "/linux/resources/memory/limit", "/linux/resources/memory/reservation",
    "/linux/resources/pids/limit",
)  # fmt: skip
_EVENTS = {one.name: one for one in EventKind}
_SHOWN_BY_CRI_O = ("shares", "quota", "period", "cpus", "mems")
_CRI_O_ID = "io.kubernetes.cri-o.ContainerID"


@dataclass(frozen=True)
class Runtime:
    """A modelled runtime version."""

    name: str
    version: str
    nri: str
    undoes_creations: bool
    """Whether it sends StopContainer and RemoveContainer after a failed creation."""
    updates_directly: bool
    """Whether updates of other containers go to the OCI runtime instead of its own CRI."""


RUNTIMES = (
    Runtime("containerd", "1.7.20", "0.6.1", undoes_creations=True, updates_directly=False),
    Runtime("containerd", "1.7.28", "0.8.0", undoes_creations=True, updates_directly=False),
    Runtime("containerd", "2.4.0", "0.12.2", undoes_creations=True, updates_directly=False),
    Runtime("cri-o", "1.37.0", "0.12.0", undoes_creations=False, updates_directly=True),
    Runtime("acme", "1.0.0", "0.12.0", undoes_creations=True, updates_directly=False),
    Runtime("acme", "1.0.0", "0.12.0", undoes_creations=False, updates_directly=True),
)


@cache
def _cases(event: str) -> tuple[Case, ...]:
    """Return the cases of an event, without the odd keys that other tests cover."""
    return tuple(
        one for one in generated(1_000) if one.event == event and not any(map(_is_odd, one.replies))
    )


def _is_odd(reply: Message) -> bool:
    if not isinstance(reply, api.CreateContainerResponse):
        return False
    adjust, linux = reply.adjust, reply.adjust.linux
    keys = {
        *adjust.annotations, *linux.sysctl, *linux.net_devices,
        *(one.key for one in adjust.env), *(mount.destination for mount in adjust.mounts),
        *(device.path for device in linux.devices), *(one.type for one in linux.namespaces),
    }  # fmt: skip
    return bool(keys & {"", "-", "--a", "-a", "a"})


class Node:
    """A random play, reproducible by its seed."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random = Random(seed)
        self.path = path
        self.runtime = self.random.choice(RUNTIMES)
        self.version = NriVersion.parse(self.runtime.nri)
        self.unified = self.random.random() < 0.5
        """Whether the node has cgroup v2."""
        self.validates = self.runtime.nri >= "0.10" or self.runtime.nri.startswith("0.12")
        self.connections: list[Connection] = []
        self.lives: dict[str, Life] = {}
        self.creations: list[Creation] = []
        self.claims: list[Claim] = []
        self.requests: list[tuple[int, str, str]] = []
        """Paths set by CRI requests: operation, container, path."""
        self.operation = 0
        self.operation_of: dict[int, int] = {}
        """Operation by event number."""
        self.time_of: dict[int, int] = {}
        """Time by event number; of a CRI answer, that of the question."""
        self._loses = self.random.choice((0.0, 0.0, 0.0, 0.04))
        """Share of events that the recording loses."""
        self.number = 0
        self.now_ns = START_NS
        self._recorder = Recorder.open(path)
        self._cri = 0
        self._answers: list[tuple[CapturedCall, int]] = []
        """CRI answers that are recorded after later events, with the operation of the question."""
        self._attempts: list[str] = []
        """Ids of all containers that the runtime was asked to create."""
        self._cases = _cases("CreateContainer")
        self._updates = _cases("UpdateContainer")
        self._stops = _cases("StopContainer")

    # -- a play ---------------------------------------------------------------------------------

    def play(self) -> None:
        """Run several containers concurrently."""
        chance = self.random.random
        if chance() < 0.3:
            self._begin_existing()
        for one in self._chosen():
            self._connect(one)
        late = Connection("50-late", Role.PROBE, self._valid_mask(probe=True))
        if chance() < 0.5:
            late = Connection("50-late", Role.TAP, self._valid_mask(probe=False))
        if chance() < 0.4:
            self._begin_cri()
        open_lives: list[tuple[str, int]] = [(live, 1) for live in self.lives]
        for place in range(self.random.randint(6, 14)):
            if place == 5 and chance() < 0.4:
                self._connect(late)
            if place == 7 and chance() < 0.5:
                for one in [connection for connection in self.connections if connection.gone]:
                    # Disconnected plugins connect again.
                    self.connections.remove(one)
                    self._connect(Connection(one.plugin, one.role, one.mask))
            draw = chance()
            if draw < 0.3 or not open_lives:
                name = f"c{len(self._attempts)}-id"
                if self._failed_containers() and chance() < 0.3:
                    name = _retried(self.random.choice(self._failed_containers()))
                if self._create(name):
                    open_lives.append((name, 0))
            elif draw < 0.4:
                self._send_unsolicited()
            elif draw < 0.5 and self._cri:
                self.operation += 1
                self._ask_cri(self.random.choice(self._attempts), self.operation)
            else:
                at = self.random.randrange(len(open_lives))
                name, stage = open_lives[at]
                stage = self._next_stage(name, stage)
                if stage < 0:
                    del open_lives[at]
                else:
                    open_lives[at] = name, stage
        for name, stage in open_lives:
            if chance() < 0.6:
                while stage >= 0:
                    stage = self._next_stage(name, stage)
        if chance() < 0.5:
            self._run("StopPodSandbox", None)
        self._record_answers()
        if chance() < 0.6:
            for one in self.connections:
                self._disconnect(one, "the runtime closed the connection")
        self._recorder.close()

    def _failed_containers(self) -> list[str]:
        """Return the newest attempts of the containers whose creation never succeeded."""
        return [
            attempt
            for attempt in self._attempts
            if attempt not in self.lives and _retried(attempt) not in self._attempts
        ]

    def _next_stage(self, name: str, stage: int) -> int:
        """Advance a container's life and return its next stage; -1 after its removal."""
        life = self.lives[name]
        if stage == 0:
            self._run("StartContainer", life)
            self._maybe_ask(name)
            if self.random.random() < 0.12:
                return self._fail_start(life)
            life.state, life.message.pid = "running", 42
            life.message.state = api.CONTAINER_RUNNING
            self._run("PostStartContainer", life)
            return 1
        if stage == 1 and self.random.random() < 0.6:
            self._update(life)
            return 1
        if stage == 1:
            life.state = "stopped"
            life.message.state = api.CONTAINER_STOPPED
            if self.runtime.updates_directly:
                life.ended = self.operation + 1
            self._stop(life)
            return 2
        self._run("RemoveContainer", life)
        life.state, life.ended = "removed", life.ended or self.operation
        return -1

    def _fail_start(self, life: Life) -> int:
        """Stop a container that the OCI runtime refused to start; return its next stage."""
        life.never_ran, life.state = True, "stopped"
        life.message.state = api.CONTAINER_STOPPED
        if self.runtime.updates_directly:
            life.ended = self.operation + 1
        self._maybe_ask(life.id)
        if self.random.random() < 0.5:
            self._stop(life)
        return 2

    # -- connections ----------------------------------------------------------------------------

    def _valid_mask(self, *, probe: bool, validates: bool = False) -> int:
        mask = 0x7FF if not self.validates else 0x1FFF
        for name in (*_POSTS, "StopContainer", "UpdateContainer", "StartContainer"):
            if self.random.random() < (0.2 if not probe else 0.1 if name in _POSTS else 0):
                mask &= ~_EVENTS[name].bit
        if probe:
            return mask | (_EVENTS["ValidateContainerAdjustment"].bit if validates else 0)
        if self.random.random() < 0.1:
            mask &= ~_EVENTS["CreateContainer"].bit
        return mask

    def _chosen(self) -> list[Connection]:
        seen = self.random.choice((0.0, 0.3, 0.7, 1.0))
        found = [
            Connection(
                plugin,
                Role.TAP if self.random.random() < seen else None,
                self._valid_mask(probe=False),
            )
            for plugin in PLUGINS
        ]
        probes = self.random.sample(PROBES, self.random.randint(0, 4))
        if not probes and all(one.role is None for one in found):
            probes = ["00-p"]
        validator = self.random.choice(probes) if probes and self.validates else ""
        validator = validator if self.random.random() < 0.4 else ""
        found += [
            Connection(
                plugin, Role.PROBE, self._valid_mask(probe=True, validates=plugin == validator)
            )
            for plugin in probes
        ]
        # Plugins with equal indices are called in any order.
        self.random.shuffle(found)
        return sorted(found, key=lambda one: one.plugin[:2])

    def _connect(self, one: Connection) -> None:
        self.now_ns += MS
        if one.role is not None:
            one.session = self._recorder.begin_session(self._start(one))
        self.connections.append(one)
        self.connections.sort(key=lambda each: each.plugin[:2])
        self.operation += 1
        configure = api.ConfigureRequest(
            runtime_name=self.runtime.name, runtime_version=self.runtime.version
        )
        self._capture(one, "Configure", configure, api.ConfigureResponse(events=one.mask))
        request = api.SynchronizeRequest(pods=[POD])
        for life in self.lives.values():
            if life.state in ("created", "running"):
                request.containers.append(self._shown(life))
        reply = api.SynchronizeResponse()
        if not one.passive and self.random.random() < 0.7:
            reply.update.extend(self._random_updates(one))
        if self._capture(one, "Synchronize", request, reply):
            for each in request.containers:
                # The runtime applies the updates in the reply after it.
                life = self.lives[each.id]
                life.shown_at = max(life.shown_at, self.operation - 1)
        kept, _ = merging.unsolicited(reply.update, one.plugin, version=self.version)
        self._apply_all(kept)

    def _start(self, one: Connection) -> SessionStart:
        index, _, name = one.plugin.partition("-")
        assert one.role is not None
        return SessionStart(
            one.role, name, index, self.runtime.name, self.runtime.version, self.runtime.nri,
            False, one.mask, 5_000, 2_000, self.now_ns,
        )  # fmt: skip

    def _disconnect(self, one: Connection, why: str) -> None:
        if not one.gone and one.role is not None:
            self._recorder.end_session(one.session, why, self.now_ns + 1)
        one.gone = True

    def _begin_cri(self) -> None:
        start = SessionStart(
            Role.CRI, "cri", "", self.runtime.name, self.runtime.version, "", False, 0, 0, 0,
            self.now_ns,
        )  # fmt: skip
        self._cri = self._recorder.begin_session(start)

    def _capture(
        self,
        one: Connection,
        method: str,
        request: Message,
        reply: Message | None,
        status: tuple[int, str] = (0, ""),
        service: str = "",
    ) -> int:
        self.now_ns += MS
        took = 2_000 * MS if status[0] == 4 else MS // 20
        if one.role is None:
            self.now_ns += took
            return 0
        if self.random.random() < 0.4:
            self._record_answers()
        answer = b"" if reply is None or status[0] else reply.SerializeToString()
        if method not in ("Configure", "Synchronize") and self.random.random() < self._loses:
            lost = Gap(0, one.session, self.now_ns, self.now_ns + took, "lost", 1, 1)
            self._recorder.put_control(lost)
            self.now_ns += took
            return 0
        item = CapturedCall(
            self.now_ns, self.now_ns - START_NS, method, request.SerializeToString(), answer,
            *status, took, 0 if service else 2_000 * MS, service,
        )  # fmt: skip
        self._recorder.capture(one.session, item)
        self.number += 1
        self.operation_of[self.number] = self.operation
        self.time_of[self.number] = self.now_ns
        self.now_ns += took
        return self.number

    def _subscribed(self, event: str) -> list[Connection]:
        bit = _EVENTS[event].bit
        return [one for one in self.connections if not one.gone and one.mask & bit]

    # -- events without a reply -----------------------------------------------------------------

    def _run(self, event: str, life: Life | None, container: api.Container | None = None) -> None:
        self.operation += 1
        if life is not None:
            container = self._shown(life)
        for one in self._subscribed(event):
            if self._notify(one, event, container) and life is not None:
                life.shown_at = self.operation

    def _notify(self, one: Connection, event: str, container: api.Container | None) -> int:
        if self.runtime.nri.startswith("0.12"):
            request = getattr(api, f"{event}Request")(pod=POD)
            if container is not None:
                request.container.CopyFrom(container)
            return self._capture(one, event, request, None)
        kind = cast("Any", int(_EVENTS[event]))
        change = api.StateChangeEvent(event=kind, pod=POD, container=container)
        return self._capture(one, "StateChange", change, api.Empty())

    def _shown(self, life: Life) -> api.Container:
        """Return the container as later events show it."""
        made = api.Container()
        made.CopyFrom(life.message)
        if self.runtime.undoes_creations:
            made.annotations.update(life.requested)
        return made

    # -- creations ------------------------------------------------------------------------------

    def _begin_existing(self) -> None:
        case = self.random.choice(self._cases)
        container = cast("api.CreateContainerRequest", case.request).container
        made = self._named(container, "old-id")
        made.state, made.pid, made.created_at = api.CONTAINER_RUNNING, 41, 1
        life = Life("old-id", made, oci.spec_of(made), state="running")
        life.keep(0, self.now_ns)
        self.lives["old-id"] = life
        self._attempts.append("old-id")

    def _named(self, container: api.Container, name: str) -> api.Container:
        made = api.Container()
        made.CopyFrom(container)
        made.id, made.name, made.pod_sandbox_id = name, name.partition("-")[0], POD.id
        if not self.runtime.undoes_creations:
            made.annotations[_CRI_O_ID] = name
        return made

    def _create(self, name: str) -> bool:
        """Create a container and return whether that succeeded."""
        self._attempts.append(name)
        self.operation += 1
        case = self.random.choice(self._cases)
        first = cast("api.CreateContainerRequest", case.request)
        pristine = self._named(first.container, name)
        shows = not (self.runtime.name == "containerd" and self.runtime.nri != "0.12.2")
        if not shows:
            pristine.ClearField("rlimits")
        requested = {
            key: value
            for key, value in sorted(pristine.annotations.items())
            if key != _CRI_O_ID and self.random.random() < 0.5
        }
        turn = merging.CreationMerging(
            api.CreateContainerRequest(pod=POD, container=pristine), version=self.version
        )
        made = Creation(name, self.operation, self.now_ns, before=oci.spec_of(pristine))
        self.creations.append(made)
        replies: dict[str, Any] = {
            str(name): each for name, each in zip(PLUGINS, case.replies, strict=False)
        }
        others = self._targets(name)
        made.failure = self._chain(made, turn, replies, others)
        made.found[""] = view(turn)
        if not made.failure and self.validates:
            made.failure = self._validate(made, turn)
        self._maybe_ask(name)
        if not made.failure:
            self._drop_removed_keys(turn.adjustment)
            self._drop_silently(turn.adjustment)
            failed = self._apply_all(turn.updates)
            if failed and self.runtime.updates_directly:
                made.failure = "an update of another container failed"
            refused = [one for one in oci.remarks(turn.adjustment) if one.kind == "refused"]
            if not made.failure and (refused or self.random.random() < 0.12):
                made.failure = "the OCI runtime refused it"
        if made.failure:
            self._maybe_ask(name)
            if self.runtime.undoes_creations:
                self._undo(made, pristine, requested)
            return False
        message = merging.adjusted(pristine, turn.adjustment, shows_rlimits=shows)
        real = dict(oci.adjust(made.before, turn.adjustment))
        message.state, message.created_at = api.CONTAINER_CREATED, 1
        life = Life(
            name, message, real, requested=requested if self.runtime.undoes_creations else {}
        )
        self._keep(life)
        self.lives[name] = life
        self._run("PostCreateContainer", life)
        return True

    def _targets(self, own: str) -> list[str]:
        """Return two containers for updates besides the event's own."""
        known = [name for name in self.lives if name != own]
        found = self.random.sample(known, min(2, len(known)))
        while len(found) < 2:
            found.append(GHOST)
        return found

    def _renamed(self, reply: Any, own: str, others: Sequence[str]) -> Any:
        """Return a copy of a reply with container IDs of this node."""
        if reply is None:
            return None
        made = type(reply)()
        made.CopyFrom(reply)
        names = {CREATED: own, "left": others[0], "right": others[1]}
        for each in (*made.update, *getattr(made, "evict", ())):
            each.container_id = names[each.container_id]
        return made

    def _fault(self) -> tuple[int, str]:
        """Return a random error status, usually success."""
        draw = self.random.random()
        if draw < 0.04:
            return 2, "no such thing today"
        if draw < 0.06:
            return 4, "deadline exceeded"
        if draw < 0.07:
            return 14, "ttrpc: closed"
        return 0, ""

    def _chain(
        self,
        made: Creation,
        turn: merging.CreationMerging,
        replies: dict[str, Any],
        others: list[str],
    ) -> str:
        for one in self._subscribed("CreateContainer"):
            shown = api.CreateContainerRequest()
            shown.CopyFrom(turn.request)
            reply = (
                None
                if one.passive
                else self._renamed(replies.get(one.plugin), made.container, others)
            )
            status = (0, "") if one.passive or not one.plugin[3:] else self._fault()
            if reply is None and not one.passive:
                reply = api.CreateContainerResponse()
            if one.passive:
                reply = api.CreateContainerResponse(adjust=api.ContainerAdjustment())
                status = (0, "")
            number = self._capture(one, "CreateContainer", shown, reply, status)
            if number:
                made.events.append(number)
            if status[0] == 2:
                return f"{one.plugin} answered an error"
            if status[0]:
                self._disconnect(one, "it did not answer in time")
                continue
            before = made.found[one.plugin] = view(turn)
            try:
                turn.apply(cast("api.CreateContainerResponse", reply), one.plugin)
            except AdjustmentRefused as error:
                self._claim_creation(made, turn, reply, one.plugin, before)
                return error.problem
            self._claim_creation(made, turn, reply, one.plugin, before)
        return ""

    def _claim_creation(
        self,
        made: Creation,
        turn: merging.CreationMerging,
        reply: Any,
        plugin: str,
        before: specs.Spec,
    ) -> None:
        paths = {one.path for one in specs.changes(before, view(turn)) if one.kind != "moved"}
        paths |= {change.path for change in specs.changes(before, oci.adjust(before, reply.adjust))}
        adjusting = api.CreateContainerResponse(adjust=reply.adjust)
        paths |= set(changes_of("CreateContainer", turn.request, adjusting, plugin)[0])
        if reply.adjust.linux.resources.HasField("cpu"):
            paths.add("/linux/resources/cpu/cpus")
        for path in paths:
            self.claims.append(Claim(made.operation, plugin, made.container, path))
        for update in reply.update:
            self._claim_update(plugin, update)

    def _claim_update(self, plugin: str, update: api.ContainerUpdate) -> None:
        paths = ["", *resource_values(update.linux.resources)]
        if update.linux.resources.HasField("cpu"):
            # An empty cpu set is a request, too.
            paths.append("/linux/resources/cpu/cpus")
        for path in paths:
            self.claims.append(Claim(self.operation, plugin, update.container_id, path))

    def _validate(self, made: Creation, turn: merging.CreationMerging) -> str:
        validators = self._subscribed("ValidateContainerAdjustment")
        if not validators:
            return ""
        there = [connection for connection in self.connections if not connection.gone]
        instances = [api.PluginInstance(name=one.plugin[3:], index=one.plugin[:2]) for one in there]
        asked = turn.validation(instances)
        failure = ""
        for validator in validators:
            reply = api.ValidateContainerAdjustmentResponse()
            if self.random.random() < 0.1:
                reply.reject, reply.reason = True, "not like this"
                failure = failure or f"{validator.plugin} rejected it"
            if number := self._capture(validator, "ValidateContainerAdjustment", asked, reply):
                made.events.append(number)
        return failure

    def _drop_removed_keys(self, adjust: api.ContainerAdjustment) -> None:
        """Randomly drop a key's value where the same reply removes it, as runtimes do."""
        for keys in (adjust.annotations, adjust.linux.sysctl, adjust.linux.net_devices):
            both = sorted(key for key in keys if f"-{key}" in keys)
            for key in both:
                if self.random.random() < 0.5:
                    del keys[key]

    def _drop_silently(self, adjust: api.ContainerAdjustment) -> None:
        """Sometimes leave out one value, as runtimes do without an error or an event."""
        if self.random.random() > 0.15:
            return
        linux = adjust.linux
        lists: list[Any] = [
            adjust.mounts, adjust.env, adjust.rlimits, adjust.CDI_devices, linux.devices,
        ]  # fmt: skip
        maps: list[Any] = [adjust.annotations, linux.sysctl, linux.resources.unified]
        there: list[Any] = [one for one in (*lists, *maps) if len(one)]
        if linux.resources.HasField("pids"):
            there.append(None)
        if not there:
            return
        some = self.random.choice(there)
        if some is None:
            linux.resources.ClearField("pids")
        elif some in maps:
            del some[self.random.choice(sorted(some))]
        else:
            del some[self.random.randrange(len(some))]

    def _undo(self, made: Creation, pristine: api.Container, requested: dict[str, str]) -> None:
        """Send the events of containerd's UndoCreateContainer."""
        container = api.Container()
        container.CopyFrom(pristine)
        for key in requested:
            del container.annotations[key]
        container.ClearField("labels")
        first = self.number
        self.operation += 1
        for one in self._subscribed("StopContainer"):
            request = api.StopContainerRequest(pod=POD, container=container)
            self._capture(one, "StopContainer", request, api.StopContainerResponse())
        self._run("RemoveContainer", None, container)
        made.undoing = list(range(first + 1, self.number + 1))

    # -- updates --------------------------------------------------------------------------------

    def _update(self, life: Life) -> None:
        self.operation += 1
        case = self.random.choice(self._updates)
        wanted = cast("api.UpdateContainerRequest", case.request).linux_resources
        resources = api.LinuxResources()
        resources.CopyFrom(wanted)
        # The CRI has no other fields.
        for name in ("devices", "pids", "blockio_class", "rdt_class"):
            resources.ClearField(cast("Any", name))
        memory = resources.memory.limit.value
        resources.memory.Clear()
        if memory:
            resources.memory.limit.value = memory
        resources.cpu.ClearField("realtime_period")
        resources.cpu.ClearField("realtime_runtime")
        request = api.UpdateContainerRequest(
            pod=POD, container=self._shown(life), linux_resources=resources
        )
        for path in resource_values(resources):
            self.requests.append((self.operation, life.id, path))
        turn = merging.UpdateMerging(request, version=self.version)
        replies: dict[str, Any] = {
            str(name): each for name, each in zip(PLUGINS, case.replies, strict=False)
        }
        others = self._targets(life.id)
        for one in self._subscribed("UpdateContainer"):
            shown = api.UpdateContainerRequest()
            shown.CopyFrom(turn.request)
            asked = None if one.passive else self._renamed(replies.get(one.plugin), life.id, others)
            status = (0, "") if one.passive else self._fault()
            reply = asked or api.UpdateContainerResponse()
            if not one.passive and self.random.random() < 0.08:
                # It names the container, and has no resources.
                reply.update.add(container_id=life.id)
            if self._capture(one, "UpdateContainer", shown, reply, status):
                life.shown_at = max(life.shown_at, self.operation - 1)
            if status[0] == 2:
                return
            if status[0]:
                self._disconnect(one, "it did not answer in time")
                continue
            for update in reply.update:
                self._claim_update(one.plugin, update)
            try:
                turn.apply(reply, one.plugin)
            except AdjustmentRefused:
                return
        if self._apply_all(turn.updates) and self.runtime.updates_directly:
            return
        self._maybe_ask(life.id)
        if self.random.random() < 0.15:
            # The OCI runtime refused it.
            return
        # An update in the replies replaces the request, also an empty one.
        own = update_response(turn).update[-1]
        self._by_cri(life, own.linux.resources if own.container_id else turn.resources, own=True)
        self._maybe_ask(life.id)
        self._run("PostUpdateContainer", life)

    def _stop(self, life: Life) -> None:
        self.operation += 1
        case = self.random.choice(self._stops)
        request = api.StopContainerRequest(pod=POD, container=self._shown(life))
        turn = merging.StopMerging(request, version=self.version)
        replies: dict[str, Any] = {
            str(name): each for name, each in zip(PLUGINS, case.replies, strict=False)
        }
        others = self._targets(life.id)
        for one in self._subscribed("StopContainer"):
            reply = None if one.passive else self._renamed(replies.get(one.plugin), life.id, others)
            reply = reply or api.StopContainerResponse()
            status = (0, "") if one.passive else self._fault()
            if self._capture(one, "StopContainer", request, reply, status):
                life.shown_at = max(life.shown_at, self.operation - 1)
            if status[0] == 2:
                return
            if status[0]:
                self._disconnect(one, "it did not answer in time")
                continue
            for update in reply.update:
                self._claim_update(one.plugin, update)
            try:
                turn.apply(reply, one.plugin)
            except AdjustmentRefused:
                return
        self._apply_all(turn.updates)

    def _send_unsolicited(self) -> None:
        plugins = [one for one in self.connections if not one.passive and not one.gone]
        if not plugins:
            return
        self.operation += 1
        one = self.random.choice(plugins)
        wanted = self._random_updates(one)
        kept, _ = merging.unsolicited(wanted, one.plugin, version=self.version)
        failed = self._apply_all(kept)
        request = api.UpdateContainersRequest(update=wanted)
        if self.random.random() < 0.2:
            request.evict.add(container_id=self._targets("")[0], reason="no room")
        response = api.UpdateContainersResponse(failed=failed)
        self._capture(one, "UpdateContainers", request, response, service=RUNTIME_SERVICE)

    def _random_updates(self, one: Connection) -> list[api.ContainerUpdate]:
        """Return updates for a plugin's unsolicited request."""
        case = self.random.choice(self._stops)
        others = self._targets("")
        found = list(self._renamed(case.replies[0], others[0], others).update)
        for update in found:
            self._claim_update(one.plugin, update)
        return found

    def _apply_all(self, updates: Iterable[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
        """Apply each update and return those that failed."""
        failed: list[api.ContainerUpdate] = []
        for update in updates:
            life = self.lives.get(update.container_id)
            if life is None or life.state == "removed":
                continue
            resources = update.linux.resources
            if not self.runtime.updates_directly:
                if self.random.random() < 0.12:
                    # The OCI runtime refused it, which containerd only logs.
                    if not update.ignore_failure:
                        failed.append(update)
                    continue
                self._by_cri(life, resources)
            elif life.state != "stopped":
                if self.random.random() < 0.1 or (resources.unified and not self.unified):
                    if not update.ignore_failure:
                        failed.append(update)
                    continue
                self._by_oci_runtime(life, resources)
        return failed

    def _by_cri(self, life: Life, resources: api.LinuxResources, *, own: bool = False) -> None:
        """Apply resources as containerd's toCRIResources; CRI-O ignores some."""
        wanted = api.LinuxResources()
        wanted.CopyFrom(resources)
        if self.runtime.updates_directly and own:
            wanted.ClearField("hugepage_limits")
            if not self.unified:
                wanted.ClearField("unified")
        life.message = merging.with_resources(life.message, wanted)
        for path in resource_values(wanted):
            life.effects.pop(path, None)
            if path == "/linux/resources/memory/limit":
                # The swap limit follows it.
                life.effects.pop("/linux/resources/memory/swap", None)
        self._settle(life)

    def _by_oci_runtime(self, life: Life, resources: api.LinuxResources) -> None:
        """Apply resources as ``runc update`` with the output of NRI's ToOCI."""
        memory, cpu = resources.memory, resources.cpu
        for name in ("limit", "reservation", "swap"):
            if value := getattr(memory, name).value:
                life.effects[f"/linux/resources/memory/{name}"] = value
                if name != "reservation":
                    getattr(life.message.linux.resources.memory, name).value = value
        for name in _SHOWN_BY_CRI_O:
            value = getattr(cpu, name)
            value = value if isinstance(value, str) else value.value
            if value:
                life.effects[f"/linux/resources/cpu/{name}"] = value
                target = life.message.linux.resources.cpu
                if isinstance(value, str):
                    setattr(target, name, value)
                else:
                    getattr(target, name).value = value
        if resources.pids.limit > 0:
            life.effects["/linux/resources/pids/limit"] = resources.pids.limit
        for key, each in resources.unified.items():
            life.effects[specs.pointer("/linux/resources/unified", key)] = each
            life.message.linux.resources.unified[key] = each
        self._settle(life)

    def _settle(self, life: Life) -> None:
        """Update the runtime's own spec with the resources that its events show."""
        shown = cast("dict[str, Any]", oci.spec_of(life.message))
        resources = shown.get("linux", {}).get("resources", {})
        linux = dict(cast("dict[str, Any]", life.real.get("linux", {})))
        mine = dict(linux.get("resources", {}))
        for name in ("cpu", "memory", "hugepageLimits", "unified"):
            if name in resources:
                mine[name] = resources[name]
        linux["resources"] = mine
        life.real = {**life.real, "linux": linux}
        self._keep(life)

    def _keep(self, life: Life) -> None:
        self.now_ns += MS // 10
        life.keep(self.operation, self.now_ns)
        self.now_ns += MS // 10

    # -- the CRI --------------------------------------------------------------------------------

    def _maybe_ask(self, name: str) -> None:
        if self._cri and self.random.random() < 0.15:
            # The operation may change the container after the question.
            self._ask_cri(name, self.operation - 1)

    def _ask_cri(self, name: str, shown_at: int) -> None:
        """Ask the CRI now; the answer is recorded after some later events."""
        life = self.lives.get(name)
        answer: dict[str, Any] = {"notFound": True}
        if life is not None and life.state != "removed":
            life.shown_at = max(life.shown_at, shown_at)
            answer = {"runtimeSpec": _shown_by_cri(life.real)}
            state = life.past[-1]
            if self.random.random() < 0.3:
                first = _shown_by_cri(life.past[0].real)
                answer["bundleSpec"] = specs.patch_of(answer["runtimeSpec"], first)
            if life.state == "running" and self.random.random() < 0.5:
                values = {path: state.value(path) for path in _CGROUP_VALUES}
                answer["cgroup"] = {key: value for key, value in values.items() if value}
            if life.never_ran:
                answer["status"] = {"state": "CONTAINER_EXITED", "reason": "StartError"}
        self.now_ns += MS
        item = CapturedCall(
            self.now_ns, self.now_ns - START_NS, CONTAINER_STATUS,
            event_messages.status_request(name), json.dumps(answer).encode(),
            0, "", MS, 0, CRI_SERVICE,
        )  # fmt: skip
        self._answers.append((item, self.operation))

    def _record_answers(self) -> None:
        answers, self._answers = self._answers, []
        for item, operation in answers:
            self._recorder.capture(self._cri, item)
            self.number += 1
            self.operation_of[self.number] = operation
            self.time_of[self.number] = item.wall_ns


def _retried(name: str) -> str:
    """Return the id of the next attempt: runtimes generate a new one for the same name."""
    return f"{name}-again"


def _shown_by_cri(spec: specs.Spec) -> specs.Spec:
    return {key: value for key, value in spec.items() if key not in ("cdiDevices", "nri")}


def resource_values(resources: api.LinuxResources) -> dict[str, specs.Json]:
    """Return the values that an update sets, by path."""
    container = api.Container(linux=api.LinuxContainer(resources=resources))
    linux = cast("dict[str, Any]", oci.spec_of(container).get("linux", {}))
    found: dict[str, specs.Json] = {}
    for group, members in linux.get("resources", {}).items():
        place = f"/linux/resources/{group}"
        if group == "hugepageLimits":
            found |= {specs.pointer(place, each["pageSize"]): each["limit"] for each in members}
        elif isinstance(members, dict) and group != "blockIO":
            found |= {specs.pointer(place, key): value for key, value in members.items()}
        else:
            found[place] = members
    if resources.HasField("rdt_class"):
        found["/linux/intelRdt/closID"] = resources.rdt_class.value
    if resources.HasField("blockio_class"):
        found["/linux/resources/blockIO"] = resources.blockio_class.value
    return found
