# SPDX-License-Identifier: Apache-2.0
"""Show the details of the selected row in tabs, and the comparison of two events.

In: a row, and documents read for it. Out: styled lines. It never decides which row is selected.
"""
