# SPDX-License-Identifier: Apache-2.0
"""Show the details of the selected row in tabs, and the comparison of two events.

In: the selected row or two events. Out: styled lines. It never selects the row.
"""
