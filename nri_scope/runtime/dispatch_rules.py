# SPDX-License-Identifier: Apache-2.0
"""Rules of containerd, CRI-O and iSulad for dispatching events to plugins, outside the NRI library.

Behaviour that depends on the NRI version is in ``profile``; this is the runtime's own. Read in
containerd v1.7.24, v2.1.9, v2.2.1, v2.3.4 and v2.4.0-beta.0 (``pkg/nri``, ``pkg/cri/nri``, later
``internal/nri``, ``internal/cri``), in CRI-O v1.33 to main (``internal/nri``, ``server``) and in
iSulad's master (``src/daemon/nri``, ``src/daemon/common/nri``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nri_scope.nri.events import Event
from nri_scope.nri.versions import runtime_title


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """How a runtime dispatches events, and handles replies and failures."""

    failure_prefixes: Mapping[Event, str]
    """Events whose error fails the CRI request, with the text that the runtime puts before the
    error. An error in any other event is only logged."""
    undo_events: Mapping[Event, tuple[Event, ...]] = field(default_factory=dict)
    """Events that the runtime sends to undo a failed request, by the event that failed."""
    closes_on_error: bool = False
    """Whether an error status only closes the connection: the chain and the request continue."""
    shows_adjustments: bool = True
    """Whether each plugin sees the container as adjusted by the plugins before it."""
    orders_by_name: bool = False
    """Whether plugins are ordered by name instead of index."""
    synchronizes_launched: bool = True
    """Whether plugins that the runtime launches get Synchronize (with NRI 0.7 and later)."""
    keeps_unsynchronized: bool = False
    """Whether a plugin gets events even if its Synchronize failed."""


CONTAINERD = DispatchRules(
    # Error texts of sandbox_run.go, sandbox_update_resources.go, container_create.go with
    # WithContainerAdjustment, container_start.go and container_update_resources.go.
    failure_prefixes=MappingProxyType(
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
    undo_events=MappingProxyType(
        {
            Event.RunPodSandbox: (Event.StopPodSandbox, Event.RemovePodSandbox),
            Event.CreateContainer: (Event.StopContainer, Event.RemoveContainer),
            Event.StartContainer: (Event.StopContainer,),
        }
    ),
)

CRI_O = DispatchRules(
    # No prefixes. An error in StartContainer is only logged. One in StopPodSandbox leaves the pod
    # running: the kubelet retries, and CRI-O sends the event again.
    failure_prefixes=MappingProxyType(
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
    # A creation is undone only if it fails after the chain.
    undo_events=MappingProxyType(
        {Event.RunPodSandbox: (Event.StopPodSandbox, Event.RemovePodSandbox)}
    ),
)

ISULAD = DispatchRules(
    # nri_adaption.cc: the request continues after any error of a plugin. These fail if the merged
    # reply is unusable, or makes iSulad crash, as any UpdateContainer does.
    failure_prefixes=MappingProxyType(
        dict.fromkeys((Event.CreateContainer, Event.UpdateContainer, Event.StopContainer), "")
    ),
    closes_on_error=True,
    # All plugins get the original request.
    shows_adjustments=False,
    # m_storeMap has launched plugins by name and external ones by a random key, so the order of
    # external plugins is undefined; here they are also ordered by name.
    orders_by_name=True,
    synchronizes_launched=False,
    # NewExternalPlugin adds the plugin first, and removes it only if its registration fails.
    keeps_unsynchronized=True,
)

_RULES = {"CRI-O": CRI_O, "iSulad": ISULAD}


def dispatch_rules_of(runtime_name: str) -> DispatchRules:
    """Return the rules of a runtime, by its name in Configure; containerd's if it is unknown."""
    return _RULES.get(runtime_title(runtime_name), CONTAINERD)
