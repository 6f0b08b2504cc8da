"""`stats`: rates, keys, sizes, lateness, gaps and duplicates of topics; as objects, and as a page."""

from broker.spark.jobs.stats.job import file_stats, topic_stats
from broker.spark.jobs.stats.page import render_page

__all__ = ["file_stats", "render_page", "topic_stats"]
