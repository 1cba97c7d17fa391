# SPDX-License-Identifier: Apache-2.0
"""The response that upstream's adaptation passes to the runtime for merged replies."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import CreationMerging, StopMerging, UpdateMerging


def response_of(
    merging: CreationMerging | UpdateMerging | StopMerging,
) -> api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse:
    """Return the response of any merging."""
    if isinstance(merging, UpdateMerging):
        return update_response(merging)
    if isinstance(merging, StopMerging):
        return api.StopContainerResponse(update=merging.updates)
    return api.CreateContainerResponse(adjust=merging.adjustment, update=merging.updates)


def update_response(merging: UpdateMerging) -> api.UpdateContainerResponse:
    """Return the response to an update.

    Its last update is that of the request's container, empty if no plugin requested one.
    """
    own = merging._updates.own
    return api.UpdateContainerResponse(update=[*merging.updates, own or api.ContainerUpdate()])
