package kraft.testing;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A test server: real Kafka clusters with faults for tests, by the control port of `kraft test-server`.
 *
 * <p>This is one file, which needs Jackson: copy it into your project. The program is found on PATH, or named by the
 * variable KRAFT; with KRAFT_CONTROL=HOST:PORT, a server that runs already is used. The words of faults, actions and waits
 * are those of docs/testing-api.json. A refused request throws {@link Refused}. The clusters end with {@link #close}, or
 * with this process.
 */
public final class KraftServer implements AutoCloseable {
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Process process;
    private final String control;
    private final BufferedReader lease;
    private final String leaseName;

    /** The server refuses a request. {@code status} is that of the HTTP response. */
    public static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;
        public final int status;

        Refused(int status, String reason) {
            super(reason);
            this.status = status;
        }
    }

    /** Starts a server, or connects to that of KRAFT_CONTROL. */
    public static KraftServer start() {
        String running = System.getenv("KRAFT_CONTROL");
        if (running != null) {
            return new KraftServer(running, null);
        }
        String program = System.getenv().getOrDefault("KRAFT", "kraft");
        // It ends when its standard input is closed, also if this process is killed.
        ProcessBuilder command = new ProcessBuilder(program, "test-server", "--nodes", "1");
        try {
            Process process = command.redirectError(ProcessBuilder.Redirect.INHERIT).start();
            String line = process.inputReader(StandardCharsets.UTF_8).readLine();
            if (line == null) {
                throw new IOException("kraft test-server has ended");
            }
            return new KraftServer(JSON.readTree(line).get("control").asText(), process);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private KraftServer(String control, Process process) {
        this.control = control;
        this.process = process;
        // The response goes on for as long as this process does; the clusters of the lease end with it.
        try {
            HttpRequest request = request("POST", "/leases", null);
            lease = new BufferedReader(new InputStreamReader(
                    http.send(request, BodyHandlers.ofInputStream()).body(), StandardCharsets.UTF_8));
            leaseName = JSON.readTree(lease.readLine()).get("lease").asText();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** Sends a request. The answer is an instance of a class, for example of JsonNode. */
    public <T> T send(String method, String path, Map<String, ?> body, Class<T> answer) {
        try {
            HttpResponse<String> response = http.send(request(method, path, body), BodyHandlers.ofString());
            if (response.statusCode() != 200) {
                throw new Refused(response.statusCode(), JSON.readTree(response.body()).get("error").asText());
            }
            return JSON.readValue(response.body(), answer);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    private HttpRequest request(String method, String path, Map<String, ?> body) throws IOException {
        BodyPublisher sent =
                body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(JSON.writeValueAsString(body));
        return HttpRequest.newBuilder(URI.create("http://" + control + path)).method(method, sent).build();
    }

    private static IllegalStateException interrupted(InterruptedException error) {
        Thread.currentThread().interrupt();
        return new IllegalStateException(error);
    }

    /** Makes a cluster that serves. The words are "nodes", "security", "config", "log_level" and "seed". */
    public Cluster cluster(Map<String, ?> words) {
        return new Cluster(send("POST", "/clusters", with("lease", leaseName, words), Described.class));
    }

    /** Ends the clusters, and the server if {@link #start} has started it. */
    @Override
    public void close() {
        try {
            lease.close();
            if (process != null) {
                process.getOutputStream().close();
                process.waitFor();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    private static Map<String, Object> with(String word, Object value, Map<String, ?> words) {
        Map<String, Object> all = new HashMap<>(words);
        all.put(word, value);
        return all;
    }

    private record Described(
            String name,
            @JsonProperty("bootstrap_servers") String bootstrapServers,
            Map<String, Map<String, String>> clients) {}

    private record Name(String name) {}

    private record Nodes(List<Integer> nodes) {}

    private record Records(List<Record> records) {}

    private record Requests(List<Request> requests) {}

    private record Counts(String id, int fired, int held) {}

    /** A committed record of a topic. */
    public record Record(int partition, long offset, byte[] key, byte[] value) {}

    /** An error of an answer, by Kafka's name. */
    public record AnswerError(String error) {}

    /** A request that a node has got. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    public record Request(
            String api,
            @JsonProperty("client_id") String clientId,
            int node,
            String outcome,
            String fault,
            List<AnswerError> errors) {}

    /** A cluster, until {@link #close}. */
    public final class Cluster implements AutoCloseable {
        private final Described described;

        private Cluster(Described described) {
            this.described = described;
        }

        public String bootstrapServers() {
            return described.bootstrapServers;
        }

        /** The settings of Apache Kafka's Java client, with the credentials of a secured cluster. */
        public Map<String, Object> config() {
            return new HashMap<>(described.clients.get("java"));
        }

        /** Sends a request about this cluster. */
        public <T> T send(String method, String resource, Map<String, ?> body, Class<T> answer) {
            return KraftServer.this.send(method, "/clusters/" + described.name + resource, body, answer);
        }

        /** Creates a topic with a unique name, which is returned. The words are "partitions", "replicas", "config". */
        public String topic(String name, Map<String, ?> words) {
            return send("POST", "/topics", with("name", name, words), Name.class).name;
        }

        /**
         * Does something to a node: "kill", "pause", "resume", "stop", "start" or "restart". The words name the node, as
         * in {@code Map.of("leader_of", List.of(topic, 0))}. Returns the ids of the nodes.
         */
        public List<Integer> act(String action, Map<String, ?> target) {
            return send("POST", "/actions", with("action", action, target), Nodes.class).nodes;
        }

        /** Waits for conditions, such as {@code Map.of("in_sync", topic)}. */
        public void waitFor(Map<String, ?> words) {
            send("POST", "/waits", words, JsonNode.class);
        }

        /** Causes an event of Kafka, such as {@code Map.of("change", "move_leader", "topic", topic)}. */
        public JsonNode change(Map<String, ?> words) {
            return send("POST", "/changes", words, JsonNode.class);
        }

        /** Returns all committed records of a topic, by partition and offset. */
        public List<Record> records(String topic) {
            return send("GET", "/topics/" + topic + "/records", null, Records.class).records;
        }

        /** Returns the history: the latest requests that match the words, of all nodes. */
        public List<Request> requests(Map<String, ?> words) {
            return send("POST", "/requests", words, Requests.class).requests;
        }

        /** Returns the timeline: what nodes have reported, and what was done to them. */
        public JsonNode events() {
            return send("GET", "/events", null, JsonNode.class).get("events");
        }

        /** Begins a fault of the protocol, such as {@code Map.of("api", "Produce", "lose_answer", true, "times", 1)}. */
        public Fault fault(Map<String, ?> words) {
            return new Fault(this, send("POST", "/faults", words, Counts.class));
        }

        /** Begins a fault of links, such as {@code Map.of("client_id", "shop", "node", 1, "cut", true)}. */
        public Fault link(Map<String, ?> words) {
            return new Fault(this, send("POST", "/links", words, Counts.class));
        }

        /** Begins a fault of disks, such as {@code Map.of("node", 1, "full", true)}. */
        public Fault disk(Map<String, ?> words) {
            return new Fault(this, send("POST", "/disks", words, Counts.class));
        }

        /** Begins a fault of clocks, such as {@code Map.of("node", 1, "offset_ms", -3_600_000)}. */
        public Fault clock(Map<String, ?> words) {
            return new Fault(this, send("POST", "/clocks", words, Counts.class));
        }

        @Override
        public void close() {
            send("DELETE", "", null, JsonNode.class);
        }
    }

    /** A fault, in force until {@link #close} or the end of its cluster. */
    public static final class Fault implements AutoCloseable {
        private final Cluster cluster;
        private Counts counts;

        private Fault(Cluster cluster, Counts counts) {
            this.cluster = cluster;
            this.counts = counts;
        }

        /** Returns how often it had fired at the last request about it. */
        public int fired() {
            return counts.fired;
        }

        /** Returns how many requests or connections it held at the last request about it. */
        public int held() {
            return counts.held;
        }

        /** Waits until it has "fired", or has "held" requests or connections, so often. */
        public void await(String word, int count) {
            send("POST", Map.of("wait", word, "count", count));
        }

        /** Releases the requests that it holds now. */
        public void release() {
            send("POST", Map.of("release", true));
        }

        @Override
        public void close() {
            send("DELETE", null);
        }

        private void send(String method, Map<String, ?> body) {
            counts = cluster.send(method, "/faults/" + counts.id, body, Counts.class);
        }
    }
}
