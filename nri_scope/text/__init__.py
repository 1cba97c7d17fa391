# SPDX-License-Identifier: Apache-2.0
"""Turn values into text that is safe on a terminal, in Markdown and in YAML.

In: any text, also from untrusted input. Out: the same with control characters escaped, or as a YAML
scalar. This package knows neither what the text means nor where it is printed.
"""
