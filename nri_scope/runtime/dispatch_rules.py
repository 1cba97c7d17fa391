# SPDX-License-Identifier: Apache-2.0
"""Behaviour of containerd, CRI-O and iSulad towards plugins, around or without the NRI library.

Behaviour that depends on the NRI version is in ``profile``; this is the runtime's own. Read in
containerd v1.7.24, v2.1.9, v2.2.1, v2.3.4 and v2.4.0-beta.0 (``pkg/nri``, ``pkg/cri/nri``, later
``internal/nri``, ``internal/cri``), in CRI-O v1.33 to main (``internal/nri``, ``server``) and in
iSulad's master (``src/daemon/nri``, ``src/daemon/common/nri``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import path_of_field
from nri_scope.nri.events import Event
from nri_scope.nri.versions import runtime_title

from .unused_fields import Lack


@dataclass(frozen=True, slots=True)
class AnswerHandling:
    """The consequences of plugins' answers."""

    failing: Mapping[Event, str]
    """Events whose error fails the CRI request, with the text that the runtime puts before the
    error. An error in any other event is only logged."""
    undone: Mapping[Event, tuple[Event, ...]] = field(default_factory=dict)
    """Events that the runtime sends by itself after such an event has failed."""
    closes_on_error: bool = False
    """Whether an error status closes the connection but neither fails nor stops anything else."""
    shows_adjustments: bool = True
    """Whether each plugin sees the container as adjusted by the plugins before it."""
    conflicts_fail: bool = True
    """Whether the request fails if two plugins set one field; otherwise the second plugin's reply
    is left out. (iSulad, which leaves it out, keeps the fields of that reply that it had already
    merged; here the whole reply is left out.)"""
    asks_by_name: bool = False
    """Whether plugins are asked in the order of their names instead of their indices."""
    synchronizes_launched: bool = True
    """Whether plugins that the runtime launches get Synchronize (with NRI 0.7 and later)."""
    keeps_unsynchronized: bool = False
    """Whether a plugin gets events even if its Synchronize failed."""
    lacks: tuple[Lack, ...] = ()
    """Fields that plugins may set but the runtime ignores."""


CONTAINERD = AnswerHandling(
    # Words of sandbox_run.go, sandbox_update_resources.go, container_create.go with
    # WithContainerAdjustment, container_start.go and container_update_resources.go.
    failing=MappingProxyType(
        {
            Event.RunPodSandbox: "NRI RunPodSandbox failed: ",
            Event.UpdatePodSandbox: "NRI sandbox update failed: ",
            Event.CreateContainer: (
                "failed to create containerd container: "
                "failed to get NRI adjustment for container: "
            ),
            Event.StartContainer: "NRI container start failed: ",
            Event.UpdateContainer: "NRI container update failed: ",
        }
    ),
    # nri_api_linux.go (RunPodSandbox, UndoCreateContainer); container_start.go stops in a defer.
    undone=MappingProxyType(
        {
            Event.RunPodSandbox: (Event.StopPodSandbox, Event.RemovePodSandbox),
            Event.CreateContainer: (Event.StopContainer, Event.RemoveContainer),
            Event.StartContainer: (Event.StopContainer,),
        }
    ),
)

CRI_O = AnswerHandling(
    # The errors without a prefix. StartContainer's is only logged. StopPodSandbox's is not: the pod
    # does not count as stopped, and the kubelet tries again, with the event.
    failing=MappingProxyType(
        dict.fromkeys(
            (
                Event.RunPodSandbox,
                Event.StopPodSandbox,
                Event.UpdatePodSandbox,
                Event.CreateContainer,
                Event.UpdateContainer,
            ),
            "",
        )
    ),
    # A creation is undone only if it fails after the plugins have agreed to it.
    undone=MappingProxyType({Event.RunPodSandbox: (Event.StopPodSandbox, Event.RemovePodSandbox)}),
)

_NO_HOOK = "iSulad's OCI runtime has no such hook"

ISULAD = AnswerHandling(
    # nri_adaption.cc: the request continues regardless of plugins' answers.
    failing=MappingProxyType({}),
    closes_on_error=True,
    # All plugins get the request of the first one; a conflict reported by pluginResult::Apply is
    # ignored.
    shows_adjustments=False,
    conflicts_fail=False,
    # The keys of m_storeMap are the names of launched plugins, and random names for external ones,
    # whose order is therefore undefined; here they are ordered by name, too.
    asks_by_name=True,
    synchronizes_launched=False,
    # NewExternalPlugin adds it first, and removes it only after a failed registration.
    keeps_unsynchronized=True,
    # nri_spec.c.
    lacks=(
        Lack("hooks.create_runtime", "/hooks/createRuntime", _NO_HOOK),
        Lack("hooks.create_container", "/hooks/createContainer", _NO_HOOK),
        Lack("hooks.start_container", "/hooks/startContainer", _NO_HOOK),
        Lack(
            "linux.resources.blockio_class",
            path_of_field(api.BlockioClass),
            "iSulad does not support block I/O classes",
        ),
        Lack(
            "linux.resources.rdt_class",
            path_of_field(api.RdtClass),
            "iSulad does not support Intel RDT",
        ),
    ),
)

_CONDUCTS = {"CRI-O": CRI_O, "iSulad": ISULAD}


def conduct_of(runtime_name: str) -> AnswerHandling:
    """Return how the runtime of this name (as in Configure) treats plugins.

    An unknown runtime is assumed to behave like containerd.
    """
    return _CONDUCTS.get(runtime_title(runtime_name), CONTAINERD)
