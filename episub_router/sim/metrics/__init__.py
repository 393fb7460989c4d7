"""The measures, each defined once, with its formula and source, as a plain function.

`dissemination` and `trees` look at how messages spread, `overlay` at the
connections, `accounting` at what is missing and why.
"""
