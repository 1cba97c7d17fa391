# SPDX-License-Identifier: Apache-2.0
"""Marks and comments of people: in a recording, or beside one that cannot be written."""
