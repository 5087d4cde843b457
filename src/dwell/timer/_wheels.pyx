# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, annotation_typing=False, embedsignature=True, embedsignature.format=clinic
"""The compiled twin of `task.py` and `wheels.py`: the same wheels, on arrays instead of linked objects.

**Entries.** A waiting timer is an entry of 16 bytes: bucket, place in the bucket, deadline. A `TimerTask` has its entry
inside. A timer of the bulk calls is a node: an entry with a token and no Python object. Both kinds share wheels, queue
and counters.

**One cache line per task.** A `TimerTask` that is no subclass takes 64 aligned bytes, the collector's header included,
on pages of 2 MiB. Adding one writes that line and a slot at the end of a bucket. Cancelling one reads that line and
clears the slot. To fit, a task does not point to its timer: buckets are numbered through all timers, and the bucket
knows its timer.

**Buckets are vectors.** A bucket is a vector of pointers to entries in insertion order. Cancelling writes a gap, and
touches no neighbour; a bucket that is mostly gaps is compacted. Expiring a bucket reads its vector from front to back,
so the entries it will need are known and fetched ahead: waiting for memory, not arithmetic, is what expiry costs.

**Levels.** As in `wheel.py`, with time counted in ticks and deadlines rounded up.

**The interpreter lock is the lock.** No method runs Python code, allocates a collectable object or drops a last
reference while the arrays are inconsistent, so every method is atomic to other threads. What calls back (`on_first`,
`on_due`) comes last.

**The cyclic collector.** A waiting task is reachable from its timer, whatever the collector thinks, so it is taken off
the collector's list while it waits and put back when it leaves. A million waiting tasks cost `gc.collect()` nothing.
The price: a timer that is part of a reference cycle through its own waiting tasks is freed only after `close()`.
"""

from cpython cimport array
from cpython.list cimport PyList_Append
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from dwell._c.clock cimport monotonic_ns
from dwell._c.histogram cimport PLACES, place_of
from dwell._c.slab cimport Slab, dwell_free_page, dwell_page, give_block, take_block

import array

from dwell.clock import ManualClock, SystemClock
from dwell.errors import Closed, InvalidArgument, InvalidType, report
from dwell.number import at_least, between, int64s, whole_number
from dwell.timer.statistics import LevelStatistics, TimerStatistics
from dwell.timer.wheel import LARGEST_WHEEL

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        const char *tp_name
        PyObject *(*tp_alloc)(PyTypeObject *type, Py_ssize_t items)
        void (*tp_free)(void *op)
        Py_ssize_t tp_basicsize
    PyObject *PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)
    PyObject *PyObject_Init(PyObject *op, PyTypeObject *type)
    PyTypeObject *type_of "Py_TYPE"(void *op)
    PyObject *PyErr_NoMemory()
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow)
    void PyObject_GC_Del(void *op)
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

    /* Whether an object that the collector knows is preceded by two words of the collector, as in all builds of
       CPython but those without interpreter lock and those that trace references. */
    #if defined(Py_GIL_DISABLED) || defined(Py_TRACE_REFS)
    #define DWELL_OWN_MEMORY 0
    #else
    #define DWELL_OWN_MEMORY 1
    #endif
    #define DWELL_COLLECTOR_HEADER (2 * sizeof(void *))
    """
    void dwell_prefetch(const void *address) nogil
    int DWELL_OWN_MEMORY
    Py_ssize_t DWELL_COLLECTOR_HEADER

cdef extern from "<stdint.h>":
    const int64_t FOREVER_MS "INT64_MAX"
    const uint64_t UNBOUNDED "UINT64_MAX"

# In `Entry.bucket`: which bits are the bucket's number, and the flags.
cdef enum:
    NUMBER = 0x0FFFFFFF
    FLAGS = 0xF0000000
    TOKEN = 0x10000000  # the entry is a node's, not a task's
    READY = 0x20000000  # `TimerTask.__init__` has run
    CANCELLED = 0x40000000  # `cancel()` was called since the task was last added
    TRACKED = 0x80000000  # the task belongs on the collector's list when it does not wait

cdef enum:
    # Nodes per page of 2 MiB, of which a timer with few nodes touches little.
    PAGE_BITS = 16
    PAGE = 1 << PAGE_BITS
    # How many slots ahead of the one in hand entries are fetched: about a memory latency of work.
    AHEAD = 16
    # A vector up to this long is kept for the bucket's next round; longer ones are given back.
    KEEP_CAPACITY = 256

cdef enum:
    SYSTEM_CLOCK
    MANUAL_CLOCK
    OTHER_CLOCK

cdef struct Bucket:
    # In insertion order, with gaps (NULL) where timers were cancelled.
    Entry **slots
    uint32_t used
    uint32_t capacity
    uint32_t live
    bint queued
    int64_t expiration
    # The timer it belongs to, borrowed.
    void *wheels

# The buckets of all timers. Number 0 stands for "in no bucket". A level has a run of consecutive numbers; the runs of
# timers that are gone are kept by their length, for others.
cdef Bucket *BUCKETS = NULL
cdef uint32_t bucket_count = 1
cdef dict free_runs = {}

cdef Slab TASKS
cdef array.array INT64S = array.array("q")
cdef Py_ssize_t ENTRY_OFFSET = 0


cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t quotient = a / b
    return quotient - (a % b < 0)


cdef inline int64_t to_ms(str name, value) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            return number
    return whole_number(name, value)


cdef inline bint waits(TimerTask task) noexcept:
    return task.entry.bucket & <uint32_t> NUMBER != 0


# Tasks

cdef class TimerTask:
    """TimerTask(delay_ms, callback=None)
--

Runs once, `delay_ms` after it is added to a timer. Give a callback, or subclass and override `run()`.

    A negative delay is due at once. A task that has run, or was cancelled, may be added again; adding a task that
    already waits moves it. Any thread may call any method.
    """

    def __init__(self, delay_ms, callback=None):
        self.delay = to_ms("delay_ms", delay_ms)
        if callback is None:
            run = type(self).run
            if run is TASK_RUN or run is RECURRING_RUN:
                raise InvalidArgument("a TimerTask needs a callback or a subclass that overrides run()")
        self.callback = callback
        self.entry.bucket |= READY
        if not waits(self) and not PyObject_GC_IsTracked(<PyObject *> self):
            PyObject_GC_Track(<PyObject *> self)

    def run(self):
        """Called once when the delay is over, never under a lock of the timer."""
        self.callback()

    def cancel(self):
        """Take the task out of its timer in O(1). True if it was waiting; a run already handed over is not stopped."""
        return cancel_task(self)

    @property
    def delay_ms(self):
        """How long the task waits from the moment it is added; `timer.reschedule` changes it."""
        return self.delay

    @property
    def is_cancelled(self):
        """Whether `cancel()` was called since the task was last added."""
        return self.entry.bucket & <uint32_t> CANCELLED != 0

    @property
    def is_pending(self):
        """Whether the task waits in a timer now."""
        return waits(self)

    @property
    def deadline_ms(self):
        """The moment a waiting task is due, on its timer's clock; None when it does not wait."""
        return self.entry.deadline_ms if waits(self) else None

    def __repr__(self):
        state = "pending" if waits(self) else "cancelled" if self.is_cancelled else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay} {state}>"


cdef class RecurringTask(TimerTask):
    """RecurringTask(period_ms, callback=None, *, delay_ms=None)
--

Runs every `period_ms`, first after `delay_ms` (default: one period), until cancelled.

    The n-th run is due at first deadline + n periods however late the runs are, so there is no drift. It is due again
    from the moment it starts to run; periods that passed meanwhile are skipped, not made up for.
    """

    def __init__(self, period_ms, callback=None, *, delay_ms=None):
        self.period = at_least("period_ms", period_ms, 1)
        TimerTask.__init__(self, self.period if delay_ms is None else delay_ms, callback)

    @property
    def period_ms(self):
        """The time from one run to the next."""
        return self.period


cdef object TASK_RUN = TimerTask.run
cdef object RECURRING_RUN = RecurringTask.run


cdef int init_task(TimerTask task, delay_ms) except -1:
    task.delay = to_ms("delay_ms", delay_ms)
    task.entry.bucket |= READY
    return 0


cdef bint cancel_task(TimerTask task) noexcept:
    task.entry.bucket |= <uint32_t> CANCELLED
    if not waits(task):
        return False
    cdef Wheels wheels = <Wheels> BUCKETS[task.entry.bucket & <uint32_t> NUMBER].wheels
    wheels.cancelled += 1
    forget(wheels, task)
    return True


cdef PyObject *allocate(PyTypeObject *type, Py_ssize_t items) noexcept:
    """Memory for a task. The collector does not count it, and knows it only once it may be part of a cycle."""
    cdef char *block
    if type is not <PyTypeObject *> TimerTask:
        return PyType_GenericAlloc(type, items)
    block = <char *> take_block(&TASKS)
    if block is NULL:
        return PyErr_NoMemory()
    memset(block, 0, 64)
    return PyObject_Init(<PyObject *> (block + DWELL_COLLECTOR_HEADER), type)


cdef void deallocate(void *task) noexcept:
    if type_of(task) is not <PyTypeObject *> TimerTask:
        PyObject_GC_Del(task)
    else:
        give_block(&TASKS, <char *> task - DWELL_COLLECTOR_HEADER)


# Wheels

cdef class Wheels:
    """Wheels(tick_ms, wheel_size, clock, on_first, on_due)
--

The wheels, the delay queue and the counters of one timer. It neither waits nor starts anything by itself.

    `on_first()` is called after a timer was added that expires before all others, `on_due()` after one was added that
    is due. Both are called without a lock, by the thread that added.
    """

    def __cinit__(self, *args, **kwargs):
        self.due = []
        # Until `__init__` has run.
        self.is_closed = True

    def __init__(self, tick_ms, wheel_size, clock, on_first, on_due):
        if self.level_count:
            raise InvalidArgument("a timer is initialised once: its buckets are made")
        self.tick = at_least("tick_ms", tick_ms, 1)
        self.size_of_wheel = between("wheel_size", wheel_size, 2, LARGEST_WHEEL)
        self.time = clock
        self.on_first = on_first
        self.on_due = on_due
        self.clock_kind = (
            SYSTEM_CLOCK if type(clock) is SystemClock else MANUAL_CLOCK if type(clock) is ManualClock else OTHER_CLOCK
        )
        self.current = floor_div(now_of(self), self.tick)
        add_level(self)
        self.is_closed = False

    def __dealloc__(self):
        let_go(self)
        cdef int level
        cdef uint32_t bucket, first
        for level in range(self.level_count):
            first = self.levels[level].first
            for bucket in range(first, first + self.size_of_wheel):
                free(BUCKETS[bucket].slots)
                BUCKETS[bucket].slots = NULL
            free_runs.setdefault(self.size_of_wheel, []).append(first)
        for bucket in range(self.page_count):
            dwell_free_page(self.pages[bucket])
        free(self.pages)
        free(self.free_nodes)
        free(self.queue)
        free(self.tokens)

    @property
    def clock(self):
        """The clock that deadlines are counted on."""
        return self.time

    @property
    def tick_ms(self):
        """The time one bucket of the lowest level covers."""
        return self.tick

    @property
    def wheel_size(self):
        """How many buckets a level has."""
        return self.size_of_wheel

    @property
    def size(self):
        """How many tasks wait in buckets; a task handed over for its run no longer counts."""
        return self.pending

    @property
    def next_expiration_ms(self):
        """When the wheels must be turned next, None if nothing waits. At or before the first deadline."""
        if self.queue_count == 0:
            return None
        return int(self.queue[0].expiration) * int(self.tick)

    # One timer at a time

    def add(self, task):
        """Let `task` run `task.delay_ms` from now, O(1). One that waits already is moved. After close: `Closed`."""
        if not isinstance(task, TimerTask):
            raise InvalidType(f"add takes a TimerTask, not {type(task).__name__}: {task!r}")
        cdef int64_t now_ms = start_of(self)
        add_at(self, <TimerTask> task, later(now_ms, (<TimerTask> task).delay), now_ms)

    def schedule(self, delay_ms, callback):
        """Make a `TimerTask` of `callback` and add it, in one call; returns the task, to cancel it by."""
        if callback is None:
            raise InvalidArgument("schedule needs a callback")
        cdef int64_t delay = to_ms("delay_ms", delay_ms)
        cdef TimerTask task = TimerTask.__new__(TimerTask)
        cdef int64_t now_ms = start_of(self)
        if self.is_closed:
            refuse(self)
        task.delay = delay
        task.callback = callback
        # The collector gets to know it when it leaves the timer.
        task.entry.bucket = READY | <uint32_t> TRACKED
        if not DWELL_OWN_MEMORY:
            PyObject_GC_UnTrack(<void *> task)
        Py_INCREF(task)
        enter(self, task, later(now_ms, delay), now_ms)
        return task

    def reschedule(self, task, delay_ms):
        """Give `task` a new delay, counted from now, in place: O(1), whether it waits or not."""
        cdef int64_t delay = to_ms("delay_ms", delay_ms)
        if not isinstance(task, TimerTask):
            raise InvalidType(f"reschedule takes a TimerTask, not {type(task).__name__}: {task!r}")
        (<TimerTask> task).delay = delay
        self.add(task)

    # Many timers at a time

    def add_many(self, delays_ms, tokens=None):
        """Start one timer per delay, return their handles. `advance_many` hands back the tokens (default: handles).

        Both arguments are buffers of int64, such as `array('q')` or a numpy array, or sequences of ints.
        """
        cdef const int64_t[::1] delays = int64s("delays_ms", delays_ms)
        cdef const int64_t[::1] given = None if tokens is None else int64s("tokens", tokens)
        cdef Py_ssize_t count = delays.shape[0], i
        if given is not None and given.shape[0] != count:
            raise InvalidType(f"tokens has {given.shape[0]} items, delays_ms has {count}")
        cdef array.array handles = array.clone(INT64S, count, zero=False)
        cdef int64_t *handle = <int64_t *> handles.data.as_voidptr
        cdef int64_t now_ms = start_of(self)
        cdef int64_t first = FOREVER_MS if self.queue_count == 0 else self.queue[0].expiration
        cdef Node *node
        if self.is_closed:
            refuse(self)
        reserve_nodes(self, count)
        for i in range(count):
            node = take_node(self)
            handle[i] = <int64_t> node.generation << 32 | node.number
            node.entry.deadline_ms = later(now_ms, delays[i])
            node.token = handle[i] if given is None else given[i]
            node.entry.bucket = TOKEN
            self.pending += 1
            if node.entry.deadline_ms <= now_ms:
                fire(self, &node.entry, now_ms)
            else:
                place(self, &node.entry)
        if self.queue_count and self.queue[0].expiration < first:
            self.on_first()
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
            # A node that is free has moved on to its next generation, so old handles miss here. The handle of another
            # timer may name that generation, but a free node is in no bucket.
            if (
                node is not NULL
                and node.generation == <uint32_t> (view[i] >> 32)
                and node.entry.bucket & <uint32_t> NUMBER
            ):
                take_out(&node.entry)
                give_node(self, node)
                self.pending -= 1
        self.cancelled += before - self.pending
        return before - self.pending

    def statistics(self):
        """A frozen snapshot: what waits where, and what became of the rest. O(levels * wheel size)."""
        levels = []
        cdef int k
        cdef uint32_t bucket, first
        cdef int64_t tasks, occupied
        for k in range(self.level_count):
            tasks = occupied = 0
            first = self.levels[k].first
            for bucket in range(first, first + self.size_of_wheel):
                tasks += BUCKETS[bucket].live
                occupied += BUCKETS[bucket].live > 0
            levels.append(
                LevelStatistics(tick_ms=int(self.levels[k].tick) * int(self.tick), buckets=occupied, tasks=tasks)
            )
        return TimerStatistics(
            pending=self.pending,
            levels=tuple(levels),
            cascades=self.cascades,
            fired=self.fired,
            cancelled=self.cancelled,
            lateness=tuple([self.lateness[k] for k in range(PLACES)]),
        )

    # For the timer that turns the wheels

    @property
    def _closed(self):
        return self.is_closed

    @property
    def _has_due(self):
        return len(self.due) > 0

    def _expire(self):
        """Turn the wheels to now and collect what is due. False if no bucket has expired."""
        cdef int64_t now_ms = now_of(self), now
        if self.queue_count == 0:
            return False
        now = floor_div(now_ms, self.tick)
        if self.queue[0].expiration > now:
            return False
        while self.queue_count and self.queue[0].expiration <= now:
            turn_to(self, self.queue[0].expiration)
            flush(self, poll(self), now_ms)
        return True

    def _take_due(self):
        """The tasks that are due; the caller runs them."""
        cdef list empty = []
        cdef list due = self.due
        self.due = empty
        return due

    def _put_back(self, list tasks):
        """Keep tasks that were taken and not run; they are the first to be taken next time."""
        self.due[:0] = tasks

    def _take_tokens(self):
        """The tokens of the bulk timers that have expired."""
        cdef array.array tokens = array.clone(INT64S, self.token_count, zero=False)
        # The allocation may have run the collector, and with it code that took or added tokens: look again.
        if <Py_ssize_t> len(tokens) != self.token_count:
            return self._take_tokens()
        if self.token_count:
            memcpy(tokens.data.as_voidptr, self.tokens, self.token_count * sizeof(int64_t))
        self.token_count = 0
        return tokens

    def _run(self, list batch, on_error):
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
                                start_again(self, <RecurringTask> task)
                            task.run()
                except Exception as error:
                    report(on_error, error, task)
        finally:
            del batch[:done]

    def _close(self):
        """Refuse what comes from now on and let go of all that waits; returns the tasks among it."""
        self.is_closed = True
        return let_go(self)

    def _check(self):
        """Assert every invariant; for tests."""
        cdef uint32_t bucket, place, live, tokens = 0, first
        cdef int64_t counted = 0
        cdef Level *level
        cdef Entry *entry
        cdef int k
        queued = [self.queue[place].bucket for place in range(self.queue_count)]
        assert len(set(queued)) == len(queued), "a bucket is queued twice"
        for place in range(1, self.queue_count):
            assert self.queue[(place - 1) // 2].expiration <= self.queue[place].expiration, "queue out of order"
        for k in range(self.level_count):
            level = &self.levels[k]
            assert level.current == floor_div(self.current, level.tick) * level.tick
            assert level.slot == int(level.current) // int(level.tick) % int(self.size_of_wheel)
            for bucket in range(level.first, level.first + self.size_of_wheel):
                assert BUCKETS[bucket].wheels is <void *> self
                live = 0
                for place in range(BUCKETS[bucket].used):
                    entry = BUCKETS[bucket].slots[place]
                    if entry is NULL:
                        continue
                    live += 1
                    assert entry.bucket & <uint32_t> NUMBER == bucket and entry.place == place
                    expiration = ticks_up(self, entry.deadline_ms)
                    assert 0 <= expiration - BUCKETS[bucket].expiration < level.tick
                    assert expiration // level.tick % self.size_of_wheel == bucket - level.first
                    if entry.bucket & TOKEN:
                        tokens += 1
                    else:
                        task = task_of(entry)
                        assert not PyObject_GC_IsTracked(<PyObject *> task)
                assert live == BUCKETS[bucket].live, "a bucket counts its tasks wrong"
                assert BUCKETS[bucket].queued == (bucket in queued)
                assert BUCKETS[bucket].queued or not live, "tasks in a bucket nobody waits for"
                counted += live
        assert counted == self.pending, "counter differs from entries"
        assert tokens + self.free_count == self.node_count, "a node is lost"


cdef int64_t now_of(Wheels wheels) except? -1:
    if wheels.clock_kind == SYSTEM_CLOCK:
        return monotonic_ns() // 1000000
    if wheels.clock_kind == MANUAL_CLOCK:
        return wheels.time._now_ms
    return wheels.time.now_ms()


cdef int64_t start_of(Wheels wheels) except? -1:
    if wheels.clock_kind == SYSTEM_CLOCK:
        # Rounded up, so that a delay never ends early, as `SystemClock.end_ms` does.
        return (monotonic_ns() + 999999) // 1000000
    return now_of(wheels)


cdef int64_t size_of(Wheels wheels) noexcept:
    return wheels.pending


cdef int add_at(Wheels wheels, TimerTask task, int64_t deadline_ms, int64_t now_ms) except -1:
    cdef uint32_t flags = task.entry.bucket & <uint32_t> FLAGS
    if wheels.is_closed:
        refuse(wheels)
    if not flags & READY:
        raise InvalidArgument(f"{type(task).__name__} was added before TimerTask.__init__ ran")
    Py_INCREF(task)
    if waits(task):
        # The new reference keeps it alive while the old one goes.
        forget(<Wheels> BUCKETS[task.entry.bucket & <uint32_t> NUMBER].wheels, task)
    if PyObject_GC_IsTracked(<PyObject *> task):
        flags |= <uint32_t> TRACKED
        PyObject_GC_UnTrack(<void *> task)
    task.entry.bucket = flags & ~<uint32_t> CANCELLED
    return enter(wheels, task, deadline_ms, now_ms)


cdef int refuse(Wheels wheels) except -1:
    if wheels.level_count == 0:
        raise InvalidArgument(f"{type(wheels).__name__} was given a task before its __init__ ran")
    raise Closed("the timer is closed; it takes no more tasks")


cdef inline int enter(Wheels wheels, TimerTask task, int64_t deadline_ms, int64_t now_ms) except -1:
    """Let a task wait that is in no bucket and off the collector's list. Takes over a reference to it."""
    cdef int64_t first
    task.entry.deadline_ms = deadline_ms
    wheels.pending += 1
    if deadline_ms <= now_ms:
        fire(wheels, &task.entry, now_ms)
        wheels.on_due()
        return 0
    first = FOREVER_MS if wheels.queue_count == 0 else wheels.queue[0].expiration
    place(wheels, &task.entry)
    if wheels.queue[0].expiration < first:
        wheels.on_first()
    return 0


cdef int start_again(Wheels wheels, RecurringTask task) except -1:
    """Let a recurring task that starts to run be due again, unless it was cancelled or added meanwhile."""
    cdef int64_t now_ms = now_of(wheels), behind
    if not wheels.is_closed and not waits(task) and not task.entry.bucket & <uint32_t> CANCELLED:
        if task.period == 0:
            raise InvalidArgument(f"{type(task).__name__} was added before RecurringTask.__init__ ran")
        behind = max(0, now_ms - task.due_ms)
        behind -= behind % task.period
        add_at(wheels, task, later(later(task.due_ms, behind), task.period), now_ms)
    return 0


cdef inline int64_t later(int64_t time_ms, int64_t delay_ms) noexcept nogil:
    """time + delay, saturating upwards; a negative delay is due at once."""
    if delay_ms <= 0:
        return time_ms
    return time_ms + delay_ms if time_ms <= FOREVER_MS - delay_ms else FOREVER_MS


cdef inline int64_t ticks_up(Wheels self, int64_t deadline_ms) noexcept:
    """The deadline in ticks, rounded up: never early."""
    if self.tick == 1:
        return deadline_ms
    cdef int64_t ticks = floor_div(deadline_ms, self.tick)
    return ticks + (ticks * self.tick != deadline_ms)


cdef inline TimerTask task_of(Entry *entry):
    """The task an entry is part of."""
    return <TimerTask> <void *> (<char *> entry - ENTRY_OFFSET)


# Nodes

cdef int reserve_nodes(Wheels self, Py_ssize_t more) except -1:
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
        self.pages[self.page_count] = <Node *> dwell_page(self.page_count > 0)
        if self.pages[self.page_count] is NULL:
            raise MemoryError
        self.page_count += 1
    return 0


cdef inline Node *take_node(Wheels self) noexcept:
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


cdef inline Node *node_at(Wheels self, uint32_t number) noexcept:
    return &self.pages[number >> PAGE_BITS][number & (PAGE - 1)]


cdef inline Node *find_node(Wheels self, int64_t handle) noexcept:
    """The node a handle names, whoever has it now; NULL for a number that never was."""
    cdef uint32_t number = <uint32_t> <uint64_t> handle
    return node_at(self, number) if handle >= 0 and number < self.node_count else NULL


cdef inline void give_node(Wheels self, Node *node) noexcept:
    node.generation = (node.generation + 1) & 0x7FFFFFFF
    self.free_nodes[self.free_count] = node.number
    self.free_count += 1


# Levels and buckets

cdef int add_level(Wheels self) except -1:
    cdef Level *level = &self.levels[self.level_count]
    cdef uint64_t below = self.levels[self.level_count - 1].interval if self.level_count else 1
    level.first = take_run(self)
    level.tick = <int64_t> min(below, <uint64_t> FOREVER_MS)
    level.interval = below * self.size_of_wheel if below <= UNBOUNDED / self.size_of_wheel else UNBOUNDED
    set_current(self, level, floor_div(self.current, level.tick))
    self.level_count += 1
    return 0


cdef int add_level_for(Wheels self, Entry *entry) except -1:
    """A level that an entry needs. If there is no memory for it, the entry is let go of."""
    cdef TimerTask task
    try:
        return add_level(self)
    except BaseException:
        self.pending -= 1
        if entry.bucket & TOKEN:
            give_node(self, <Node *> entry)
        else:
            task = task_of(entry)
            if entry.bucket & <uint32_t> TRACKED:
                PyObject_GC_Track(<PyObject *> task)
            Py_DECREF(task)
        raise


cdef uint32_t take_run(Wheels self) except 0:
    """The first of as many consecutive buckets as a level has, empty."""
    global BUCKETS, bucket_count
    cdef uint32_t first, bucket, count = self.size_of_wheel
    cdef Bucket *buckets
    runs = free_runs.get(count)
    if runs:
        first = runs.pop()
    else:
        if bucket_count + count > <uint32_t> NUMBER:
            raise MemoryError("all timers together have at most 2**28 - 1 buckets")
        buckets = <Bucket *> realloc(BUCKETS, (bucket_count + count) * sizeof(Bucket))
        if buckets is NULL:
            raise MemoryError
        BUCKETS = buckets
        first = bucket_count
        bucket_count += count
    memset(&BUCKETS[first], 0, count * sizeof(Bucket))
    for bucket in range(first, first + count):
        BUCKETS[bucket].wheels = <void *> self
    return first


cdef inline int place(Wheels self, Entry *entry) except -1:
    """Put an entry that is not due into the bucket its deadline asks for. Its number is 0 before."""
    cdef int64_t expiration = ticks_up(self, entry.deadline_ms)
    cdef int k = 0
    cdef Level *level = &self.levels[0]
    # Unsigned: a distance may need all 64 bits.
    cdef uint64_t distance = <uint64_t> expiration - <uint64_t> level.current
    cdef uint64_t steps
    while distance >= level.interval and level.interval != UNBOUNDED:
        k += 1
        if k == self.level_count:
            add_level_for(self, entry)
        level = &self.levels[k]
        distance = <uint64_t> expiration - <uint64_t> level.current
    # How many buckets after the level's current one. Divisions of 64 bits are slow, and seldom needed.
    if k == 0:
        steps = distance
    elif distance <= <uint64_t> 0xFFFFFFFF and level.tick <= <int64_t> 0xFFFFFFFF:
        steps = <uint32_t> distance // <uint32_t> level.tick
    else:
        steps = distance // <uint64_t> level.tick
    cdef uint64_t slot = level.slot + steps
    if slot >= self.size_of_wheel:
        slot -= self.size_of_wheel
    cdef uint32_t number = level.first + <uint32_t> slot
    cdef Bucket *bucket = &BUCKETS[number]
    if bucket.used == bucket.capacity:
        grow(bucket)
    bucket.slots[bucket.used] = entry
    entry.bucket |= number
    entry.place = bucket.used
    bucket.used += 1
    bucket.live += 1
    if not bucket.queued:
        bucket.queued = True
        bucket.expiration = level.current + <int64_t> (steps * <uint64_t> level.tick)
        enqueue(self, number, bucket.expiration)
    return 0


cdef void grow(Bucket *bucket) noexcept:
    cdef uint32_t capacity = bucket.capacity * 2 if bucket.capacity else 8
    bucket.slots = <Entry **> realloc(bucket.slots, capacity * sizeof(Entry *))
    if bucket.slots is NULL:
        # In the middle of a cascade there is no way back that loses no task.
        Py_FatalError("dwell: out of memory in the timing wheel")
    bucket.capacity = capacity


cdef inline void take_out(Entry *entry) noexcept:
    """Leave a gap where the entry was, and compact the bucket once seven slots of eight are gaps."""
    cdef Bucket *bucket = &BUCKETS[entry.bucket & <uint32_t> NUMBER]
    bucket.slots[entry.place] = NULL
    entry.bucket &= <uint32_t> FLAGS
    bucket.live -= 1
    if bucket.live == 0:
        bucket.used = 0
    elif bucket.used > 64 and bucket.live < bucket.used // 8:
        compact(bucket)


cdef void compact(Bucket *bucket) noexcept:
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


cdef void flush(Wheels self, uint32_t number, int64_t now_ms) noexcept:
    """Empty a bucket that has expired, in insertion order: each entry is due, or cascades to a lower level."""
    cdef Bucket bucket = BUCKETS[number]
    cdef uint32_t i
    cdef Entry *entry
    cdef bint is_lowest = number - self.levels[0].first < self.size_of_wheel
    BUCKETS[number].slots = NULL
    BUCKETS[number].used = BUCKETS[number].capacity = BUCKETS[number].live = 0
    BUCKETS[number].queued = False
    for i in range(min(AHEAD, bucket.used)):
        fetch(bucket.slots[i], is_lowest)
    for i in range(bucket.used):
        if i + AHEAD < bucket.used:
            fetch(bucket.slots[i + AHEAD], is_lowest)
        entry = bucket.slots[i]
        if entry is NULL:
            continue
        entry.bucket &= <uint32_t> FLAGS
        if ticks_up(self, entry.deadline_ms) > self.current:
            place(self, entry)
            self.cascades += 1
        else:
            fire(self, entry, now_ms)
    if bucket.capacity <= KEEP_CAPACITY:
        # Nothing cascades into the bucket it came from, so the vector is free for its next round.
        BUCKETS[number].slots = bucket.slots
        BUCKETS[number].capacity = bucket.capacity
    else:
        free(bucket.slots)


cdef inline void fetch(Entry *entry, bint is_due) noexcept:
    dwell_prefetch(entry)
    if is_due:
        # It is touched as an object too, whose first bytes in memory are the collector's header.
        dwell_prefetch(<char *> entry - ENTRY_OFFSET - 16)


cdef inline int fire(Wheels self, Entry *entry, int64_t now_ms) except -1:
    """Keep a due timer's task or token for whoever turned the wheels. The timer is in no bucket any more."""
    cdef Node *node
    cdef TimerTask task
    self.lateness[place_of(now_ms - entry.deadline_ms)] += 1
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
    if isinstance(task, RecurringTask):
        (<RecurringTask> task).due_ms = entry.deadline_ms
    if entry.bucket & <uint32_t> TRACKED:
        PyObject_GC_Track(<PyObject *> task)
    PyList_Append(self.due, task)
    Py_DECREF(task)
    return 0


cdef void grow_tokens(Wheels self) noexcept:
    cdef Py_ssize_t capacity = self.token_capacity * 2 if self.token_capacity else 1024
    self.tokens = <int64_t *> realloc(self.tokens, capacity * sizeof(int64_t))
    if self.tokens is NULL:
        Py_FatalError("dwell: out of memory in the timing wheel")
    self.token_capacity = capacity


cdef void forget(Wheels self, TimerTask task) noexcept:
    """Take a waiting task out of its bucket and drop the timer's reference to it."""
    take_out(&task.entry)
    self.pending -= 1
    if task.entry.bucket & <uint32_t> TRACKED:
        PyObject_GC_Track(<PyObject *> task)
    Py_DECREF(task)


cdef list let_go(Wheels self):
    """Empty every bucket and the queue; returns the tasks, which hold their last reference until then."""
    cdef uint32_t number, i, first
    cdef int k
    cdef Bucket *bucket
    cdef Entry *entry
    cdef list dropped = []
    cdef TimerTask task
    for k in range(self.level_count):
        first = self.levels[k].first
        for number in range(first, first + self.size_of_wheel):
            bucket = &BUCKETS[number]
            for i in range(bucket.used):
                if i + AHEAD < bucket.used:
                    dwell_prefetch(bucket.slots[i + AHEAD])
                entry = bucket.slots[i]
                if entry is NULL:
                    continue
                entry.bucket &= <uint32_t> FLAGS
                if entry.bucket & TOKEN:
                    give_node(self, <Node *> entry)
                    continue
                task = task_of(entry)
                if entry.bucket & <uint32_t> TRACKED:
                    PyObject_GC_Track(<PyObject *> task)
                PyList_Append(dropped, task)
                Py_DECREF(task)
            bucket.used = bucket.live = 0
            bucket.queued = False
    self.queue_count = 0
    self.pending = 0
    return dropped


# The clock and the delay queue: a binary heap of buckets, the next to expire first

cdef inline void turn_to(Wheels self, int64_t time) noexcept:
    cdef int k
    cdef Level *level
    if time <= self.current:
        return
    self.current = time
    for k in range(self.level_count):
        level = &self.levels[k]
        if <uint64_t> time - <uint64_t> level.current < <uint64_t> level.tick:
            # Within its current bucket, and so are the levels above.
            return
        set_current(self, level, floor_div(time, level.tick))


cdef inline void set_current(Wheels self, Level *level, int64_t bucket) noexcept:
    """Let a level stand at the given bucket, counted from time 0."""
    cdef int64_t slot = bucket % self.size_of_wheel
    level.current = bucket * level.tick
    level.slot = <uint32_t> (slot + self.size_of_wheel if slot < 0 else slot)


cdef void enqueue(Wheels self, uint32_t bucket, int64_t expiration) noexcept:
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


cdef uint32_t poll(Wheels self) noexcept:
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


cdef int set_up() except -1:
    global ENTRY_OFFSET
    cdef TimerTask task = TimerTask.__new__(TimerTask)
    ENTRY_OFFSET = <char *> &task.entry - <char *> <void *> task
    # Where the layers above look for them, and what `help()` shows.
    (<PyTypeObject *> TimerTask).tp_name = "dwell.timer.TimerTask"
    (<PyTypeObject *> RecurringTask).tp_name = "dwell.timer.RecurringTask"
    (<PyTypeObject *> Wheels).tp_name = "dwell.timer.Wheels"
    return 0


cdef int use_own_memory() except -1:
    if DWELL_OWN_MEMORY and (<PyTypeObject *> TimerTask).tp_basicsize + DWELL_COLLECTOR_HEADER <= 64:
        TASKS.block = 64
        (<PyTypeObject *> TimerTask).tp_alloc = allocate
        (<PyTypeObject *> TimerTask).tp_free = deallocate
    return 0


# In this order: the task that `set_up` makes is gone before memory is taken and given back in another way.
set_up()
use_own_memory()
