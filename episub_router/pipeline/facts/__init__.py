"""From events to what happened (silver): pure functions, one file for each kind of fact.

All take events whose times `clocks.corrected` has put on one clock.
"""
