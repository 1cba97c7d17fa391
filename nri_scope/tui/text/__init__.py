# SPDX-License-Identifier: Apache-2.0
"""Lay out styled lines, and check and complete filters.

In: values, widths and typed filters. Out: lines with named styles, completions. It never imports
Textual or widgets.
"""
