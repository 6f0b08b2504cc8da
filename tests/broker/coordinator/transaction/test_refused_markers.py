"""End markers that a coordinator sends to a broker which must not append them."""

from broker.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import NODE_ID, RunningNode
from tests.support.scripted_follower import scripted_follower
from tests.support.wire_client import WireClient, only

OTHER = 2


async def test_marker_that_a_follower_refuses_takes_no_log_directory_offline(
    node: RunningNode, client: WireClient
) -> None:
    await create_topic(client, "led")
    async with scripted_follower(node, OTHER) as leader:
        await leader.create_topic([OTHER, NODE_ID])
        topic = WritableTxnMarkerTopic(name="topic", partition_indexes=[0])
        marker = WritableTxnMarker(producer_id=7, producer_epoch=0, topics=[topic])
        response = await client.call(WriteTxnMarkersRequest(markers=[marker]), 1)
        refused = only(only(only(response.markers).topics).partitions)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await produce(client, batch(b"value"), topic="led")).error_code == 0
