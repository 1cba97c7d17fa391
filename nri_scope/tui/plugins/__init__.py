# SPDX-License-Identifier: Apache-2.0
"""The view of the chain of plugins, and what is counted of their calls."""
