# SPDX-License-Identifier: Apache-2.0
"""Limits of a report. Items beyond a limit are counted, and reported as omitted."""

SESSIONS_MAX = 60
"""Maximum number of listed sessions."""
GAPS_MAX = 60
NOTES_MAX = 40
PLUGINS_MAX = 100
"""Maximum number of listed plugins, one for each index from 00 to 99."""
CONTAINERS_MAX = 60
"""Maximum number of containers whose changes are included."""
STEPS_MAX = 1_500
"""Maximum number of changes; each has two values of up to `VALUE_MAX` characters."""
STEPS_OF_ONE_MAX = 200
"""Maximum number of changes of one container."""
LANES_MAX = 48
"""Maximum number of pods and containers that are drawn."""
LANES_KEPT = 400
"""Maximum number of lifetimes from which the drawn ones are selected; each uses a few kB."""
COLUMNS = 400
"""Number of columns of the timeline, which is its resolution."""
VALUE_MAX = 600
"""Maximum number of characters of a value."""
WORDS_MAX = 400
"""Maximum number of characters of an error or a reason."""
NAME_MAX = 160
"""Maximum length of the name of a pod or container; valid ones have up to 63 in each part."""
EVENTS_NAMED = 12
"""Maximum number of events that a finding lists in text."""
EVENTS_KEPT = 200
"""Maximum number of events that a finding lists in JSON."""
CASES_MAX = 2_000
"""Maximum number of separate findings of one kind while a recording is read."""
FINDINGS_OF_KIND_MAX = 40
"""Maximum number of listed findings of one kind; a further finding counts the others."""
TRACKED_MAX = 50_000
"""Maximum number of containers and pods tracked at a time; each uses some 500 bytes."""
MARKDOWN_MAX = 65_536
"""Maximum number of characters of an issue or comment on GitHub; other sites allow more."""
