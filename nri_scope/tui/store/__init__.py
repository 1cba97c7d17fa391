# SPDX-License-Identifier: Apache-2.0
"""Keep an open recording for the screen: rows by position, markers, filters, and the threads that
read.

In: a path, filters, and questions about positions. Out: rows and facts, read in threads and
answered in the event loop. It never imports Textual.
"""
