# SPDX-License-Identifier: Apache-2.0
"""Replay a recording to plugins under development, and judge their answers.

In: a recording, plugins or their commands, a profile, faults and goldens. Out: a result with every
reply, change and verdict. Events come from the recording, the content of containers from the
plugins of this replay. This room never touches a real runtime, and never prints: `report` formats
a result as lines.
"""
