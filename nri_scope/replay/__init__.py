# SPDX-License-Identifier: Apache-2.0
"""Replay a recording to plugins under development, and check their replies.

In: a recording, plugins or their commands, a profile, faults and goldens. Out: a result with every
reply, verdict and change. Events come from the recording; the content of containers results from
the plugins of this replay. This room never connects to a real runtime and never prints: `report`
formats a result as lines.
"""
