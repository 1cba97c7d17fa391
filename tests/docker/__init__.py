# SPDX-License-Identifier: Apache-2.0
"""Tests on a real Docker Engine, built from the Go module proxy."""
