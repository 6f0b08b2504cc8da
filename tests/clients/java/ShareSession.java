import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Apache Kafka's share consumers. A record is an array: partition, offset, value, delivery count. */
public final class ShareSession extends ClientSession {
    private final Map<String, KafkaShareConsumer<String, String>> consumers = new HashMap<>();
    // The polled records of each consumer, by partition and offset.
    private final Map<String, Map<List<Long>, ConsumerRecord<String, String>>> polled = new HashMap<>();
    // The calls of each consumer's acknowledgement commit callback since the last question for them.
    private final Map<String, List<Object>> callbacks = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ShareSession session = new ShareSession();
        session.serve();
        session.consumers.values().forEach(KafkaShareConsumer::close);
    }

    @Override
    Object call(JsonNode line) {
        String name = line.get(0).asText();
        String call = line.get(1).asText();
        if (call.equals("share")) {
            polled.put(name, new HashMap<>());
            consumers.put(
                    name, new KafkaShareConsumer<>(settings(line.get(2)), new StringDeserializer(), new StringDeserializer()));
            return null;
        }
        KafkaShareConsumer<String, String> consumer = consumers.get(name);
        switch (call) {
            case "subscribe" -> consumer.subscribe(List.of(line.get(2).asText()));
            case "unsubscribe" -> consumer.unsubscribe();
            case "poll" -> {
                return poll(name, consumer, line.get(2).asLong());
            }
            case "acknowledge" -> {
                ConsumerRecord<String, String> record =
                        polled.get(name).get(List.of(line.get(2).asLong(), line.get(3).asLong()));
                consumer.acknowledge(record, AcknowledgeType.valueOf(line.get(4).asText()));
            }
            case "commitSync" -> {
                return results(consumer.commitSync());
            }
            case "commitAsync" -> consumer.commitAsync();
            case "setCallback" -> setCallback(name, consumer);
            case "callbacks" -> {
                return callbacks.put(name, new ArrayList<>());
            }
            case "lockTimeoutMs" -> {
                return consumer.acquisitionLockTimeoutMs().orElse(null);
            }
            case "close" -> consumers.remove(name).close();
            default -> throw new IllegalArgumentException(call);
        }
        return null;
    }

    private List<Object> poll(String name, KafkaShareConsumer<String, String> consumer, long timeoutMs) {
        List<Object> records = new ArrayList<>();
        for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(timeoutMs))) {
            polled.get(name).put(List.of((long) each.partition(), each.offset()), each);
            records.add(List.of(each.partition(), each.offset(), each.value(), each.deliveryCount().orElseThrow()));
        }
        return records;
    }

    /** The names of the errors by partition, null without an error. */
    private static Map<String, String> results(Map<TopicIdPartition, Optional<KafkaException>> committed) {
        Map<String, String> results = new TreeMap<>();
        committed.forEach((partition, error) -> results.put(
                String.valueOf(partition.partition()), error.map(each -> each.getClass().getSimpleName()).orElse(null)));
        return results;
    }

    private void setCallback(String name, KafkaShareConsumer<String, String> consumer) {
        callbacks.put(name, new ArrayList<>());
        consumer.setAcknowledgementCommitCallback((offsets, error) -> offsets.forEach((partition, acknowledged) -> {
            List<Object> called = new ArrayList<>();
            called.add(partition.partition());
            called.add(new TreeSet<>(acknowledged));
            called.add(error == null ? null : error.getClass().getSimpleName());
            callbacks.get(name).add(called);
        }));
    }
}
