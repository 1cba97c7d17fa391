# SPDX-License-Identifier: Apache-2.0
"""The names of events, and what they mean for the lifecycle of pods and containers."""

from __future__ import annotations

from enum import IntEnum

from .events import Event

RUN_POD = Event.RunPodSandbox.name
UPDATE_POD = Event.UpdatePodSandbox.name
STOP_POD = Event.StopPodSandbox.name
REMOVE_POD = Event.RemovePodSandbox.name
CREATE = Event.CreateContainer.name
VALIDATE = Event.ValidateContainerAdjustment.name
POST_CREATE = Event.PostCreateContainer.name
START = Event.StartContainer.name
POST_START = Event.PostStartContainer.name
UPDATE = Event.UpdateContainer.name
POST_UPDATE = Event.PostUpdateContainer.name
STOP = Event.StopContainer.name
REMOVE = Event.RemoveContainer.name
SYNCHRONIZE = "Synchronize"
"""It lists the pods and containers that exist when a plugin connects."""
UNSOLICITED = "UpdateContainers"
"""A plugin's own call, which no event causes."""


class Stage(IntEnum):
    """The stage of a pod or container. An event of an earlier stage does not lead back to it.

    PostStartContainer can come after StopContainer. Only a creation after the removal, under the
    same id, begins anew.
    """

    LISTED = 0
    """Known to exist, from Synchronize or from an event of no stage."""
    CREATING = 1
    """CreateContainer was sent, but no later event confirms the creation."""
    CREATED = 2
    STARTED = 3
    STOPPED = 4
    REMOVED = 5


POD_STAGES = {RUN_POD: Stage.STARTED, STOP_POD: Stage.STOPPED, REMOVE_POD: Stage.REMOVED}
CONTAINER_STAGES = {
    CREATE: Stage.CREATING,
    POST_CREATE: Stage.CREATED,
    START: Stage.STARTED,
    POST_START: Stage.STARTED,
    STOP: Stage.STOPPED,
    REMOVE: Stage.REMOVED,
}
"""The stage that each event shows, in the usual order; for starts see `oci.shows_start`."""
POD_ORDER, CONTAINER_ORDER = tuple(POD_STAGES), tuple(CONTAINER_STAGES)

FIRST = frozenset({RUN_POD, CREATE})
"""Events that begin a pod or container. They fail if a plugin returns an error."""
POD_ENDS = (STOP_POD, REMOVE_POD)
CONTAINER_ENDS = (STOP, REMOVE)
"""Events that also follow a failed creation: containerd sends both while it undoes one."""
STARTS = frozenset({START, POST_START})
PROOFS = frozenset({POST_CREATE, START, POST_START, UPDATE, POST_UPDATE})
"""Events of successfully created containers only. Stop and removal prove nothing."""
POSTS = {
    CREATE: Event.PostCreateContainer,
    START: Event.PostStartContainer,
    UPDATE: Event.PostUpdateContainer,
}
"""Events that follow exactly if the operation succeeded."""
