// Prints what Apache Kafka's share coordinator decides in random sequences of requests, from its own jars.
//
//   java -cp 'DIRECTORY/*' ShareStateFacts.java
//
// Each line is a request to Kafka's ShareCoordinatorShard: the sequence that it belongs to, the API, its arguments, the
// error code of the response, what the response says, and the key and the value of the record that is appended.

import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.common.config.AbstractConfig;

class ShareStateFacts {
    private static final int SEQUENCES = 5;
    private static final int REQUESTS = 80;
    private static final int UPDATES_PER_SNAPSHOT = 3;
    private static final String GROUP = "group";
    private static final Uuid TOPIC = new Uuid(1L, 2L);
    private static final Uuid UNKNOWN = new Uuid(3L, 4L);
    private static final int[] STATES = {0, 2, 4};

    private static long nowMs;
    private static long offset;

    public static void main(String[] arguments) {
        System.out.println("sequence,at_ms,api,arguments,error_code,response,key,value");
        for (int sequence = 0; sequence < SEQUENCES; sequence++) {
            nowMs = 1_700_000_000_000L;
            offset = 0;
            Random random = new Random(sequence);
            ShareCoordinatorShard shard = shard();
            for (int at = 0; at < REQUESTS; at++) {
                nowMs += random.nextInt(1000);
                request(sequence, shard, random, at);
            }
        }
    }

    private static ShareCoordinatorShard shard() {
        AbstractConfig config = new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, Map.of(
            ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, UPDATES_PER_SNAPSHOT), false);
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, parameters) -> method.getName().equals("milliseconds") ? nowMs : null);
        ShareCoordinatorShard shard = new ShareCoordinatorShard.Builder(new ShareCoordinatorConfig(config))
            .withSnapshotRegistry(registry())
            .withTime(time)
            .withCoordinatorMetrics(new ShareCoordinatorMetrics(new Metrics()))
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .build();
        MetadataDelta delta = new MetadataDelta.Builder().build();
        delta.replay(new TopicRecord().setName("topic").setTopicId(TOPIC));
        delta.replay(new PartitionRecord().setTopicId(TOPIC).setPartitionId(0));
        delta.replay(new PartitionRecord().setTopicId(TOPIC).setPartitionId(1));
        shard.onLoaded(new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY)));
        return shard;
    }

    // The package of its parameter's class differs between releases.
    private static SnapshotRegistry registry() {
        try {
            Constructor<?> constructor = SnapshotRegistry.class.getConstructors()[0];
            Object context = constructor.getParameterTypes()[0].getConstructor().newInstance();
            return (SnapshotRegistry) constructor.newInstance(context);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void request(int sequence, ShareCoordinatorShard shard, Random random, int at) {
        Uuid topic = random.nextInt(20) == 0 ? UNKNOWN : TOPIC;
        int partition = random.nextInt(30) == 0 ? random.nextInt(4) - 2 : 0;
        int stateEpoch = random.nextInt(8) == 0 ? random.nextInt(4) - 1 : 2 + at / 20;
        int leaderEpoch = random.nextInt(8) == 0 ? random.nextInt(4) - 1 : 2 + at / 10;
        long start = random.nextInt(3) == 0 ? -1 : random.nextInt(10) + at / 2;
        String place = topic + " " + partition;
        switch (at % 20 == 0 ? 0 : random.nextInt(16)) {
            case 0 -> {
                var part = new InitializeShareGroupStateRequestData.PartitionData().setPartition(partition)
                    .setStateEpoch(stateEpoch).setStartOffset(start);
                var result = shard.initializeState(new InitializeShareGroupStateRequestData().setGroupId(GROUP).setTopics(
                    List.of(new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(topic)
                        .setPartitions(List.of(part)))));
                var answer = result.response().results().get(0).partitions().get(0);
                print(sequence, shard, "initialize", place + " " + stateEpoch + " " + start, answer.errorCode(), "", result);
            }
            case 1, 2 -> {
                var part = new ReadShareGroupStateRequestData.PartitionData().setPartition(partition)
                    .setLeaderEpoch(leaderEpoch);
                var result = shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData().setGroupId(GROUP)
                    .setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData().setTopicId(topic)
                        .setPartitions(List.of(part)))));
                var answer = result.response().results().get(0).partitions().get(0);
                String batches = answer.stateBatches().stream().map(batch -> batch.firstOffset() + "-" + batch.lastOffset()
                    + ":" + batch.deliveryState() + ":" + batch.deliveryCount()).collect(Collectors.joining(" "));
                String response = answer.errorCode() != 0 ? "" : answer.stateEpoch() + " " + answer.startOffset()
                    + (batches.isEmpty() ? "" : " " + batches);
                print(sequence, shard, "read", place + " " + leaderEpoch, answer.errorCode(), response, result);
            }
            case 3 -> {
                var part = new ReadShareGroupStateSummaryRequestData.PartitionData().setPartition(partition)
                    .setLeaderEpoch(leaderEpoch);
                var result = shard.readStateSummary(new ReadShareGroupStateSummaryRequestData().setGroupId(GROUP).setTopics(
                    List.of(new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData().setTopicId(topic)
                        .setPartitions(List.of(part)))));
                var answer = result.response().results().get(0).partitions().get(0);
                String response = answer.errorCode() != 0 ? "" : answer.stateEpoch() + " " + answer.leaderEpoch() + " "
                    + answer.startOffset() + " " + answer.deliveryCompleteCount();
                print(sequence, shard, "read_summary", place + " " + leaderEpoch, answer.errorCode(), response, result);
            }
            case 4 -> {
                if (random.nextInt(4) != 0) {
                    return;
                }
                var part = new DeleteShareGroupStateRequestData.PartitionData().setPartition(partition);
                var result = shard.deleteState(new DeleteShareGroupStateRequestData().setGroupId(GROUP).setTopics(
                    List.of(new DeleteShareGroupStateRequestData.DeleteStateData().setTopicId(topic)
                        .setPartitions(List.of(part)))));
                var answer = result.response().results().get(0).partitions().get(0);
                print(sequence, shard, "delete", place, answer.errorCode(), "", result);
            }
            default -> {
                List<WriteShareGroupStateRequestData.StateBatch> batches = new ArrayList<>();
                for (int count = random.nextInt(4); count > 0; count--) {
                    long first = random.nextInt(20) + at / 2;
                    batches.add(new WriteShareGroupStateRequestData.StateBatch().setFirstOffset(first)
                        .setLastOffset(first + random.nextInt(6))
                        .setDeliveryState((byte) STATES[random.nextInt(3)]).setDeliveryCount((short) (1 + random.nextInt(3))));
                }
                int complete = random.nextInt(6) - 1;
                var part = new WriteShareGroupStateRequestData.PartitionData().setPartition(partition)
                    .setStateEpoch(stateEpoch).setLeaderEpoch(leaderEpoch).setStartOffset(start)
                    .setDeliveryCompleteCount(complete).setStateBatches(batches);
                var result = shard.writeState(new WriteShareGroupStateRequestData().setGroupId(GROUP).setTopics(
                    List.of(new WriteShareGroupStateRequestData.WriteStateData().setTopicId(topic)
                        .setPartitions(List.of(part)))));
                var answer = result.response().results().get(0).partitions().get(0);
                String written = batches.stream().map(batch -> " " + batch.firstOffset() + "-" + batch.lastOffset() + ":"
                    + batch.deliveryState() + ":" + batch.deliveryCount()).collect(Collectors.joining());
                print(sequence, shard, "write", place + " " + stateEpoch + " " + leaderEpoch + " " + start + " " + complete
                    + written, answer.errorCode(), "", result);
            }
        }
    }

    private static void print(int sequence, ShareCoordinatorShard shard, String api, String arguments, short errorCode,
            String response, CoordinatorResult<?, CoordinatorRecord> result) {
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        String key = "";
        String value = "";
        for (CoordinatorRecord record : result.records()) {
            key = hex(serde.serializeKey(record));
            value = record.value() == null ? "null" : hex(serde.serializeValue(record));
            shard.replay(offset++, -1, (short) -1, record);
        }
        System.out.println(String.join(",", String.valueOf(sequence), String.valueOf(nowMs), api, arguments,
            String.valueOf(errorCode), response, key, value));
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
