# SPDX-License-Identifier: Apache-2.0
"""Behaviour of containerd, CRI-O and iSulad towards plugins, around or without the NRI library.

What depends on the NRI version is in ``profile``; here is what is the runtime's own code. Read in
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
class Conduct:
    """The consequences of what plugins answer."""

    failing: Mapping[Event, str]
    """Events whose error fails the CRI request, and what the runtime puts in front of the error's
    own words. An error in any other event is logged, and that is all."""
    undone: Mapping[Event, tuple[Event, ...]] = field(default_factory=dict)
    """What the runtime sends its plugins by itself once such an event has failed."""
    closes_on_error: bool = False
    """An error status closes the connection, fails nothing and does not stop the chain."""
    shows_adjustments: bool = True
    """Each plugin sees the container as the ones before it have adjusted it."""
    conflicts_fail: bool = True
    """Two plugins that set one field make the request fail; else the second one's reply is left
    out. (iSulad, which does the latter, keeps what it had merged of that reply before; here all of
    it is left out.)"""
    asks_by_name: bool = False
    """Plugins are asked in the order of their names rather than of their indices."""
    synchronizes_launched: bool = True
    """Plugins that the runtime launches get Synchronize (with NRI 0.7 and later)."""
    keeps_unsynchronized: bool = False
    """A plugin whose Synchronize failed gets events nevertheless."""
    lacks: tuple[Lack, ...] = ()
    """What plugins may ask for and never get."""


CONTAINERD = Conduct(
    # In the words of sandbox_run.go, sandbox_update_resources.go, container_create.go with
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

CRI_O = Conduct(
    # The errors as they are. StartContainer's is only logged, StopPodSandbox's is not: the pod
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
    # The undoing of a creation begins only after the plugins have agreed to it.
    undone=MappingProxyType({Event.RunPodSandbox: (Event.StopPodSandbox, Event.RemovePodSandbox)}),
)

_NO_HOOK = "iSulad's OCI runtime has no such hook"

ISULAD = Conduct(
    # nri_adaption.cc: whatever a plugin answers, the request goes on.
    failing=MappingProxyType({}),
    closes_on_error=True,
    # The request of the first plugin goes to all of them; what pluginResult::Apply says of a
    # conflict is ignored.
    shows_adjustments=False,
    conflicts_fail=False,
    # m_storeMap has the names of launched plugins as its keys. External plugins stand in it under
    # random names, so their place is not defined; here it is that of their names too.
    asks_by_name=True,
    synchronizes_launched=False,
    # NewExternalPlugin puts it there first, and takes it out for a failed registration only.
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


def conduct_of(runtime_name: str) -> Conduct:
    """Return how the runtime of this name (as in Configure) treats plugins.

    One that we do not know is taken to do as containerd does.
    """
    return _CONDUCTS.get(runtime_title(runtime_name), CONTAINERD)
