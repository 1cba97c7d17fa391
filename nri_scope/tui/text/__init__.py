# SPDX-License-Identifier: Apache-2.0
"""Styled lines, their layout and the texts of filters, without any widget."""
