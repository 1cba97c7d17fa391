# SPDX-License-Identifier: Apache-2.0
"""The view of pods and containers, and what is counted of their lives."""
