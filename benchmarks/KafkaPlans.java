import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.placement.UsableBroker;

/**
 * Plans of kafka-reassign-partitions --generate, without a cluster.
 *
 * <p>Each line of the input is "broker ID RACK" ("-" for none), "partition TOPIC INDEX REPLICAS", or "plan", which asks
 * for the plan of the lines since the last one. A plan has the partitions' lines and "end".
 */
public final class KafkaPlans {
    public static void main(String[] arguments) throws Exception {
        // The step of the tool between the questions to the cluster and the printing is private.
        var generate = Class.forName("org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
                .getDeclaredMethod("calculateAssignment", Map.class, List.class);
        generate.setAccessible(true);
        var input = new BufferedReader(new InputStreamReader(System.in));
        List<UsableBroker> brokers = new ArrayList<>();
        Map<TopicPartition, List<Integer>> current = new HashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "broker" -> brokers.add(new UsableBroker(
                        Integer.parseInt(words[1]), Optional.of(words[2]).filter(rack -> !rack.equals("-")), false));
                case "partition" -> current.put(
                        new TopicPartition(words[1], Integer.parseInt(words[2])),
                        Arrays.stream(words[3].split(",")).map(Integer::valueOf).toList());
                default -> {
                    print((Map<?, ?>) generate.invoke(null, current, brokers));
                    brokers.clear();
                    current.clear();
                }
            }
        }
    }

    private static void print(Map<?, ?> plan) {
        for (var entry : plan.entrySet()) {
            var partition = (TopicPartition) entry.getKey();
            String replicas =
                    ((List<?>) entry.getValue()).stream().map(String::valueOf).collect(Collectors.joining(","));
            System.out.println("partition " + partition.topic() + " " + partition.partition() + " " + replicas);
        }
        System.out.println("end");
    }
}
