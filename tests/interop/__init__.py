# SPDX-License-Identifier: Apache-2.0
"""Tests of nri-scope's plugin and runtime roles against programs on upstream's Go packages."""
