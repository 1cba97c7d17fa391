# SPDX-License-Identifier: Apache-2.0
"""Scripts that make what the repository holds in generated form."""
