# SPDX-License-Identifier: Apache-2.0
"""Limits of a report. Items beyond them are counted, and reported as omitted."""

SESSIONS_MAX = 60
"""Maximum number of plugin connections that are listed."""
GAPS_MAX = 60
NOTES_MAX = 40
PLUGINS_MAX = 100
"""Maximum number of plugins: indices 00 to 99 once each; a longer chain is unreadable."""
CONTAINERS_MAX = 60
"""Maximum number of containers whose changes are included."""
STEPS_MAX = 1_500
"""Maximum number of changes; each has two values of up to `VALUE_MAX` characters."""
STEPS_OF_ONE_MAX = 200
"""Maximum number of changes of one container."""
TROUBLES_MAX = 150
"""Maximum number of slow or failing events."""
LANES_MAX = 48
"""Maximum number of pods and containers that are drawn."""
LANES_KEPT = 400
"""Maximum number of lives from which the drawn ones are chosen; each takes a few kB."""
COLUMNS = 400
"""Number of moments that the drawing distinguishes."""
VALUE_MAX = 600
"""Maximum number of characters of a value."""
WORDS_MAX = 400
"""Maximum number of characters of an error or a reason."""
NAME_MAX = 160
"""Maximum length of the name of a pod or container; valid ones have up to 63 in each part."""
EVENTS_NAMED = 12
"""Maximum number of events that a finding names for people."""
EVENTS_KEPT = 200
"""Maximum number of events that a finding names for programs."""
CASES_MAX = 2_000
"""Maximum number of findings of one kind that are distinguished while a recording is read."""
FINDINGS_OF_KIND_MAX = 40
"""Maximum number of findings of one kind; one more has the count of the others."""
TRACKED_MAX = 50_000
"""Maximum number of containers and pods tracked at a time; each takes some 500 bytes."""
MARKDOWN_MAX = 65_536
"""Maximum number of characters of an issue or comment on GitHub; other sites allow more."""
