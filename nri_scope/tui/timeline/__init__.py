# SPDX-License-Identifier: Apache-2.0
"""The view of lives to scale."""
