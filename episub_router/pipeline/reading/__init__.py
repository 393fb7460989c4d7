"""Reading trace files of every format into Arrow batches of `record.RECORD`. No Spark in here
but for the data source: the same functions serve Spark's workers and plain Python."""
