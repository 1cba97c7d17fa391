# SPDX-License-Identifier: Apache-2.0
"""All known containers: their names, their histories, and their state in the newest event."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.nri.events import CONTAINER_ENDS, CREATE, POD_ENDS, STOP, UPDATE
from nri_scope.nri.request_subject import name_of_container, name_of_pod
from nri_scope.recording.cache import RecentlyUsed
from nri_scope.recording.query.cri_answers import CriStatus
from nri_scope.specs import Spec
from nri_scope.text.quantities import SHORT_ID

from . import applied_spec, later_changes
from .attributed_changes import REQUESTED, ChangeStep, RequestOutcome, Shows, dropped
from .history import History, ShownChanges
from .observed_round import Round, ShownContainer
from .owner import UNKNOWN, Owner

NO_SUCH = "the container does not exist; runtimes drop updates of unknown containers"
NOT_TOLD = "no event shows the container; runtimes drop updates of unknown containers"
REMOVED = "the container was already removed; runtimes drop updates of unknown containers"
STOPPED = "the container was already stopped; the runtime drops updates of stopped containers"
NOT_CREATED = "the container was not created; runtimes drop updates of unknown containers"
UNDECIDED_MAX = 10_000
"""Maximum number of creations with an unknown outcome that are stored."""
_ENDED_KEPT = 100_000
"""Number of ids stored of stopped and removed containers."""
_PODS_KEPT = 10_000
"""Number of names stored of pods in Synchronize requests."""


NOT_REPORTED = (
    "of the plugins' changes, this runtime's later events contain only {}; they do not show "
    "what became of other requests"
)


class Containers:
    """Known facts about all containers, by container id."""

    def __init__(self) -> None:
        self.histories: dict[str, History] = {}
        self._names: dict[str, str] = {}
        self._pods = RecentlyUsed[str, str](_PODS_KEPT)
        self._shown: dict[str, tuple[bytes, int]] = {}
        """Fingerprint and number of steps of each container at its newest event."""
        self._described: dict[str, tuple[bytes, Spec]] = {}
        """The message that shows a container as created, and its spec, until its first event."""
        self._tails: dict[str, Owner] = {}
        """Plugins that may have changed a container unobserved since its last event."""
        self._ended = RecentlyUsed[str, str](_ENDED_KEPT)
        """`REMOVED` or `STOPPED`, by container; "" for one that was created again."""
        self._undecided: dict[str, Event] = {}
        """First events of creations with an unknown outcome, by container."""
        self._doing: dict[str, frozenset[int]] = {}
        """Containers with an update that may not be complete, and the sessions that saw the update
        of its own event. Empty: any event shows that it is complete."""
        self._done_ns: dict[str, int] = {}
        """Monotonic time at which the newest change of a container, or its creation, was complete.
        The CRI's answers have the same clock, which is never set."""

    # -- names ------------------------------------------------------------------------------

    def learn_name(self, event: Event) -> None:
        """Store the container's name in an event; a creation replaces a stored name."""
        known = event.container_id in self._names and event.event != CREATE
        if event.container_id and event.container and not known:
            self._names[event.container_id] = f"{event.pod_prefix}{event.container}"

    def learn_pod(self, pod: api.PodSandbox) -> None:
        """Store the name of a pod, to which its containers refer by id."""
        self._pods.put(pod.id, f"{pod.namespace}/{name_of_pod(pod)}/")

    def name_of(self, container_id: str) -> str:
        """Return ``ns/pod/container``; the beginning of the id if the name is unknown."""
        return self._names.get(container_id) or container_id[:SHORT_ID]

    # -- facts about one container -----------------------------------------------------------

    def add_existing(self, container: api.Container, name: str = "") -> History:
        """Add an existing container."""
        history = self.histories.get(container.id)
        if history is None:
            pod = self._pods.get(container.pod_sandbox_id)
            above = "" if container.pod_sandbox_id == container.id else pod
            name = name or ("" if above is None else f"{above}{name_of_container(container)}")
            self._names.setdefault(container.id, name)
            spec = oci.spec_of(container)
            history = History(container.id, self.name_of(container.id), base=spec, spec=spec)
            history.shown = True
            history.add_remark("the container is older than the recording")
            self.histories[container.id] = history
            self._shown[container.id] = oci.without_state(container), 0
        return history

    def history(self, container_id: str) -> History:
        """Return the container's history; an empty one if no event showed the container."""
        history = self.histories.get(container_id)
        if history is None:
            history = History(container_id, self.name_of(container_id), base_owner=UNKNOWN)
            history.add_remark("the original spec was not observed")
            self.histories[container_id] = history
        return history

    def target(self, container_id: str, rules: oci.RuntimeRules) -> History | None:
        """Return the history of a container to be updated; None if the runtime drops the update.

        ``rules``: those of the runtime that received the update.
        """
        history, ended = self.histories.get(container_id), self._ended.get(container_id)
        if ended == REMOVED or (history is not None and history.failure):
            return None
        if ended and not rules.updates_stopped:
            return None
        if history is not None or container_id not in self._names:
            return history
        return self.history(container_id)

    def absence(self, container_id: str, is_absent: Callable[[str], bool]) -> RequestOutcome:
        """Return the outcome of a request for a container without a `target`.

        ``is_absent``: whether no container existed at that time whose id has this prefix.
        """
        if ended := self._ended.get(container_id):
            return dropped(ended)
        if container_id in self.histories:
            return dropped(NOT_CREATED)
        if is_absent(container_id):
            return dropped(NO_SUCH)
        return REQUESTED._replace(reason=NOT_TOLD)

    def is_named(self, beginning: str) -> bool:
        """Return whether an event contained the name of a container with this id prefix."""
        return any(known.startswith(beginning) for known in self._names)

    def removed(self, container_id: str) -> None:
        """Mark the container as removed."""
        self._ended.put(container_id, REMOVED)

    def stopped(self, container_id: str) -> None:
        """Mark the container as stopped."""
        self._ended.put(container_id, self._ended.get(container_id) or STOPPED)

    def created(self, history: History, first: Event, described: bytes = b"") -> None:
        """Start a new container's history. ``first``: the first event of its creation.

        ``described``: see `creation.CreationEvaluation`.
        """
        self._ended.put(history.id, "")
        self.histories[history.id] = history
        self._done_ns[history.id] = first.mono_ns
        self._shown.pop(history.id, None)
        self._described[history.id] = described, history.spec
        self._tails[history.id] = history.tail

    def leave_undecided(self, creation: Event, *, is_undecided: bool) -> None:
        """Store or drop the first event of a creation, by whether its outcome is unknown."""
        self._undecided.pop(creation.container_id, None)
        if is_undecided:
            self._undecided[creation.container_id] = creation
            if len(self._undecided) > UNDECIDED_MAX:
                del self._undecided[next(iter(self._undecided))]

    def take_undecided(self, event: Event) -> list[Event]:
        """Return the undecided creations of the container or pod of which `event` is the end."""
        ended: list[str] = []
        if event.event in CONTAINER_ENDS:
            ended = [event.container_id]
        elif event.event in POD_ENDS:
            pod = event.pod_id
            ended = [key for key, each in self._undecided.items() if each.pod_id == pod]
        return [self._undecided.pop(key) for key in ended if key in self._undecided]

    def updated(
        self,
        history: History,
        steps: list[ChangeStep],
        spec: Spec,
        tail: Owner,
        sessions: frozenset[int],
    ) -> None:
        """Add the steps of an update. ``tail``: plugins that may have changed it unobserved.

        ``sessions``: the connections that saw it.
        """
        history.add(steps, spec)
        history.running = frozenset(step.key for step in steps)
        self._doing[history.id] = sessions
        self._tails[history.id] = tail

    def done(self, container_id: str, mono_ns: int) -> None:
        """Store that the container's newest change was complete at this time."""
        self._done_ns[container_id] = max(mono_ns, self._done_ns.get(container_id, 0))

    def mark_update(self, container_id: str) -> None:
        """Mark an update of the container that another container's event caused."""
        self._doing.setdefault(container_id, frozenset())

    def compare(self, shown: ShownContainer, event: Event, rules: oci.RuntimeRules) -> ShownChanges:
        """Return what an event shows about its container, and add the changes to its history."""
        nothing = ShownChanges()
        container, is_end = shown.id, event.event in CONTAINER_ENDS
        if not shown.is_described or (event.event == UPDATE and self._doing.get(container)):
            # Another connection may show the container before the same update.
            return nothing
        history = self.histories.get(container)
        if history is None:
            self.add_existing(shown.container).created = not (is_end and shown.never_ran)
            return nothing
        if is_end and (history.failure or (shown.never_ran and not history.created)):
            # For a failed creation, containerd sends the container's state before the chain.
            return nothing
        # A container with further events was created; evidence of a failure was a lost event.
        history.failure = ""
        history.created = history.created or not is_end
        if not rules.reports_adjustments:
            members = [path.split("/")[-2] for path in rules.reported_paths]
            history.add_remark(NOT_REPORTED.format(" and ".join(members)))
        # An unchanged state is new evidence if steps were added since the last event.
        mark = shown.described, len(history.steps)
        before = self._shown.get(container)
        self._shown[container] = mark
        if not (history.shown or history.created_event):
            _complete(history, oci.spec_of(shown.container))
        history.shown = True
        tail = self._tails.pop(container, None)
        described, spec = self._described.pop(container, (b"", None))
        if mark == before and tail is None:
            return nothing
        # Another container's event may have updated this one in the meantime.
        described = described if spec is history.spec else b""
        changes = later_changes.compare_with_event(history, shown, tail, event, rules, described)
        if changes.steps:
            self.done(container, event.mono_ns)
        self._shown[container] = mark[0], len(history.steps)
        return changes

    # -- updates that the runtime has applied --------------------------------------------------

    def settle(self, round_: Round) -> None:
        """Mark the updates that the runtime must have completed before this round.

        Runtimes apply updates of other containers before the next event. Those of an event's own
        container are complete at its next event; a stop may come earlier, and another
        UpdateContainer may be the same update at another connection.
        """
        for container, sessions in list(self._doing.items()):
            if sessions:
                if container != round_.first.container_id or round_.name == STOP:
                    continue
                seen = {part.session.id for part in round_.parts}
                if round_.name == UPDATE and not sessions & seen:
                    continue
            del self._doing[container]
            self.done(container, round_.first.mono_ns)
            if container in self.histories:
                self.histories[container].running = frozenset()

    def judge(self, container_id: str, status: CriStatus, event: Event) -> ShownChanges | None:
        """Settle the container's requests by an answer of the CRI; return what it shows.

        None if the newest change may not have been complete when the CRI was asked.
        """
        history = self.histories.get(container_id)
        if history is None or history.id in self._doing:
            return None
        if event.mono_ns < self._done_ns.get(history.id, 0):
            return None
        judged = ShownChanges()
        if status.spec is not None:
            history.created = True
            history.real, history.real_event = history.applied_part(status.spec), event.id
            judged = applied_spec.judge(history, history.real, event)
        if status.bundle_spec is not None:
            of_creation = applied_spec.judge(history, status.bundle_spec, event, Shows.CONFIG)
            judged = judged.joined(of_creation)
        if status.cgroup:
            judged = judged.joined(applied_spec.judge_cgroup(history, status.cgroup, event))
        if status.failure:
            refused = history.fail_start(status.failure, event, Shows.EVENT)
            judged = judged.joined(ShownChanges(settled=tuple(refused)))
        self._shown.pop(container_id, None)
        return judged

    def forget(self, container_id: str) -> None:
        """Drop all facts about a removed container."""
        for known in (
            self.histories,
            self._shown,
            self._described,
            self._tails,
            self._names,
            self._doing,
            self._done_ns,
        ):
            cast("dict[str, object]", known).pop(container_id, None)


def _complete(history: History, shown: Spec) -> None:
    """Add what the first event that shows a container has, besides the steps, to its states.

    No plugin is known to have changed this: the original state was not observed.
    """
    steps = [step for step in history.steps if step.has_effect]
    for step in steps:
        shown = specs.apply(shown, [step.change])
    history.spec = shown
    for step in reversed(steps):
        shown = specs.apply(shown, [specs.inverse(step.change)])
    history.base = shown
