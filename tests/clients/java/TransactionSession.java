import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's producers and consumers. */
public final class TransactionSession extends ClientSession {
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        TransactionSession session = new TransactionSession();
        session.serve();
        session.producers.values().forEach(producer -> producer.close(Duration.ZERO));
        session.consumers.values().forEach(KafkaConsumer::close);
    }

    @Override
    Object call(JsonNode line) throws Exception {
        String name = line.get(0).asText();
        String call = line.get(1).asText();
        if (call.equals("produce")) {
            producers.put(name, new KafkaProducer<>(settings(line.get(2)), new StringSerializer(), new StringSerializer()));
            return null;
        }
        if (call.equals("consume")) {
            consumers.put(
                    name, new KafkaConsumer<>(settings(line.get(2)), new StringDeserializer(), new StringDeserializer()));
            return null;
        }
        return producers.containsKey(name) ? callProducer(name, call, line) : callConsumer(name, call, line);
    }

    private Object callProducer(String name, String call, JsonNode line) throws Exception {
        KafkaProducer<String, String> producer = producers.get(name);
        switch (call) {
            case "initTransactions" -> producer.initTransactions();
            case "beginTransaction" -> producer.beginTransaction();
            case "commitTransaction" -> producer.commitTransaction();
            case "abortTransaction" -> producer.abortTransaction();
            case "close" -> producers.remove(name).close(Duration.ZERO);
            case "send" -> {
                String topic = line.get(2).asText();
                int partition = line.get(3).asInt();
                String value = line.get(4).asText();
                return producer.send(new ProducerRecord<>(topic, partition, null, value)).get().offset();
            }
            case "sendOffsetsToTransaction" -> {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                TopicPartition partition = new TopicPartition(line.get(3).asText(), line.get(4).asInt());
                offsets.put(partition, new OffsetAndMetadata(line.get(5).asLong()));
                producer.sendOffsetsToTransaction(offsets, consumers.get(line.get(2).asText()).groupMetadata());
            }
            default -> throw new IllegalArgumentException(call);
        }
        return null;
    }

    private Object callConsumer(String name, String call, JsonNode line) {
        KafkaConsumer<String, String> consumer = consumers.get(name);
        switch (call) {
            case "subscribe" -> consumer.subscribe(List.of(line.get(2).asText()));
            case "poll" -> {
                List<String> values = new ArrayList<>();
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(line.get(2).asLong()))) {
                    values.add(each.value());
                }
                return values;
            }
            case "committed" -> {
                TopicPartition partition = new TopicPartition(line.get(2).asText(), line.get(3).asInt());
                OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
                return found == null ? null : found.offset();
            }
            case "readAll" -> {
                return readAll(consumer, line.get(2).asText(), line.get(3).asInt());
            }
            case "close" -> consumers.remove(name).close();
            default -> throw new IllegalArgumentException(call);
        }
        return null;
    }

    /** The values of all records before the ends that this consumer sees, without regard to how long it takes. */
    private static List<String> readAll(KafkaConsumer<String, String> consumer, String topic, int count) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            partitions.add(new TopicPartition(topic, index));
        }
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        List<String> values = new ArrayList<>();
        while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                values.add(each.value());
            }
        }
        return values;
    }
}
