# SPDX-License-Identifier: Apache-2.0
"""Read each event of a recording once for a viewer, also while it grows.

Finds what was changed, slow or failed, and the findings.

In: the path of a recording. Out: an `AttributionFile` with the changes and problems of each event
as the differ attributes them, the findings of `report --diagnose`, and the progress. This room
never draws, and never writes to the recording.
"""
