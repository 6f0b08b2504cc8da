"""The jobs of the data pipeline, as functions over a SparkSession: load, replay, stats."""
