"""The options of the data source: the names, defaults and refusals of Spark's Kafka connector."""

from broker.spark.options.client_keys import client_settings
from broker.spark.options.limits import (
    Earliest,
    Latest,
    NoMatchStrategy,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
    Timestamp,
)
from broker.spark.options.names import log_remarks
from broker.spark.options.option_map import IllegalOption, OptionMap
from broker.spark.options.read_options import ReadOptions
from broker.spark.options.topics import Assign, Subscribe, SubscribePattern, TopicChoice

__all__ = [
    "Assign",
    "Earliest",
    "IllegalOption",
    "Latest",
    "NoMatchStrategy",
    "OffsetLimit",
    "OptionMap",
    "ReadOptions",
    "SpecificOffsets",
    "SpecificTimestamps",
    "Subscribe",
    "SubscribePattern",
    "Timestamp",
    "TopicChoice",
    "client_settings",
    "log_remarks",
]
