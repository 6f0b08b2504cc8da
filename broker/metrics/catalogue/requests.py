"""Requests. Every request is counted; their times are measured in a sample of the event loop's turns.

A turn runs the requests that have arrived together, commits what they appended, and sends the replies. At up to a
hundred turns a second all are measured. At more, a measured turn counts for those that were skipped since the one
before it, so that the counts and sums of the histograms are still estimates of all requests.
"""

from typing import Final

from broker.metrics.metric import counter, histogram

_MBEAN: Final = "kafka.network:type=RequestMetrics"
_REQUEST: Final = ("request",)

REQUESTS: Final = counter(
    "kafka_network_requestmetrics_requests_total",
    "Requests that arrived, by API and version",
    labels=("request", "version"),
    mbean=f"{_MBEAN},name=RequestsPerSec,request=*,version=*",
)
TOTAL_TIME: Final = histogram(
    "kafka_network_requestmetrics_totaltimems",
    "Time from the beginning of the turn that received the request until its response was sent",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=TotalTimeMs,request=*",
)
REQUEST_QUEUE_TIME: Final = histogram(
    "kafka_network_requestmetrics_requestqueuetimems",
    "Time for which the request waited for others of its turn",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=RequestQueueTimeMs,request=*",
)
LOCAL_TIME: Final = histogram(
    "kafka_network_requestmetrics_localtimems",
    "Time for which the request was processed, with its share of the turn's commit",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=LocalTimeMs,request=*",
)
REMOTE_TIME: Final = histogram(
    "kafka_network_requestmetrics_remotetimems",
    "Time for which the request waited: for followers, for records to fetch, for the controller, or for later slices",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=RemoteTimeMs,request=*",
)
THROTTLE_TIME: Final = histogram(
    "kafka_network_requestmetrics_throttletimems",
    "Time for which the connection was muted after the request, because its client exceeded a quota",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=ThrottleTimeMs,request=*",
)
RESPONSE_QUEUE_TIME: Final = histogram(
    "kafka_network_requestmetrics_responsequeuetimems",
    "Time from the end of the processing until the responses of the turn were sent",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=ResponseQueueTimeMs,request=*",
)
RESPONSE_SEND_TIME: Final = histogram(
    "kafka_network_requestmetrics_responsesendtimems",
    "Time for which the responses of the turn were sent",
    labels=_REQUEST,
    mbean=f"{_MBEAN},name=ResponseSendTimeMs,request=*",
)
