import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * Clients of Apache Kafka, driven through standard input.
 *
 * <p>Each line is a JSON array: the name of a client, a call, and its arguments. The answer is a line with
 * {"result": ...}, or {"error": name of the exception's class, "message": ...}.
 */
abstract class ClientSession {
    private static final ObjectMapper JSON = new ObjectMapper();

    abstract Object call(JsonNode line) throws Exception;

    /** Answers lines until there are no more. */
    void serve() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("result", call(JSON.readTree(line)));
            } catch (Exception failure) {
                Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    static Map<String, Object> settings(JsonNode node) {
        Map<String, Object> settings = new HashMap<>();
        for (Map.Entry<String, JsonNode> each : node.properties()) {
            settings.put(each.getKey(), each.getValue().asText());
        }
        return settings;
    }
}
