# SPDX-License-Identifier: Apache-2.0
"""All known containers: their names, their histories, and their state in the newest event."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.oci import Spec
from nri_scope.recording.display import SHORT_ID

from . import applied_spec, later_changes
from .attributed_changes import ChangeStep, PluginRequest, RequestFate
from .history import History
from .owner import UNKNOWN, Owner
from .rounds import CREATE, UNDOING, UPDATE, Round

NO_SUCH = "there is no such container, and runtimes drop updates of unknown ones"
NOT_TOLD = "no event tells of such a container; runtimes drop updates of unknown ones"
REMOVED = "the container was removed before, and runtimes drop updates of unknown ones"
STOPPED = "the container was stopped before, and the runtime updates no such ones"
NOT_CREATED = "the container was not created, and runtimes drop updates of unknown ones"
GONE_MAX = 100_000
"""Maximum number of stopped and removed containers that are remembered."""


class Containers:
    """Keeps the known facts about each container, by its id."""

    def __init__(self) -> None:
        self.histories: dict[str, History] = {}
        self._names: dict[str, str] = {}
        self._pods: dict[str, str] = {}
        self._shown: dict[str, tuple[bytes, int]] = {}
        """Fingerprint of each container in its newest event, with the number of its steps then."""
        self._tails: dict[str, Owner] = {}
        """Plugins that may have changed a container unobserved, until an event shows it."""
        self.is_unheard: Callable[[str], bool] = lambda _: False
        """Whether no container is known whose id is, or begins with, the given one."""
        self.updates_stopped = True
        """Whether the runtime updates containers that were stopped."""
        self._stopped: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        """Removed containers."""
        self._doing: dict[str, bool] = {}
        """Containers just updated, and whether only an event of their own shows that the runtime
        has applied the update; else any event does."""
        self._done_ns: dict[str, int] = {}
        """Time at which the newest change of a container, or its new creation, was known to be
        done; on the monotonic clock, which the CRI's answers also have and which is never set."""

    # -- names ------------------------------------------------------------------------------

    def learn_name(self, event: Event) -> None:
        """Learn the name that an event gives its container; a creation replaces it."""
        known = event.container_id in self._names and event.event != CREATE
        if event.container_id and event.container and not known:
            where = f"{event.namespace}/{event.pod}/" if event.pod else ""
            self._names[event.container_id] = f"{where}{event.container}"

    def learn_pod(self, pod: api.PodSandbox) -> None:
        """Learn the name of a pod, to which its containers refer by id."""
        self._pods[pod.id] = f"{pod.namespace}/{pod.name}"

    def name_of(self, container_id: str) -> str:
        """Return ``ns/pod/container``; the beginning of the id if the name is unknown."""
        return self._names.get(container_id) or container_id[:SHORT_ID]

    # -- facts about one container -----------------------------------------------------------

    def know(self, container: api.Container, name: str = "") -> History:
        """Add a container that exists already."""
        history = self.histories.get(container.id)
        if history is None:
            pod = self._pods.get(container.pod_sandbox_id)
            name = name or (f"{pod}/{container.name}" if pod else "")
            self._names.setdefault(container.id, name)
            spec = oci.spec_of(container)
            history = History(container.id, self.name_of(container.id), base=spec, spec=spec)
            history.shown = True
            history.add_remark("it was there before the recording began")
            self.histories[container.id] = history
            self._shown[container.id] = later_changes.fingerprint(container), 0
        return history

    def history(self, container_id: str) -> History:
        """Return the container's history; an empty one if the container was never shown."""
        history = self.histories.get(container_id)
        if history is None:
            history = History(container_id, self.name_of(container_id), base_owner=UNKNOWN)
            history.add_remark("what it was made of was not seen")
            self.histories[container_id] = history
        return history

    def target(self, container_id: str) -> History | None:
        """Return the history of a container that a plugin wants updated; None if unknown."""
        history = self.histories.get(container_id)
        if container_id in self._gone or (history is not None and history.failure):
            return None
        if container_id in self._stopped and not self.updates_stopped:
            return None
        if history is not None or container_id not in self._names:
            return history
        return self.history(container_id)

    def absence(self, container_id: str) -> tuple[RequestFate, str]:
        """Return the fate of a request for a container that does not exist as far as is known, and
        the reason.
        """
        if container_id in self._gone:
            return RequestFate.NOT_APPLIED, REMOVED
        if container_id in self._stopped:
            return RequestFate.NOT_APPLIED, STOPPED
        if container_id in self.histories:
            return RequestFate.NOT_APPLIED, NOT_CREATED
        if self.is_unheard(container_id):
            return RequestFate.NOT_APPLIED, NO_SUCH
        return RequestFate.UNKNOWN, NOT_TOLD

    def is_named(self, beginning: str) -> bool:
        """Return whether an event named a container whose id begins with this."""
        return any(known.startswith(beginning) for known in self._names)

    def removed(self, container_id: str) -> None:
        """Note that the runtime removed the container."""
        self._stopped.pop(container_id, None)
        self._gone[container_id] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def stopped(self, container_id: str) -> None:
        """Note that the runtime stopped the container."""
        self._stopped[container_id] = None
        if len(self._stopped) > GONE_MAX:
            del self._stopped[next(iter(self._stopped))]

    def created(self, history: History, at: Event) -> None:
        """Begin the container's history; ``tail``: plugins that may have changed it unobserved."""
        self._gone.pop(history.id, None)
        self._stopped.pop(history.id, None)
        self.histories[history.id] = history
        self._done_ns[history.id] = at.mono_ns
        self._shown.pop(history.id, None)
        self._tails[history.id] = history.tail

    def updated(self, history: History, steps: list[ChangeStep], spec: Spec, tail: Owner) -> None:
        """Note an update; the next event shows the result of the runtime or of `tail`."""
        history.add(steps, spec)
        self._doing[history.id] = True
        self._tails[history.id] = tail

    def done(self, container_id: str, mono_ns: int) -> None:
        """Note that the newest change of the container was done by this time."""
        self._done_ns[container_id] = max(mono_ns, self._done_ns.get(container_id, 0))

    def touched(self, container_id: str) -> None:
        """Note an update of the container beside another container's event."""
        self._doing.setdefault(container_id, False)

    def compare(
        self, container: api.Container, event: Event, rules: oci.RuntimeRules
    ) -> tuple[list[ChangeStep], list[PluginRequest]]:
        """Return changes that an event shows and no known change explains, and requests that it
        shows as not applied.

        These changes count as known from now on.
        """
        if not later_changes.is_told(container):
            return [], []
        if event.event == UPDATE and self._doing.get(container.id):
            # Another connection may show the container as before the same update.
            return [], []
        history = self.histories.get(container.id)
        if history is not None and event.event in UNDOING:
            # containerd shows a container that it did not create in its state before the chain.
            unsure = not history.created and later_changes.never_ran(container)
            if history.failure or unsure:
                return [], []
        if history is not None and history.failure:
            # The creation did not fail, or no more events would come: an event was lost.
            history.failure = ""
        # A state equal to the last one is new information if steps were added meanwhile.
        done = 0 if history is None else len(history.steps)
        mark = later_changes.fingerprint(container), done
        before = self._shown.get(container.id)
        self._shown[container.id] = mark
        if history is None:
            known = self.know(container)
            if event.event in UNDOING and later_changes.never_ran(container):
                known.created = False
            return [], []
        if event.event not in UNDOING:
            history.created = True
        history.shown = True
        tail = self._tails.pop(container.id, None)
        if mark == before and tail is None:
            return [], []
        drift = later_changes.drift(history, container, tail, event, rules)
        applied = {id(one) for one in drift.applied}
        history.asked = [one for one in history.asked if id(one) not in applied]
        history.add(drift.steps, drift.spec)
        if drift.steps:
            self.done(container.id, event.mono_ns)
        self._shown[container.id] = mark[0], len(history.steps)
        return drift.steps, drift.asked

    # -- updates that the runtime has applied --------------------------------------------------

    def settle(self, one: Round) -> None:
        """Note the updates that the runtime must have applied by the time of this round.

        It applies requests for other containers before it sends plugins anything else, and those
        for the event's own container before the next event about it; but a second update may be the
        first one, still on its way through the chain.
        """
        for container, by_its_own in list(self._doing.items()):
            if not by_its_own or (container == one.first.container_id and one.name != UPDATE):
                del self._doing[container]
                self.done(container, one.first.mono_ns)

    def judge(self, container_id: str, real: Spec, event: Event) -> list[ChangeStep] | None:
        """Judge the container's steps by the real spec, and return those that it can judge.

        None if the CRI was asked before the newest change is known to have been done.
        """
        history = self.histories.get(container_id)
        if history is None or history.id in self._doing:
            return None
        if event.mono_ns < self._done_ns.get(history.id, 0):
            return None
        history.real, history.real_event = real, event.id
        judged = applied_spec.judge_all(history.steps, real, history.spec)
        for number, step in judged.items():
            history.steps[number] = step
        return [judged[number] for number in sorted(judged)]

    def forget(self, container_id: str) -> None:
        """Forget the container: it was removed, and no later event refers to it."""
        for known in (
            self.histories,
            self._shown,
            self._tails,
            self._names,
            self._doing,
            self._done_ns,
        ):
            cast("dict[str, object]", known).pop(container_id, None)
