# SPDX-License-Identifier: Apache-2.0
"""Read an open recording for the screen: rows by position, markers, and filtered views.

In: a path, filters and positions. Out: rows and facts, read in threads and returned on the event
loop. This package never imports Textual.
"""
