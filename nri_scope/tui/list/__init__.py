# SPDX-License-Identifier: Apache-2.0
"""The list of events: columns, cells, reading rows around the screen, scrolling and following."""
