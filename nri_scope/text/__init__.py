# SPDX-License-Identifier: Apache-2.0
"""Turn values into text that is safe on a terminal, in Markdown and in YAML.

In: any text, including untrusted input. Out: the text with control characters escaped, as YAML,
styled or laid out in lines; counts, durations, sizes and times as text. This package never depends
on the meaning or destination of the text.
"""
