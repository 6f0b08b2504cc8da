"""Reads the values of the metrics from the packages of a node, at a scrape."""

from broker.metrics.collectors.clients import ConnectionCollector, QuotaCollector
from broker.metrics.collectors.controller import ControllerCollector, Elections, QuorumCollector
from broker.metrics.collectors.coordinators import GroupCollector, ShareCollector, TransactionCollector
from broker.metrics.collectors.logs import LogDirectoryCollector, ScrubCollector
from broker.metrics.collectors.partitions import PartitionCollector
from broker.metrics.collectors.process import ProcessCollector
from broker.metrics.collectors.requests import RequestCollector
from broker.metrics.collectors.shares import SharePartitionCollector
from broker.metrics.collectors.telemetry import TelemetryCollector

__all__ = [
    "ConnectionCollector",
    "ControllerCollector",
    "Elections",
    "GroupCollector",
    "LogDirectoryCollector",
    "PartitionCollector",
    "ProcessCollector",
    "QuorumCollector",
    "QuotaCollector",
    "RequestCollector",
    "ScrubCollector",
    "ShareCollector",
    "SharePartitionCollector",
    "TelemetryCollector",
    "TransactionCollector",
]
