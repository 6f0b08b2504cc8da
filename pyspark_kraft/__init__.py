"""Lets Spark find the data source "kraft" without a call: it looks for `DefaultSource` in modules named pyspark_*."""

from broker.spark.source import KraftDataSource as DefaultSource

__all__ = ["DefaultSource"]
