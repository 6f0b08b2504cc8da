package kraft.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import kraft.testing.KraftServer.Cluster;
import kraft.testing.KraftServer.Fault;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class KraftServerTest {
    private static KraftServer server;

    @BeforeAll
    static void startServer() {
        server = KraftServer.start();
    }

    @AfterAll
    static void closeServer() {
        server.close();
    }

    private static KafkaProducer<String, String> newShop(Cluster cluster) {
        Map<String, Object> config = cluster.config();
        config.put("client.id", "shop");
        config.put("retry.backoff.ms", 20);
        config.put("reconnect.backoff.ms", 20);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static RecordMetadata write(KafkaProducer<String, String> producer, String topic, String value)
            throws Exception {
        return producer.send(new ProducerRecord<>(topic, value)).get(60, TimeUnit.SECONDS);
    }

    private static List<String> values(Cluster cluster, String topic) {
        return cluster.records(topic).stream().map(record -> new String(record.value())).toList();
    }

    @Test
    void refusedOrderIsWrittenOnce() throws Exception {
        try (Cluster cluster = server.cluster(Map.of("nodes", 1));
                KafkaProducer<String, String> shop = newShop(cluster)) {
            String topic = cluster.topic("orders", Map.of());
            Fault fault = cluster.fault(
                    Map.of("api", "Produce", "topic", topic, "error", "NOT_LEADER_OR_FOLLOWER", "times", 1));
            write(shop, topic, "one order");
            fault.close();
            assertEquals(1, fault.fired());
            List<String> errors = cluster.requests(Map.of("api", "Produce", "client_id", "shop")).stream()
                    .flatMap(request -> request.errors().stream())
                    .map(KraftServer.AnswerError::error)
                    .toList();
            assertEquals(List.of("NOT_LEADER_OR_FOLLOWER"), errors);
            assertEquals(List.of("one order"), values(cluster, topic));
        }
    }

    @Test
    void orderWhoseAnswerIsLostIsWrittenOnce() throws Exception {
        try (Cluster cluster = server.cluster(Map.of("nodes", 1));
                KafkaProducer<String, String> shop = newShop(cluster)) {
            String topic = cluster.topic("orders", Map.of());
            Fault fault = cluster.fault(Map.of("api", "Produce", "topic", topic, "lose_answer", true, "times", 1));
            write(shop, topic, "one order");
            fault.await("fired", 1);
            assertEquals(List.of("one order"), values(cluster, topic));
        }
    }

    @Test
    void noOrderIsLostWhenTheLeaderDies() throws Exception {
        try (Cluster cluster = server.cluster(Map.of("nodes", 3));
                KafkaProducer<String, String> shop = newShop(cluster)) {
            String topic = cluster.topic("orders", Map.of("replicas", 3));
            write(shop, topic, "before");
            List<Integer> killed = cluster.act("kill", Map.of("leader_of", List.of(topic, 0)));
            write(shop, topic, "after");
            assertEquals(killed, cluster.act("start", Map.of()));
            cluster.waitFor(Map.of("in_sync", topic));
            assertEquals(List.of("before", "after"), values(cluster, topic));
        }
    }

    @Test
    void orderIsAcknowledgedAfterTheLinkIsWhole() throws Exception {
        try (Cluster cluster = server.cluster(Map.of("nodes", 1));
                KafkaProducer<String, String> shop = newShop(cluster)) {
            String topic = cluster.topic("orders", Map.of());
            write(shop, topic, "before");
            Future<RecordMetadata> acknowledged;
            try (Fault link = cluster.link(Map.of(
                    "client_id", "shop", "leader_of", List.of(topic, 0), "direction", "out", "cut", true))) {
                acknowledged = shop.send(new ProducerRecord<>(topic, "meanwhile"));
                link.await("held", 1);
                assertEquals(List.of("before", "meanwhile"), values(cluster, topic));
                assertFalse(acknowledged.isDone());
            }
            acknowledged.get(60, TimeUnit.SECONDS);
        }
    }

    @Test
    void wrongWordsAreRefused() {
        try (Cluster cluster = server.cluster(Map.of("nodes", 1))) {
            Map<String, Object> words = Map.of("api", "Prodduce", "hold", true);
            assertEquals(400, assertThrows(KraftServer.Refused.class, () -> cluster.fault(words)).status);
        }
    }
}
