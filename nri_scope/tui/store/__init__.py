# SPDX-License-Identifier: Apache-2.0
"""Keep an open recording for the screen: rows by position, markers, filters, and the threads that
read.

In: a path, filters, and queries for positions. Out: rows and facts, read in threads and
returned in the event loop. This package never imports Textual.
"""
