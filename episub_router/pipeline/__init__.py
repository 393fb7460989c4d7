"""From traces to answers, on Apache Spark (extra `spark`): see docs/pipeline.md.

`ingest` decodes traces once into a table of events (bronze), `facts` makes tables of what
happened from it (silver), `answers` the measures (gold). All of `facts` and `answers` are pure
functions from DataFrames to DataFrames.
"""
