"""The sink of the data source: rows of Spark to topics."""
