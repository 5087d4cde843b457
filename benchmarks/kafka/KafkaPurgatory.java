// Kafka's own DelayedOperationPurgatory on part (a) of `bench_purgatory.py`. Prints CPU microseconds per operation as JSON.
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Random;
import org.apache.kafka.server.purgatory.*;

public class KafkaPurgatory {
    static final int KEYS = 10_000, ROUND = 100_000;
    static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    record Key(String name) implements DelayedOperationKey { public String keyLabel() { return name; } }

    record Waiting(Operation operation, Key key) { }

    static final class Operation extends DelayedOperation {
        boolean ready;
        Operation(long delayMs) { super(delayMs); }
        public void onExpiration() { }
        public void onComplete() { }
        public boolean tryComplete() { return ready && forceComplete(); }
    }

    /** The best round, with the CPU time of the whole process: reaper, garbage collector and compiler threads included. */
    static double costUs(int waiting, int rounds) throws Exception {
        var purgatory = new DelayedOperationPurgatory<Operation>("bench", 0, 1000);
        var random = new Random(waiting);
        var keys = new Key[KEYS];
        for (int i = 0; i < KEYS; i++) keys[i] = new Key("topic-" + i);
        var first = new int[ROUND + waiting];
        var second = new int[ROUND + waiting];
        var delays = new int[ROUND + waiting];
        for (int i = 0; i < first.length; i++) {
            first[i] = random.nextInt(KEYS);
            do second[i] = random.nextInt(KEYS); while (second[i] == first[i]);
            delays[i] = 30_000 + random.nextInt(60_000);
        }
        var queue = new ArrayDeque<Waiting>();
        double best = Double.MAX_VALUE;
        for (int round = -1; round < rounds; round++) {
            // The first round lets those in that wait.
            int from = round < 0 ? ROUND : 0, to = round < 0 ? ROUND + waiting : ROUND;
            long start = SYSTEM.getProcessCpuTime();
            for (int i = from; i < to; i++) {
                var operation = new Operation(delays[i]);
                purgatory.tryCompleteElseWatch(operation, List.of(keys[first[i]], keys[second[i]]));
                queue.add(new Waiting(operation, keys[first[i]]));
                if (round >= 0) {
                    var oldest = queue.remove();
                    oldest.operation.ready = true;
                    purgatory.checkAndComplete(oldest.key);
                }
            }
            if (round >= 0) best = Math.min(best, (SYSTEM.getProcessCpuTime() - start) / 1e3 / ROUND);
        }
        purgatory.shutdown();
        return best;
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(arguments[0]);
        costUs(0, 10);
        costUs(10_000, 10);
        System.out.printf("{\"one us\": %.3f, \"10k us\": %.3f}%n", costUs(0, rounds), costUs(10_000, rounds));
    }
}
