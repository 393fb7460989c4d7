"""Writing bronze: what each trace file is known by, and its records as Parquet, in Spark's tasks.

A task reads its files and writes its own Parquet files with Arrow; only counts go to the driver.
"""
