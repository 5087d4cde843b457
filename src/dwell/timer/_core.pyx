# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin of `core.py` and `task.py`: the same wheels, on arrays instead of linked objects.

**Entries.** A waiting timer is an entry of 16 bytes: deadline, bucket, place in the bucket. A `TimerTask` has its
entry inside; a timer of the bulk calls is a node, an entry with a token and no Python object. Both kinds share
wheels, queue and counters.

**Buckets are vectors.** A bucket is a vector of entries in insertion order. Cancelling writes a gap, which touches
the task and one slot and no neighbour; a bucket that is mostly gaps is squeezed. Expiring a bucket reads its vector
from front to back, so the entries it will need are known and fetched ahead: chasing pointers through memory, not
arithmetic, is what expiry costs.

**Levels.** As in `wheel.py`, with time counted in ticks, deadlines rounded up. Bucket `b` of level `k` is number `k *
size + b`.

**The interpreter lock is the lock.** No method runs Python code, allocates a collectable object or drops a last
reference while the arrays are inconsistent, so every method is atomic to other threads. What calls back (`_wake`,
`_submit_due`) comes last.

**The cyclic collector.** A waiting task is reachable from its timer, whatever the collector thinks, so it is taken
off the collector's list while it waits and put back when it leaves. A million waiting tasks cost `gc.collect()`
nothing. The price: a timer that is part of a cycle through its own waiting tasks is freed only after `close()`.
"""

from cpython cimport array
from cpython.list cimport PyList_Append
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from dwell._c.clock cimport monotonic_ns

import array

from dwell.clock import ManualClock, SystemClock
from dwell.errors import Closed, InvalidArgument, InvalidType
from dwell.number import at_least, between, int64s, whole_number
from dwell.timer.statistic import LevelStatistics, TimerStatistics
from dwell.timer.wheel import LARGEST_WHEEL

cdef extern from "Python.h":
    void PyObject_GC_Track(PyObject *op)
    void PyObject_GC_UnTrack(void *op)
    int PyObject_GC_IsTracked(PyObject *op)
    void Py_FatalError(const char *message)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define dwell_prefetch(address) __builtin_prefetch((address), 1)
    #else
    #define dwell_prefetch(address) ((void)0)
    #endif

    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    /* Memory of `bytes` (2 MiB), on one large page if the system has them: timers are met in random order, and on pages
       of 4 KiB nearly every access would also miss the translation cache. */
    static void *dwell_page(size_t bytes, int large) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (large) {
            void *page = NULL;
            if (posix_memalign(&page, bytes, bytes) != 0) return NULL;
            madvise(page, bytes, MADV_HUGEPAGE);
            return page;
        }
    #endif
        (void)large;
        return malloc(bytes);
    }
    """
    void dwell_prefetch(const void *address) nogil
    void *dwell_page(size_t bytes, int large)

cdef extern from "<stdint.h>":
    const int64_t FOREVER_MS "INT64_MAX"
    const uint64_t UNBOUNDED "UINT64_MAX"

# In `Entry.bucket`: the entry is a node's, not a task's.
cdef uint32_t TOKEN = 0x80000000

cdef enum:
    # Nodes a page: 2 MiB, of which a timer with few nodes touches little.
    PAGE_BITS = 16
    PAGE = 1 << PAGE_BITS
    # How many slots ahead of the one in hand entries are fetched: about a memory latency of work.
    AHEAD = 16
    # A vector up to this long is kept for the bucket's next round; longer ones are given back.
    KEEP_CAPACITY = 256
    LATENESS_CLASSES = 22

cdef enum:
    READY = 1  # __init__ has run
    CANCELLED = 2  # cancel() was called since the task was last added
    TRACKED = 4  # belongs on the collector's list when it does not wait

cdef enum:
    SYSTEM_CLOCK
    MANUAL_CLOCK
    OTHER_CLOCK

cdef array.array INT64S = array.array("q")
cdef Py_ssize_t ENTRY_OFFSET = 0


cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t quotient = a / b
    return quotient - (a % b < 0)


cdef inline int64_t to_ms(str name, value) except? -1:
    if type(value) is int:
        try:
            return value
        except OverflowError:
            pass
    return whole_number(name, value)


cdef class TimerTask:
    """Runs once, `delay_ms` after it is added to a timer. Give a callback, or subclass and override `run()`.

    A negative delay is due at once. A task that has run, or was cancelled, may be added again; adding a task that
    already waits moves it. Any thread may call any method.
    """

    def __init__(self, delay_ms, callback=None):
        self.delay_ms = to_ms("delay_ms", delay_ms)
        if callback is None and type(self).run in (TimerTask.run, RecurringTask.run):
            raise InvalidArgument("a TimerTask needs a callback or a subclass that overrides run()")
        self.callback = callback
        self.flags |= READY

    def run(self):
        """Called once when the delay is over, never under a lock of the timer."""
        self.callback()

    def cancel(self):
        """Take the task out of its timer in O(1). True if it was waiting; a run already handed over is not stopped."""
        return cancel_task(self)

    @property
    def is_cancelled(self):
        """Whether `cancel()` was called since the task was last added."""
        return self.flags & CANCELLED != 0

    @property
    def is_pending(self):
        """Whether the task waits in a timer now."""
        return self.core is not NULL

    @property
    def deadline_ms(self):
        """The moment a waiting task is due, on its timer's clock; None when it does not wait."""
        return self.entry.deadline_ms if self.core is not NULL else None

    def __repr__(self):
        state = "pending" if self.core is not NULL else "cancelled" if self.flags & CANCELLED else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {state}>"


cdef int init_task(TimerTask task, delay_ms) except -1:
    task.delay_ms = to_ms("delay_ms", delay_ms)
    task.flags |= READY
    return 0


cdef bint cancel_task(TimerTask task) noexcept:
    task.flags |= CANCELLED
    if task.core is NULL:
        return False
    cdef TimerCore core = <TimerCore> task.core
    core.cancelled += 1
    forget(core, task)
    return True


cdef class RecurringTask(TimerTask):
    """Runs every `period_ms`, first after `delay_ms` (default: one period), until cancelled.

    The n-th run is due at first deadline + n periods however late the runs are, so there is no drift. It is due again
    from the moment it starts to run; periods that passed meanwhile are skipped, not made up for.
    """

    def __init__(self, period_ms, callback=None, *, delay_ms=None):
        self.period_ms = at_least("period_ms", period_ms, 1)
        TimerTask.__init__(self, self.period_ms if delay_ms is None else delay_ms, callback)


cdef class TimerCore:
    """Wheels, delay queue and counters of one timer. Neither waits nor runs anything by itself; the driver does."""

    def __cinit__(self, *args, **kwargs):
        self._due = []

    def __init__(self, tick_ms, wheel_size, clock):
        self.tick_ms = at_least("tick_ms", tick_ms, 1)
        self.wheel_size = between("wheel_size", wheel_size, 2, LARGEST_WHEEL)
        self.clock = clock
        self.clock_kind = (
            SYSTEM_CLOCK if type(clock) is SystemClock else MANUAL_CLOCK if type(clock) is ManualClock else OTHER_CLOCK
        )
        self.current = floor_div(self.now(), self.tick_ms)
        add_level(self)

    def __dealloc__(self):
        let_go(self)
        cdef int bucket
        for bucket in range(self.level_count * self.wheel_size):
            free(self.buckets[bucket].slots)
        free(self.buckets)
        for bucket in range(self.page_count):
            free(self.pages[bucket])
        free(self.pages)
        free(self.free_nodes)
        free(self.queue)
        free(self.tokens)

    # Called by the driver's owner: scalar

    @property
    def size(self):
        """How many tasks wait in buckets; a task handed over for its run no longer counts."""
        return self.pending

    def add(self, task):
        """Let `task` run `task.delay_ms` from now, O(1). One that waits already is moved. After close: `Closed`."""
        if not isinstance(task, TimerTask):
            raise InvalidType(f"add takes a TimerTask, not {type(task).__name__}: {task!r}")
        cdef int64_t now_ms = self.start()
        self.add_at(<TimerTask> task, later(now_ms, (<TimerTask> task).delay_ms), now_ms)

    def schedule(self, delay_ms, callback):
        """Make a `TimerTask` of `callback` and add it, in one call; returns the task, to cancel it by."""
        if callback is None:
            raise InvalidArgument("schedule needs a callback")
        cdef TimerTask task = TimerTask.__new__(TimerTask)
        cdef int64_t now_ms = self.start()
        task.delay_ms = to_ms("delay_ms", delay_ms)
        task.callback = callback
        task.flags = READY
        self.add_at(task, later(now_ms, task.delay_ms), now_ms)
        return task

    def reschedule(self, task, delay_ms):
        """Give `task` a new delay, counted from now, in place: O(1), whether it waits or not."""
        cdef int64_t delay = to_ms("delay_ms", delay_ms)
        if not isinstance(task, TimerTask):
            raise InvalidType(f"reschedule takes a TimerTask, not {type(task).__name__}: {task!r}")
        (<TimerTask> task).delay_ms = delay
        self.add(task)

    # Called by the driver's owner: bulk

    def add_many(self, delays_ms, tokens=None):
        """Start one timer a delay, return their handles. `advance_many` hands back the token (default: the handle)."""
        cdef const int64_t[::1] delays = int64s("delays_ms", delays_ms)
        cdef const int64_t[::1] given = None if tokens is None else int64s("tokens", tokens)
        cdef Py_ssize_t count = delays.shape[0], i
        if given is not None and given.shape[0] != count:
            raise InvalidType(f"tokens has {given.shape[0]} items, delays_ms has {count}")
        cdef array.array handles = array.clone(INT64S, count, zero=False)
        cdef int64_t *handle = <int64_t *> handles.data.as_voidptr
        cdef int64_t now_ms = self.start()
        cdef int64_t next_expiration = FOREVER_MS if self.queue_count == 0 else self.queue[0].expiration
        cdef Node *node
        if self._closed:
            raise Closed("the timer is closed; it takes no more tasks")
        reserve_nodes(self, count)
        for i in range(count):
            node = take_node(self)
            handle[i] = <int64_t> node.generation << 32 | node.number
            node.entry.deadline_ms = later(now_ms, delays[i])
            node.token = handle[i] if given is None else given[i]
            self.pending += 1
            if node.entry.deadline_ms <= now_ms:
                node.entry.bucket = TOKEN
                fire(self, &node.entry, now_ms)
            else:
                place(self, &node.entry, TOKEN)
        if self.queue_count and self.queue[0].expiration < next_expiration:
            self._wake()
        return handles

    def cancel_many(self, handles):
        """Cancel what still waits of `handles`, return how many did. Those that fired or never were are passed over."""
        cdef const int64_t[::1] view = int64s("handles", handles)
        cdef Py_ssize_t i, count = view.shape[0]
        cdef int64_t before = self.pending
        cdef Node *node
        for i in range(count):
            if i + AHEAD < count:
                node = find_node(self, view[i + AHEAD])
                if node is not NULL:
                    dwell_prefetch(node)
            node = find_node(self, view[i])
            # A node that is free has moved on to its next generation, so old handles miss here.
            if node is not NULL and node.generation == <uint32_t> (view[i] >> 32):
                take_out(self, &node.entry)
                give_node(self, node)
                self.pending -= 1
        self.cancelled += before - self.pending
        return before - self.pending

    # Called by the driver

    def _next_expiration_ms(self):
        if self.queue_count == 0:
            return None
        return int(self.queue[0].expiration) * int(self.tick_ms)

    def _advance(self):
        """Move the clock to now and collect what came due. False if no bucket has expired."""
        cdef int64_t now_ms = self.now()
        cdef int64_t now = floor_div(now_ms, self.tick_ms)
        if self.queue_count == 0 or self.queue[0].expiration > now:
            return False
        while self.queue_count and self.queue[0].expiration <= now:
            turn_to(self, self.queue[0].expiration)
            flush(self, poll(self), now_ms)
        return True

    def _take_due(self):
        cdef list empty = []
        cdef list due = self._due
        self._due = empty
        return due

    def _give_back(self, list due):
        """Keep tasks that were taken and not handed over; they are the first to be taken next time."""
        self._due[:0] = due

    def _take_tokens(self):
        cdef array.array tokens = array.clone(INT64S, self.token_count, zero=False)
        # The allocation may have run the collector, and with it code that took or added tokens: look again.
        if <Py_ssize_t> len(tokens) != self.token_count:
            return self._take_tokens()
        if self.token_count:
            memcpy(tokens.data.as_voidptr, self.tokens, self.token_count * sizeof(int64_t))
        self.token_count = 0
        return tokens

    def _run_all(self, list batch):
        """Run the tasks in order. If something that is no `Exception` passes through, `batch` keeps those not run."""
        cdef Py_ssize_t done = 0
        cdef TimerTask task
        try:
            while done < len(batch):
                try:
                    while done < len(batch):
                        task = <TimerTask> batch[done]
                        done += 1
                        if type(task) is TimerTask:
                            task.callback()
                        else:
                            if isinstance(task, RecurringTask):
                                self._rearm(task)
                            task.run()
                except Exception as error:
                    self._report(error, task)
        finally:
            del batch[:done]

    def _run_one(self, task):
        self._run_all([task])

    def _rearm(self, RecurringTask task):
        """Let a recurring task that starts to run be due again, unless it was cancelled or added meanwhile."""
        cdef int64_t now_ms = self.now(), behind
        if not self._closed and task.core is NULL and not task.flags & CANCELLED:
            behind = max(0, now_ms - task.due_ms)
            behind -= behind % task.period_ms
            self.add_at(task, later(later(task.due_ms, behind), task.period_ms), now_ms)

    def _clear(self):
        """Refuse what comes from now on and let go of all that waits; returns the tasks among it."""
        self._closed = True
        return let_go(self)

    def statistics(self):
        """A frozen snapshot: what waits where, and what became of the rest. O(levels * wheel size)."""
        levels = []
        cdef int level
        cdef uint32_t bucket
        cdef int64_t tasks, occupied
        for level in range(self.level_count):
            tasks = occupied = 0
            for bucket in range(level * self.wheel_size, (level + 1) * self.wheel_size):
                tasks += self.buckets[bucket].live
                occupied += self.buckets[bucket].live > 0
            levels.append(
                LevelStatistics(
                    tick_ms=int(self.levels[level].tick) * int(self.tick_ms), buckets=occupied, tasks=tasks
                )
            )
        return TimerStatistics(
            pending=self.pending,
            levels=tuple(levels),
            cascades=self.cascades,
            fired=self.fired,
            cancelled=self.cancelled,
            lateness=tuple([self.lateness[level] for level in range(LATENESS_CLASSES)]),
        )

    def _wake(self):
        """A bucket that expires before all others was queued; the driver may have to wait less long."""

    def _submit_due(self):
        """A task was due as it came; the driver hands it over."""

    def _report(self, error, source):
        """User code raised; the driver tells the handler."""

    # Inside

    cdef int64_t start(self) except? -1:
        if self.clock_kind == SYSTEM_CLOCK:
            # The end of the millisecond that runs, as in `SystemClock.end_ms`.
            return (monotonic_ns() + 999999) // 1000000
        return self.now()

    cdef int64_t now(self) except? -1:
        if self.clock_kind == SYSTEM_CLOCK:
            return monotonic_ns() // 1000000
        if self.clock_kind == MANUAL_CLOCK:
            return self.clock._now_ms
        return self.clock.now_ms()

    cdef int add_at(self, TimerTask task, int64_t deadline_ms, int64_t now_ms) except -1:
        cdef int64_t next_expiration
        if self._closed:
            raise Closed("the timer is closed; it takes no more tasks")
        if not task.flags & READY:
            raise InvalidArgument(f"{type(task).__name__} was added before TimerTask.__init__ ran")
        Py_INCREF(task)
        if task.core is not NULL:
            # The new reference keeps it alive while the old one goes.
            forget(<TimerCore> task.core, task)
        elif PyObject_GC_IsTracked(<PyObject *> task):
            task.flags |= TRACKED
        task.flags &= ~CANCELLED
        task.core = <void *> self
        task.entry.deadline_ms = deadline_ms
        if task.flags & TRACKED:
            PyObject_GC_UnTrack(<void *> task)
        self.pending += 1
        if deadline_ms <= now_ms:
            task.entry.bucket = 0
            fire(self, &task.entry, now_ms)
            self._submit_due()
            return 0
        next_expiration = FOREVER_MS if self.queue_count == 0 else self.queue[0].expiration
        place(self, &task.entry, 0)
        if self.queue[0].expiration < next_expiration:
            self._wake()
        return 0

    def _check(self):
        """Assert every invariant; for tests."""
        cdef uint32_t bucket, place, live, tokens = 0
        cdef int64_t counted = 0
        cdef Level *level
        cdef Entry *entry
        queued = [self.queue[place].bucket for place in range(self.queue_count)]
        assert len(set(queued)) == len(queued), "a bucket is queued twice"
        for place in range(1, self.queue_count):
            assert self.queue[(place - 1) // 2].expiration <= self.queue[place].expiration, "queue out of order"
        for bucket in range(self.level_count * self.wheel_size):
            level = &self.levels[bucket // self.wheel_size]
            assert level.current == floor_div(self.current, level.tick) * level.tick
            live = 0
            for place in range(self.buckets[bucket].used):
                entry = self.buckets[bucket].slots[place]
                if entry is NULL:
                    continue
                live += 1
                assert entry.bucket & ~TOKEN == bucket and entry.place == place
                expiration = ticks_up(self, entry.deadline_ms)
                assert 0 <= expiration - self.buckets[bucket].expiration < level.tick
                assert expiration // level.tick % self.wheel_size == bucket % self.wheel_size
                if entry.bucket & TOKEN:
                    tokens += 1
                else:
                    task = task_of(entry)
                    assert (<TimerTask> task).core is <void *> self
                    assert not PyObject_GC_IsTracked(<PyObject *> task)
            assert live == self.buckets[bucket].live, "a bucket counts its tasks wrong"
            assert self.buckets[bucket].queued == (bucket in queued)
            assert self.buckets[bucket].queued or not live, "tasks in a bucket nobody waits for"
            counted += live
        assert counted == self.pending, "counter differs from entries"
        assert tokens + self.free_count == self.node_count, "a node is lost"


cdef inline int64_t later(int64_t time_ms, int64_t delay_ms) noexcept nogil:
    """time + delay, saturating upwards; a negative delay is due at once."""
    if delay_ms <= 0:
        return time_ms
    return time_ms + delay_ms if time_ms <= FOREVER_MS - delay_ms else FOREVER_MS


cdef inline int64_t ticks_up(TimerCore self, int64_t deadline_ms) noexcept:
    """The deadline in ticks, rounded up: never early."""
    if self.tick_ms == 1:
        return deadline_ms
    cdef int64_t ticks = floor_div(deadline_ms, self.tick_ms)
    return ticks + (ticks * self.tick_ms != deadline_ms)


cdef inline TimerTask task_of(Entry *entry):
    """The task an entry is part of."""
    return <TimerTask> <void *> (<char *> entry - ENTRY_OFFSET)


# Nodes

cdef int reserve_nodes(TimerCore self, Py_ssize_t more) except -1:
    """Make `more` nodes available, a page at a time."""
    cdef Node **pages
    cdef uint32_t *free_nodes
    cdef Py_ssize_t needed = self.node_count - self.free_count + more
    if needed > 0x7FFFFFFF:
        raise MemoryError("a timer holds at most 2**31 - 1 timers of the bulk calls")
    while <Py_ssize_t> self.page_count << PAGE_BITS < needed:
        if self.page_count & (self.page_count - 1) == 0:  # full at every power of two
            pages = <Node **> realloc(self.pages, max(1, self.page_count * 2) * sizeof(Node *))
            if pages is NULL:
                raise MemoryError
            self.pages = pages
            free_nodes = <uint32_t *> realloc(
                self.free_nodes, <size_t> max(1, self.page_count * 2) * PAGE * sizeof(uint32_t)
            )
            if free_nodes is NULL:
                raise MemoryError
            self.free_nodes = free_nodes
        self.pages[self.page_count] = <Node *> dwell_page(PAGE * sizeof(Node), self.page_count > 0)
        if self.pages[self.page_count] is NULL:
            raise MemoryError
        self.page_count += 1
    return 0


cdef inline Node *take_node(TimerCore self) noexcept:
    """A node that `reserve_nodes` has made sure of: the one freed last, or a new one."""
    cdef uint32_t number
    cdef Node *node
    if self.free_count:
        self.free_count -= 1
        number = self.free_nodes[self.free_count]
        if self.free_count >= AHEAD:
            dwell_prefetch(node_at(self, self.free_nodes[self.free_count - AHEAD]))
        return node_at(self, number)
    number = self.node_count
    self.node_count += 1
    node = node_at(self, number)
    node.number = number
    node.generation = 0
    return node


cdef inline Node *node_at(TimerCore self, uint32_t number) noexcept:
    return &self.pages[number >> PAGE_BITS][number & (PAGE - 1)]


cdef inline Node *find_node(TimerCore self, int64_t handle) noexcept:
    """The node a handle names, whoever has it now; NULL for a number that never was."""
    cdef uint32_t number = <uint32_t> (handle & 0xFFFFFFFF)
    return node_at(self, number) if handle >= 0 and number < self.node_count else NULL


cdef inline void give_node(TimerCore self, Node *node) noexcept:
    node.generation = (node.generation + 1) & 0x7FFFFFFF
    self.free_nodes[self.free_count] = node.number
    self.free_count += 1


# Levels and buckets

cdef int add_level(TimerCore self) except -1:
    cdef Level *level = &self.levels[self.level_count]
    cdef uint64_t below = self.levels[self.level_count - 1].interval if self.level_count else 1
    cdef size_t count = (self.level_count + 1) * <size_t> self.wheel_size
    cdef Bucket *buckets = <Bucket *> realloc(self.buckets, count * sizeof(Bucket))
    if buckets is NULL:
        raise MemoryError
    self.buckets = buckets
    memset(&buckets[count - self.wheel_size], 0, self.wheel_size * sizeof(Bucket))
    level.tick = <int64_t> min(below, <uint64_t> FOREVER_MS)
    level.interval = below * self.wheel_size if below <= UNBOUNDED / self.wheel_size else UNBOUNDED
    level.current = floor_div(self.current, level.tick) * level.tick
    self.level_count += 1
    return 0


cdef inline int place(TimerCore self, Entry *entry, uint32_t kind) except -1:
    """Put an entry that is not due into the bucket its deadline asks for. `kind` is TOKEN or 0."""
    cdef int64_t expiration = ticks_up(self, entry.deadline_ms)
    cdef int k = 0
    cdef Level *level = &self.levels[0]
    cdef int64_t virtual
    cdef int64_t slot
    # The differences are unsigned: a span may need all 64 bits.
    while <uint64_t> expiration - <uint64_t> level.current >= level.interval and level.interval != UNBOUNDED:
        k += 1
        if k == self.level_count:
            add_level(self)
        level = &self.levels[k]
    virtual = expiration if k == 0 else floor_div(expiration, level.tick)
    slot = virtual % self.wheel_size
    if slot < 0:
        slot += self.wheel_size
    cdef uint32_t index = k * self.wheel_size + <uint32_t> slot
    cdef Bucket *bucket = &self.buckets[index]
    if bucket.used == bucket.capacity:
        grow(bucket)
    bucket.slots[bucket.used] = entry
    entry.bucket = index | kind
    entry.place = bucket.used
    bucket.used += 1
    bucket.live += 1
    if not bucket.queued:
        bucket.queued = True
        bucket.expiration = virtual * level.tick
        enqueue(self, index, bucket.expiration)
    return 0


cdef void grow(Bucket *bucket) noexcept:
    cdef uint32_t capacity = bucket.capacity * 2 if bucket.capacity else 8
    bucket.slots = <Entry **> realloc(bucket.slots, capacity * sizeof(Entry *))
    if bucket.slots is NULL:
        # In the middle of a cascade there is no way back that loses no task.
        Py_FatalError("dwell: out of memory in the timing wheel")
    bucket.capacity = capacity


cdef inline void take_out(TimerCore self, Entry *entry) noexcept:
    """Leave a gap where the entry was, and squeeze the bucket once two slots of three are gaps."""
    cdef Bucket *bucket = &self.buckets[entry.bucket & ~TOKEN]
    bucket.slots[entry.place] = NULL
    bucket.live -= 1
    if bucket.live == 0:
        bucket.used = 0
    elif bucket.used > 64 and bucket.live < bucket.used // 3:
        squeeze(bucket)


cdef void squeeze(Bucket *bucket) noexcept:
    cdef uint32_t i, kept = 0
    cdef Entry *entry
    for i in range(bucket.used):
        if i + AHEAD < bucket.used:
            dwell_prefetch(bucket.slots[i + AHEAD])
        entry = bucket.slots[i]
        if entry is not NULL:
            bucket.slots[kept] = entry
            entry.place = kept
            kept += 1
    bucket.used = kept


cdef void flush(TimerCore self, uint32_t index, int64_t now_ms) noexcept:
    """Empty a bucket that has expired, in insertion order: each entry is due, or cascades to a lower level."""
    cdef Bucket bucket = self.buckets[index]
    cdef uint32_t i
    cdef Entry *entry
    cdef bint is_lowest = index < self.wheel_size
    memset(&self.buckets[index], 0, sizeof(Bucket))
    for i in range(min(AHEAD, bucket.used)):
        fetch(bucket.slots[i], is_lowest)
    for i in range(bucket.used):
        if i + AHEAD < bucket.used:
            fetch(bucket.slots[i + AHEAD], is_lowest)
        entry = bucket.slots[i]
        if entry is NULL:
            continue
        if ticks_up(self, entry.deadline_ms) > self.current:
            place(self, entry, entry.bucket & TOKEN)
            self.cascades += 1
        else:
            fire(self, entry, now_ms)
    if bucket.capacity <= KEEP_CAPACITY:
        # Nothing cascades into the bucket it came from, so the vector is free for its next round.
        self.buckets[index].slots = bucket.slots
        self.buckets[index].capacity = bucket.capacity
    else:
        free(bucket.slots)


cdef inline void fetch(Entry *entry, bint is_due) noexcept:
    dwell_prefetch(entry)
    if is_due:
        # It is touched as an object too, whose first bytes in memory are the collector's header.
        dwell_prefetch(<char *> entry - ENTRY_OFFSET - 16)


cdef inline int fire(TimerCore self, Entry *entry, int64_t now_ms) except -1:
    """Hand a due timer's task or token to the driver. It is in no bucket any more."""
    cdef int64_t late_ms = now_ms - entry.deadline_ms
    cdef int bits = 0
    cdef Node *node
    cdef TimerTask task
    while late_ms > 0 and bits < LATENESS_CLASSES - 1:
        late_ms >>= 1
        bits += 1
    self.lateness[bits] += 1
    self.fired += 1
    self.pending -= 1
    if entry.bucket & TOKEN:
        node = <Node *> entry
        if self.token_count == self.token_capacity:
            grow_tokens(self)
        self.tokens[self.token_count] = node.token
        self.token_count += 1
        give_node(self, node)
        return 0
    task = task_of(entry)
    task.core = NULL
    if isinstance(task, RecurringTask):
        (<RecurringTask> task).due_ms = entry.deadline_ms
    if task.flags & TRACKED:
        PyObject_GC_Track(<PyObject *> task)
    PyList_Append(self._due, task)
    Py_DECREF(task)
    return 0


cdef void grow_tokens(TimerCore self) noexcept:
    cdef Py_ssize_t capacity = self.token_capacity * 2 if self.token_capacity else 1024
    self.tokens = <int64_t *> realloc(self.tokens, capacity * sizeof(int64_t))
    if self.tokens is NULL:
        Py_FatalError("dwell: out of memory in the timing wheel")
    self.token_capacity = capacity


cdef void forget(TimerCore self, TimerTask task) noexcept:
    """Take a waiting task out of its bucket and drop the timer's reference to it."""
    take_out(self, &task.entry)
    self.pending -= 1
    task.core = NULL
    if task.flags & TRACKED:
        PyObject_GC_Track(<PyObject *> task)
    Py_DECREF(task)


cdef list let_go(TimerCore self):
    """Empty every bucket and the queue; returns the tasks, which hold their last reference until then."""
    cdef uint32_t index, i
    cdef Bucket *bucket
    cdef Entry *entry
    cdef list dropped = []
    cdef TimerTask task
    for index in range(self.level_count * self.wheel_size):
        bucket = &self.buckets[index]
        for i in range(bucket.used):
            if i + AHEAD < bucket.used:
                dwell_prefetch(bucket.slots[i + AHEAD])
            entry = bucket.slots[i]
            if entry is NULL:
                continue
            if entry.bucket & TOKEN:
                give_node(self, <Node *> entry)
                continue
            task = task_of(entry)
            task.core = NULL
            if task.flags & TRACKED:
                PyObject_GC_Track(<PyObject *> task)
            dropped.append(task)
            Py_DECREF(task)
        bucket.used = bucket.live = 0
        bucket.queued = False
    self.queue_count = 0
    self.pending = 0
    return dropped


# The clock and the delay queue: a binary heap of buckets, the next to expire first

cdef inline void turn_to(TimerCore self, int64_t time) noexcept:
    cdef int k
    if time > self.current:
        self.current = time
        for k in range(self.level_count):
            self.levels[k].current = floor_div(time, self.levels[k].tick) * self.levels[k].tick


cdef void enqueue(TimerCore self, uint32_t bucket, int64_t expiration) noexcept:
    cdef uint32_t place = self.queue_count, parent
    if self.queue_count == self.queue_capacity:
        self.queue_capacity = self.queue_capacity * 2 if self.queue_capacity else 64
        self.queue = <Queued *> realloc(self.queue, self.queue_capacity * sizeof(Queued))
        if self.queue is NULL:
            Py_FatalError("dwell: out of memory in the timing wheel")
    self.queue_count += 1
    while place:
        parent = (place - 1) // 2
        if self.queue[parent].expiration <= expiration:
            break
        self.queue[place] = self.queue[parent]
        place = parent
    self.queue[place].expiration = expiration
    self.queue[place].bucket = bucket


cdef uint32_t poll(TimerCore self) noexcept:
    """Take the first bucket out of the queue, which is not empty."""
    cdef uint32_t first = self.queue[0].bucket, place = 0, child
    self.queue_count -= 1
    cdef Queued last = self.queue[self.queue_count]
    while 2 * place + 1 < self.queue_count:
        child = 2 * place + 1
        if child + 1 < self.queue_count and self.queue[child + 1].expiration < self.queue[child].expiration:
            child += 1
        if last.expiration <= self.queue[child].expiration:
            break
        self.queue[place] = self.queue[child]
        place = child
    self.queue[place] = last
    return first


cdef Py_ssize_t entry_offset():
    cdef TimerTask task = TimerTask.__new__(TimerTask)
    return <char *> &task.entry - <char *> <void *> task


ENTRY_OFFSET = entry_offset()
