# SPDX-License-Identifier: Apache-2.0
"""Generated chains with arbitrary delays, and the entries that the probes' recorders receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from google.protobuf.message import Message
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.capture.sink import Begin, End
from nri_scope.events import CONTAINER_STATUS, CapturedCall, Gap, Role, SessionStart
from nri_scope.nri import merging
from nri_scope.nri.events import EventKind
from nri_scope.recording.reading.event_messages import status_request

from .playing import Timed

_T = TypeVar("_T")
Draw = Callable[[st.SearchStrategy[_T]], _T]

BEGAN_NS = 1_795_000_000 * 10**9
OFFSET_NS = BEGAN_NS - 10**12
"""Wall clock minus monotonic clock."""
MS = 10**6
DEADLINE_NS = 2_000 * MS
PLACES = ("00", "25", "35", "50", "99")
POD = api.PodSandbox(id="pod-id", name="web", namespace="shop")
ALL = sum(event.bit for event in EventKind if event is not EventKind.ValidateContainerAdjustment)


class Incident(Enum):
    """What happens besides the events of the chain."""

    CRI_ANSWER = auto()
    """The CRI answers about a container."""
    PROBE_LEAVES = auto()
    PROBE_CONFIGURES = auto()
    """A probe connects, and is not yet synchronized."""
    PROBE_JOINS = auto()
    """A probe connects and is synchronized."""
    LOSSES_CHANGE = auto()
    """The recorder of a probe begins or ceases to drop events."""


@dataclass
class Probe:
    """A passive connection."""

    index: str
    session: int
    validates: bool = False
    joined: bool = False
    ended: bool = False
    lossy: bool = False
    """Whether its recorder drops events."""


@dataclass(eq=False)
class Hidden:
    """A plugin without an observed connection."""

    index: str
    takes_ns: tuple[int, ...]
    """Duration of each event, used cyclically; reaching the deadline disconnects the plugin."""
    fails_at: int
    """Zero-based number of the creation that it answers with an error; -1: none."""
    sets: bool
    """Whether it adds its number to the environment of created containers."""
    asked: int = 0
    creations: int = 0
    gone: bool = False


@dataclass
class Truth:
    """One event of the chain and its real outcome."""

    event: str
    container: str
    seen_by: list[int] = field(default_factory=list)
    """Sessions whose recorders stored it."""
    failed: bool = False
    changed: set[str] = field(default_factory=set)
    """Changed paths."""


@st.composite
def _hidden(draw: Draw[object]) -> Hidden:
    some: Callable[..., int] = draw  # type: ignore[assignment]
    takes = st.sampled_from([0, 1, 400, 1_300, 1_999, 2_001, 2_004])
    return Hidden(
        f"{some(st.sampled_from([10, 20, 25, 30, 30, 40, 60, 99])):02}",
        tuple(some(takes) * MS for _ in range(some(st.integers(1, 4)))),
        some(st.sampled_from([-1, -1, -1, 0, 1])),
        bool(some(st.booleans())),
    )


HIDDEN = st.lists(_hidden(), max_size=6)


class Delayed:
    """Simulated node with one pod; `entries` are the entries its recorder receives."""

    def __init__(self, draw: Draw[object]) -> None:
        self._draw = draw
        self.now_ns = BEGAN_NS
        self.entries: list[Timed] = []
        self.truths: list[Truth] = []
        self.probes: list[Probe] = []
        self._lost: dict[int, Gap] = {}
        self._asking = False
        self.hidden: list[Hidden] = self._pick(HIDDEN)
        self.probes_vary = self._yes()
        """Whether probes connect and disconnect."""
        self._created: dict[str, api.Container] = {}
        """Created containers by name, as adjusted by the chain."""
        self._cri = 0
        if self._yes():
            self._cri = self._begin("", Role.CRI, 0)

    # -- draws --------------------------------------------------------------------------------

    def _pick(self, strategy: st.SearchStrategy[_T]) -> _T:
        return self._draw(strategy)  # type: ignore[return-value]

    def _yes(self) -> bool:
        return self._pick(st.booleans())

    def _rarely(self) -> bool:
        return self._pick(st.integers(0, 7)) == 7

    # -- the node -----------------------------------------------------------------------------

    def live(self) -> None:
        """Simulate everything from connecting the probes to the end of the recording."""
        places = self._pick(st.lists(st.sampled_from(PLACES), min_size=2, unique=True).map(sorted))
        validates = self._yes()
        for number, place in enumerate(places):
            self._synchronize(self._configure(place, validates=validates and not number))
        if self._yes():
            self.ask(EventKind.RunPodSandbox, "")
        for number in range(self._pick(st.integers(1, 3))):
            self._create(f"c{number}")
        if self._yes():
            for probe in self.probes:
                self._leave(probe)

    def _create(self, name: str) -> None:
        truth = self.ask(EventKind.CreateContainer, name)
        if truth.failed:
            # containerd sends these events; CRI-O does not.
            if self._yes():
                self.ask(EventKind.StopContainer, name)
                self.ask(EventKind.RemoveContainer, name)
            return
        life = [
            EventKind.PostCreateContainer,
            EventKind.StartContainer,
            EventKind.PostStartContainer,
        ]
        life += [EventKind.UpdateContainer, EventKind.StopContainer, EventKind.RemoveContainer]
        for event in life[: self._pick(st.integers(0, len(life)))]:
            truth = self.ask(event, name)
            self._beside(name)
            if event is not EventKind.UpdateContainer:
                continue
            truth.failed = truth.failed or self._rarely()
            if not truth.failed:
                self._created[name].linux.resources.cpu.shares.value = 512
                self.ask(EventKind.PostUpdateContainer, name)

    def ask(self, event: EventKind, name: str) -> Truth:
        """Send an event through the chain."""
        truth = Truth(event.name, f"{name}-id" if name else "")
        self.truths.append(truth)
        container = self._created.get(name) or api.Container(
            id=truth.container, name=name, pod_sandbox_id=POD.id, args=["run"]
        )
        turn = merging.CreationMerging(
            api.CreateContainerRequest(container=container), version=None
        )
        waiting = [probe for probe in self.probes if not probe.joined]
        chain: list[Probe | Hidden] = [probe for probe in self.probes if probe.joined]
        chain += [one for one in self.hidden if not one.gone]
        self._asking = True
        for one in sorted(chain, key=lambda one: one.index):
            self.now_ns += self._pick(st.integers(1, 3)) * MS
            if isinstance(one, Probe):
                self._see(one, event, turn.request.container, truth)
            elif self._is_late(one, event, turn, truth):
                one.gone = True
            if truth.failed:
                break
        if event is EventKind.CreateContainer and not truth.failed:
            self._validate(turn, truth)
            self._created[name] = turn.request.container
        self.now_ns += MS
        self._asking = False
        for probe in waiting:
            probe.joined = True
        return truth

    def _see(self, probe: Probe, event: EventKind, shown: api.Container, truth: Truth) -> None:
        if probe.ended:
            return
        if probe.lossy and self._yes():
            self._lost[probe.session] = Gap(
                id=0,
                session=probe.session,
                from_ns=self.now_ns,
                to_ns=self.now_ns,
                reason="too fast",
                lost=1,
                dropped=1,
            )
            return
        request = getattr(api, f"{event.name}Request")(pod=POD)
        if truth.container:
            request.container.CopyFrom(shown)
        if event is EventKind.UpdateContainer:
            request.linux_resources.cpu.shares.value = 512
        self._capture(probe.session, event.name, request)
        truth.seen_by.append(probe.session)

    def _is_late(
        self, one: Hidden, event: EventKind, turn: merging.CreationMerging, truth: Truth
    ) -> bool:
        takes_ns = one.takes_ns[one.asked % len(one.takes_ns)]
        one.asked += 1
        self._pass(min(takes_ns, DEADLINE_NS + 4 * MS), truth)
        if takes_ns >= DEADLINE_NS:
            return True
        if event is EventKind.CreateContainer:
            one.creations += 1
            truth.failed = one.creations - 1 == one.fails_at
            if one.sets and not truth.failed:
                reply = api.CreateContainerResponse()
                name = f"BY_{self.hidden.index(one)}"
                reply.adjust.env.add(key=name, value="1")
                turn.apply(reply, f"{one.index}-hidden")
                truth.changed.add(f"/process/env/{name}")
        return False

    def _pass(self, took_ns: int, truth: Truth) -> None:
        """Advance the clock by a plugin's processing time, with unrelated entries in between."""
        until = self.now_ns + took_ns
        while self._rarely():
            self.now_ns += (until - self.now_ns) // 2
            self._beside(truth.container.removesuffix("-id"))
        self.now_ns = max(until, self.now_ns)

    def _beside(self, name: str) -> None:
        incident = self._pick(st.sampled_from(Incident))
        if incident is Incident.CRI_ANSWER and self._cri and name:
            self._capture(
                self._cri, CONTAINER_STATUS, status_request(f"{name}-id"), b'{"runtimeSpec": {}}'
            )
        if not self.probes_vary:
            return
        here = [probe for probe in self.probes if not probe.ended]
        if incident is Incident.PROBE_LEAVES and here:
            self._leave(self._pick(st.sampled_from(here)))
        elif incident in (Incident.PROBE_CONFIGURES, Incident.PROBE_JOINS):
            free = sorted({*PLACES} - {probe.index for probe in here})
            if free:
                probe = self._configure(self._pick(st.sampled_from(free)))
                if incident is Incident.PROBE_JOINS:
                    self._synchronize(probe)
        elif incident is Incident.LOSSES_CHANGE and here:
            probe = self._pick(st.sampled_from(here))
            probe.lossy = not probe.lossy

    def _validate(self, turn: merging.CreationMerging, truth: Truth) -> None:
        for probe in self.probes:
            if probe.validates and probe.joined and not probe.ended:
                asked = turn.validation([])
                asked.pod.CopyFrom(POD)
                self._capture(probe.session, "ValidateContainerAdjustment", asked)
                truth.seen_by.append(probe.session)

    # -- entries for the recorder --------------------------------------------------------------

    def _configure(self, index: str, *, validates: bool = False) -> Probe:
        mask = ALL | (EventKind.ValidateContainerAdjustment.bit if validates else 0)
        session = self._begin(index, Role.PROBE, mask)
        probe = Probe(index, session, validates)
        self._capture(session, "Configure", api.ConfigureRequest(runtime_name="containerd"))
        return probe

    def _synchronize(self, probe: Probe) -> None:
        self._capture(probe.session, "Synchronize", api.SynchronizeRequest())
        # It joins after the current event: another event may be on its way through the chain.
        probe.joined = not self._asking
        self.probes.append(probe)

    def _leave(self, probe: Probe) -> None:
        if not probe.ended:
            probe.ended = True
            self.now_ns += 1
            self._flush_gaps()
            self.entries.append((self.now_ns, End(probe.session, "left", self.now_ns)))

    def _begin(self, index: str, role: Role, mask: int) -> int:
        session = 1 + sum(isinstance(entry, Begin) for _, entry in self.entries)
        self.now_ns += 1
        start = SessionStart(
            role=role,
            plugin_name="p" if index else "cri",
            plugin_index=index,
            runtime_name="containerd",
            runtime_version="2.4.0",
            nri_version="0.12.2",
            nri_version_inferred=False,
            mask=mask,
            registration_timeout_ms=5_000,
            request_timeout_ms=DEADLINE_NS // MS,
            started_ns=self.now_ns,
        )
        self.entries.append((self.now_ns, Begin(session, start)))
        return session

    def _capture(
        self, session: int, method: str, request: Message | bytes, reply: bytes = b""
    ) -> None:
        self.now_ns += 1
        self._flush_gaps()
        content = request if isinstance(request, bytes) else request.SerializeToString()
        item = CapturedCall(
            wall_ns=self.now_ns,
            mono_ns=self.now_ns - OFFSET_NS,
            method=method,
            request=content,
            reply=reply,
            status_code=0,
            status_message="",
            took_ns=1,
            timeout_ns=DEADLINE_NS,
        )
        self.now_ns += 1
        self.entries.append((self.now_ns, (session, item)))

    def _flush_gaps(self) -> None:
        for missed in self._lost.values():
            self.entries.append((self.now_ns, missed))
        self._lost.clear()
