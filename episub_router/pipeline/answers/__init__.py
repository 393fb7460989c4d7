"""From facts to measures (gold): pure functions, one file for each question.

Formulas and sources are in docs/metrics.md; tests/pipeline/oracle.py has each of them a second
time, in plain Python.
"""
