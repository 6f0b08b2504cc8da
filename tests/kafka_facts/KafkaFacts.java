// Prints facts about a release of Apache Kafka from its own jars, as the CSV files beside this file hold them.
//
//   java -cp 'DIRECTORY/*' KafkaFacts.java apis|configs|errors|features|messages|throttle_times
//
// `accepts` answers questions instead: each line of standard input is the name of a broker's config and a value in
// base64, and each line printed is 1 if a node starts with this value, else 0.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.server.quota.QuotaUtils;
import org.apache.kafka.storage.internals.log.LogConfig;

class KafkaFacts {
    // A combined node. The configs that are asked about are set on top.
    private static final Map<String, String> NODE = Map.of(
        "process.roles", "broker,controller",
        "node.id", "1",
        "listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names", "CONTROLLER",
        "controller.quorum.bootstrap.servers", "localhost:9093",
        "log.dirs", "/tmp/kafka-logs");

    // Messages whose versions tests/broker/wire cannot compare with another implementation: name, version, fields.
    private static final String[] MESSAGES = {
        """
        ApiVersionsRequest 5 {"clientSoftwareName": "kraft", "clientSoftwareVersion": "1.0", "clusterId": null,
        "nodeId": -1}""",
        """
        ApiVersionsRequest 5 {"clientSoftwareName": "kraft", "clientSoftwareVersion": "1.0", "clusterId": "abc",
        "nodeId": 258}""",
        """
        ApiVersionsResponse 5 {"errorCode": 129, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 5}],
        "throttleTimeMs": 7}""",
        """
        TxnOffsetCommitRequest 6 {"transactionalId": "t", "groupId": "g", "producerId": 5, "producerEpoch": 2,
        "generationIdOrMemberEpoch": 3, "memberId": "m", "groupInstanceId": null, "topics": [{"topicId":
        "AAECAwQFBgcICQoLDA0ODw", "partitions": [{"partitionIndex": 1, "committedOffset": 9,
        "committedLeaderEpoch": 4, "committedMetadata": "note"}]}]}""",
        """
        TxnOffsetCommitResponse 6 {"throttleTimeMs": 7, "topics": [{"topicId": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": [{"partitionIndex": 1, "errorCode": 113}]}]}""",
        """
        DeleteGroupsRequest 3 {"groupsNames": ["a", "b"]}""",
        """
        DeleteGroupsResponse 3 {"throttleTimeMs": 7, "results": [{"groupId": "a", "errorCode": 134, "errorMessage":
        "reason"}, {"groupId": "b", "errorCode": 0, "errorMessage": null}]}""",
        """
        UnregisterControllerRequest 0 {"controllerId": 3}""",
        """
        UnregisterControllerResponse 0 {"throttleTimeMs": 7, "errorCode": 136, "errorMessage": "reason"}""",
    };

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "apis" -> apis();
            case "features" -> features();
            case "configs" -> configs();
            case "errors" -> errors();
            case "messages" -> messages();
            case "throttle_times" -> throttleTimes();
            case "accepts" -> accepts();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    // Requests of clients with a byte rate quota. A client waits for most of its throttle times; some throttled requests
    // are taken back, as fetches are.
    private static void throttleTimes() {
        print("client", "windows", "window_s", "quota", "time_ms", "size", "throttle_time_ms", "taken_back");
        int[] windows = {11, 11, 11, 3, 2, 1};
        for (int client = 0; client < windows.length; client++) {
            Random random = new Random(client);
            int windowSeconds = 1 + client % 2;
            int quota = 1_000 * (1 + random.nextInt(5_000));
            MetricConfig config = new MetricConfig().timeWindow(windowSeconds, TimeUnit.SECONDS)
                .samples(windows[client]).quota(new Quota(quota, true));
            Metrics metrics = new Metrics();
            MetricName name = metrics.metricName("byte-rate", "Produce");
            Sensor sensor = metrics.sensor("client");
            sensor.add(name, new Rate(), config);
            long timeMs = 1_000_000;
            for (int request = 0; request < 150; request++) {
                int size = 1 + random.nextInt(quota);
                long throttleTimeMs = 0;
                try {
                    sensor.record(size, timeMs, true);
                } catch (QuotaViolationException e) {
                    throttleTimeMs = QuotaUtils.throttleTime(e, timeMs);
                }
                boolean takenBack = throttleTimeMs > 0 && random.nextInt(3) == 0;
                if (takenBack) {
                    sensor.record(-size, timeMs, false);
                }
                print(client, windows[client], windowSeconds, quota, timeMs, size, throttleTimeMs, takenBack ? 1 : 0);
                boolean isIdle = random.nextInt(40) == 0;
                timeMs += random.nextInt(isIdle ? 30_000 : 200) + (random.nextInt(8) == 0 ? 0 : throttleTimeMs);
            }
        }
    }

    private static void accepts() throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err);  // Kafka logs what it thinks of some values
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] cells = line.split(" ", 2);
            Map<String, String> properties = new HashMap<>(NODE);
            properties.put(cells[0], new String(Base64.getDecoder().decode(cells[1]), StandardCharsets.UTF_8));
            answers.println(isAccepted(properties) ? 1 : 0);
        }
    }

    private static boolean isAccepted(Map<String, String> properties) {
        try {
            new KafkaConfig(properties);
            return true;
        } catch (RuntimeException e) {
            return false;
        }
    }

    private static void apis() {
        print("key", "name", "listener", "min_version", "max_version", "flexible_from");
        for (ApiKeys api : ApiKeys.values()) {
            for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values()) {
                if (!api.inScope(listener)) {
                    continue;
                }
                // What a node of this release lists in ApiVersions where unstable versions are not enabled.
                ApiVersion listed = api.toApiVersionForApiResponse(false, listener).orElse(null);
                if (listed != null) {
                    print(api.id, api.messageType.name, listener.name().toLowerCase(), listed.minVersion(),
                        listed.maxVersion(), flexibleFrom(api.messageType));
                }
            }
        }
    }

    private static void errors() {
        print("code", "name", "retriable", "invalid_metadata");
        for (Errors error : Errors.values()) {
            print(error.code(), error.name(), error.exception() instanceof RetriableException,
                error.exception() instanceof InvalidMetadataException);
        }
    }

    private static void messages() throws Exception {
        print("name", "version", "fields", "bytes");
        for (String sample : MESSAGES) {
            String[] parts = sample.replace("\n", " ").split(" ", 3);
            short version = Short.parseShort(parts[1]);
            Class<?> converter = Class.forName("org.apache.kafka.common.message." + parts[0] + "DataJsonConverter");
            JsonNode fields = new ObjectMapper().readTree(parts[2]);
            Message message = (Message) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, fields, version);
            byte[] bytes = MessageUtil.byteBufferToArray(MessageUtil.toByteBufferAccessor(message, version).buffer());
            print(parts[0], version, fields, HexFormat.of().formatHex(bytes));
        }
    }

    private static String flexibleFrom(ApiMessageType type) {
        for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
            if (type.requestHeaderVersion(version) >= 2) {
                return String.valueOf(version);
            }
        }
        return "";
    }

    private static void features() {
        print("feature", "level", "release", "production", "changes_metadata", "bootstrap_metadata_version", "depends_on");
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            print(MetadataVersion.FEATURE_NAME, version.featureLevel(), version.version(), version.isProduction(),
                version.didMetadataChange(), "", "");
        }
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            for (FeatureVersion version : feature.featureVersions()) {
                StringJoiner dependencies = new StringJoiner(" ");
                new TreeMap<>(version.dependencies()).forEach((name, level) -> dependencies.add(name + "=" + level));
                print(feature.featureName(), version.featureLevel(), "",
                    version.featureLevel() <= feature.latestProduction(), "",
                    version.bootstrapMetadataVersion().featureLevel(), dependencies);
            }
        }
    }

    private static void configs() {
        print("scope", "name", "type", "default", "importance", "internal", "update_mode");
        Map<String, ConfigDef> scopes = new TreeMap<>();
        scopes.put("broker", AbstractKafkaConfig.CONFIG_DEF);
        scopes.put("topic", LogConfig.configDefCopy());
        scopes.put("group", GroupConfig.CONFIG_DEF);
        scopes.put("client-metrics", ClientMetricsConfigs.configDef());
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        scopes.forEach((scope, definition) -> {
            for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
                String mode = scope.equals("broker") ? modes.getOrDefault(key.name, "read-only") : "";
                print(scope, key.name, key.type, defaultOf(key), key.importance, key.internalConfig, mode);
            }
        });
    }

    private static String defaultOf(ConfigDef.ConfigKey key) {
        if (!key.hasDefault()) {
            return "REQUIRED";
        }
        return key.defaultValue == null ? "null" : ConfigDef.convertToString(key.defaultValue, key.type);
    }

    private static void print(Object... cells) {
        StringJoiner line = new StringJoiner(",");
        Arrays.stream(cells).map(String::valueOf).forEach(cell -> {
            line.add(cell.contains(",") || cell.contains("\"") ? '"' + cell.replace("\"", "\"\"") + '"' : cell);
        });
        System.out.println(line);
    }
}
