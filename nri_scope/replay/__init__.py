# SPDX-License-Identifier: Apache-2.0
"""Feed a recording to plugins under development, and judge what they answer.

In: a recording, plugins or their commands, a profile, faults and goldens. Out: a result with every
reply, change and verdict. The recording says what happened; the plugins of this replay say what
containers are made of. This room never touches a real runtime, and never prints: `report` makes
lines of a result.
"""
