# SPDX-License-Identifier: Apache-2.0
"""The view of findings, and the survey of the recording that finds them.

In: the recording's path. Out: findings, and events with the changes and problems that only several
events show. The survey runs in a process of its own; this package never reads the recording.
"""
