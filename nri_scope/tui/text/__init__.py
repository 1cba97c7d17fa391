# SPDX-License-Identifier: Apache-2.0
"""Lay out styled lines and the texts of filters.

In: values and widths. Out: lines with named styles. It never imports Textual, and does not use
widgets.
"""
