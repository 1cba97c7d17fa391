# SPDX-License-Identifier: Apache-2.0
"""Code generated from proto/ by scripts/generate.py. Do not edit."""
