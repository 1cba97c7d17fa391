# SPDX-License-Identifier: Apache-2.0
"""Limits of a report. What is beyond them is counted, and reported as omitted."""

SESSIONS_MAX = 60
"""Plugin connections that are listed."""
GAPS_MAX = 60
NOTES_MAX = 40
PLUGINS_MAX = 100
"""The indices 00 to 99, each once; a chain of more plugins is unreadable."""
CONTAINERS_MAX = 60
"""Containers whose changes are told."""
STEPS_MAX = 1_500
"""Changes in all; each has two values of up to `VALUE_MAX` characters."""
STEPS_OF_ONE_MAX = 200
"""Changes of one container."""
TROUBLES_MAX = 150
"""Slow or failing events."""
LANES_MAX = 48
"""Pods and containers that are drawn."""
LANES_KEPT = 400
"""Among which those that are drawn are chosen; each takes a few kB."""
COLUMNS = 400
"""Places in time that the drawing distinguishes."""
VALUE_MAX = 600
"""Characters of a value."""
WORDS_MAX = 400
"""Characters of an error's text, of a reason."""
NAME_MAX = 160
"""Characters of the name of a pod or container; valid ones have up to 63 in each of their parts."""
EVENTS_NAMED = 12
"""Events that a finding names for people."""
EVENTS_KEPT = 200
"""Events that a finding names for programs."""
CASES_MAX = 2_000
"""Findings of one kind that are distinguished while a recording is read."""
FINDINGS_OF_KIND_MAX = 40
"""Findings of one kind; the rest of them is one more, with a count."""
TRACKED_MAX = 50_000
"""Containers and pods whose course is followed at a time; each takes some 500 bytes."""
MARKDOWN_MAX = 65_536
"""Characters that GitHub takes for an issue or a comment; others take more."""
