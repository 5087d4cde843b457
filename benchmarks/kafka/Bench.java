// Kafka's own SystemTimer and DelayedOperationPurgatory on the work of bench_kafka.py. CPU ns per operation, best of the repeats.
import java.lang.management.*;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.kafka.server.purgatory.*;
import org.apache.kafka.server.util.timer.*;

public class Bench {
    static final ThreadMXBean MX = ManagementFactory.getThreadMXBean();
    static long cpu() { return MX.getCurrentThreadCpuTime(); }

    static final class Task extends TimerTask {
        Task(long delay) { super(delay); }
        public void run() { }
    }

    record Key(int n) implements DelayedOperationKey { public String keyLabel() { return "k" + n; } }

    static final class Op extends DelayedOperation {
        boolean ready;
        Op(long delay) { super(delay); }
        public void onExpiration() { }
        public void onComplete() { }
        public boolean tryComplete() { return ready && forceComplete(); }
    }

    static double[] timer(int n, int pairs, Random rnd) {
        SystemTimer timer = new SystemTimer("bench");
        Task[] tasks = new Task[n];
        int[] delays = new int[n + pairs];
        for (int i = 0; i < delays.length; i++) delays[i] = 60_001 + rnd.nextInt(60_000);
        int[] order = new int[pairs];
        for (int i = 0; i < pairs; i++) order[i] = rnd.nextInt(n);
        long t0 = cpu();
        for (int i = 0; i < n; i++) { Task t = new Task(delays[i]); tasks[i] = t; timer.add(t); }
        long t1 = cpu();
        for (int i = 0; i < pairs; i++) {
            Task t = new Task(delays[n + i]); timer.add(t);
            int at = order[i]; tasks[at].cancel(); tasks[at] = t;
        }
        long t2 = cpu();
        Integer[] perm = new Integer[n];
        for (int i = 0; i < n; i++) perm[i] = i;
        Collections.shuffle(Arrays.asList(perm), rnd);
        int[] p = new int[n];
        for (int i = 0; i < n; i++) p[i] = perm[i];
        perm = null;
        long t3 = cpu();
        for (int i = 0; i < n; i++) tasks[p[i]].cancel();
        long t4 = cpu();
        if (timer.size() != 0) throw new IllegalStateException("size " + timer.size());
        try { timer.close(); } catch (Exception e) { throw new RuntimeException(e); }
        return new double[] {(t1 - t0) / (double) n, (t2 - t1) / (double) pairs, (t4 - t3) / (double) n};
    }

    static final java.util.concurrent.atomic.AtomicInteger ran = new java.util.concurrent.atomic.AtomicInteger();

    static final class Counted extends TimerTask {
        Counted(long delay) { super(delay); }
        public void run() { ran.incrementAndGet(); }
    }

    // Process CPU, collector and executor thread included: everything it takes until all have run, on the real clock.
    static double expire(int n, Random rnd) throws Exception {
        SystemTimer timer = new SystemTimer("bench");
        ran.set(0);
        for (int i = 0; i < n; i++) timer.add(new Counted(1_000 + rnd.nextInt(1_500)));
        var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long t0 = os.getProcessCpuTime();
        while (ran.get() < n) timer.advanceClock(200);
        long t1 = os.getProcessCpuTime();
        timer.close();
        return (t1 - t0) / (double) n;
    }

    static double purgatory(int ops, int window, int keys, Random rnd) throws Exception {
        DelayedOperationPurgatory<Op> p = new DelayedOperationPurgatory<>("bench", 0, 1000);
        Key[] all = new Key[keys];
        for (int i = 0; i < keys; i++) all[i] = new Key(i);
        int[] k1 = new int[ops], k2 = new int[ops], delay = new int[ops];
        for (int i = 0; i < ops; i++) {
            k1[i] = rnd.nextInt(keys); do k2[i] = rnd.nextInt(keys); while (k2[i] == k1[i]);
            delay[i] = 30_000 + rnd.nextInt(60_000);
        }
        Op[] ring = new Op[window + 1];
        long done = 0, t0 = cpu();
        for (int i = 0; i < ops; i++) {
            Op op = new Op(delay[i]);
            p.tryCompleteElseWatch(op, List.of(all[k1[i]], all[k2[i]]));
            ring[i % (window + 1)] = op;
            int j = i - window;
            if (j >= 0) { ring[j % (window + 1)].ready = true; done += p.checkAndComplete(all[k1[j]]); }
        }
        long t1 = cpu();
        if (done != ops - window) throw new IllegalStateException("done " + done);
        p.shutdown();
        return (t1 - t0) / (double) ops;
    }

    public static void main(String[] a) throws Exception {
        int n = Integer.parseInt(a[0]), ops = Integer.parseInt(a[1]), reps = Integer.parseInt(a[2]);
        for (int i = 0; i < 6; i++) { timer(100_000, 100_000, new Random(i)); purgatory(100_000, 0, 10_000, new Random(i)); purgatory(100_000, 10_000, 10_000, new Random(i)); }
        double[] best = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
        expire(100_000, new Random(1));
        for (int r = 0; r < reps; r++) {
            double[] t = timer(n, n / 2, new Random(42 + r));
            for (int i = 0; i < 3; i++) best[i] = Math.min(best[i], t[i]);
            System.gc();
            best[3] = Math.min(best[3], purgatory(ops, 0, 10_000, new Random(42 + r)));
            best[4] = Math.min(best[4], purgatory(ops, 10_000, 10_000, new Random(42 + r)));
            System.gc();
            best[5] = Math.min(best[5], expire(300_000, new Random(42 + r)));
        }
        System.out.printf("{\"add\": %.0f, \"pair\": %.0f, \"cancel\": %.0f, \"just_added\": %.0f, \"10k_waiting\": %.0f, \"expire\": %.0f}%n", best[0], best[1], best[2], best[3], best[4], best[5]);
    }
}
