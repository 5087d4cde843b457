# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic, auto_pickle=False
"""The compiled twin of `operation.py`, `watch_map.py`, `action_queue.py` and `purgatory.py`, whose head tells the theory.

**The interpreter lock guards the map.** Appending a watch, dropping watches and claiming an operation run no Python code and drop no last
reference, so each of them is atomic to other threads, and there is no lock of the map. Python code runs in the middle only where keys are
compared: `find` notices a map that changed meanwhile, and starts again. The operation's lock is the one lock left.

**The map** is a hash table with chains. Each key has a `KeyEntry` of one cache line, with room for three watches; more of them go to a vector.
No entry is used after Python code ran, unless `is_in_map` says that it is still there.

**Watches.** The lists of all keys of an operation hold a pointer to one `Watch`. As long as some list holds it, the lists together own
one reference to the operation. Completing the operation empties the watch and drops that reference.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject_Hash, PyObject_IsTrue, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from dwell._c.histogram cimport PLACES, place_of
from dwell._c.lock cimport Lock, acquire, release
from dwell.timer._wheels cimport TimerTask, Wheels, add_at, cancel_task, init_task, now_of, size_of, start_of

import threading
from collections import deque

from dwell.clock import ManualClock, SystemClock
from dwell.errors import Closed, InvalidArgument, InvalidType, log_error, report
from dwell.number import at_least
from dwell.purgatory.purgatory import Purgatory as ReadablePurgatory, clock_and_timer
from dwell.purgatory.statistics import PurgatoryStatistics

cdef extern from "Python.h":
    PyObject *type_lookup "_PyType_Lookup"(PyTypeObject *operation_class, PyObject *name)
    # As declared in Cython these would take references, and turn a NULL into an exception.
    PyTypeObject *type_of "Py_TYPE"(PyObject *of)
    Py_ssize_t reference_count "Py_REFCNT"(PyObject *of)
    PyObject *call_method "PyObject_CallMethodNoArgs"(PyObject *operation, PyObject *name)
    int PyObject_RichCompareBool(PyObject *left, PyObject *right, int operator) except -1
    int Py_EQ
    PyObject *Py_True
    PyObject *Py_False

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define DWELL_PER_THREAD __declspec(thread)
    #else
    #define DWELL_PER_THREAD _Thread_local
    #endif
    /* What `action_queue.py` keeps per thread: the operation whose callbacks it runs (borrowed), whether it is at work on what
       callbacks have set off, and that (a deque, owned; NULL if there is nothing). */
    typedef struct { void *busy_with; int is_draining; PyObject *actions; } dwell_thread;
    static DWELL_PER_THREAD dwell_thread dwell_this_thread;

    #if defined(__GNUC__) || defined(__clang__)
    #define dwell_fetch(address) __builtin_prefetch((address), 1)
    #else
    #define dwell_fetch(address) ((void)0)
    #endif

    /* An exception is set already: let Cython find it. */
    static inline int dwell_raised(void) { return -1; }
    """
    ctypedef struct Thread "dwell_thread":
        void *busy_with
        bint is_draining
        PyObject *actions
    Thread this_thread "dwell_this_thread"
    int dwell_raised() except -1
    # Load a cache line without waiting for it.
    void fetch "dwell_fetch"(const void *address) nogil

cdef extern from "<stdint.h>":
    const int64_t NOT_STARTED "INT64_MIN"
    const int64_t FOREVER_MS "INT64_MAX"
    # 2^64 divided by the golden ratio: spreads hashes whose low bits agree.
    const uint64_t MIX "UINT64_C(0x9E3779B97F4A7C15)"

cdef enum:
    # Of the map: the least number of chains (2^6).
    LEAST_BITS = 6
    # Watches that a key has room for without a vector: most keys have few.
    INLINE = 3
    # Operations that a check can try, and keys that an operation can have, without allocating memory.
    FEW = 16
    # A purge lets other threads run after this many watches: a key with 340,000 of them must not stop them meanwhile.
    PURGE_CHUNK = 4096
    # Watches, and entries of the map, that are kept for the next operation and the next key.
    MOST_FREE = 256

cdef str TRY_COMPLETE = "try_complete"
cdef str ON_COMPLETE = "on_complete"


# What callbacks set off

cdef int put_off(Thread *thread, first, second) except -1:
    """Keep an action until the callbacks that this thread runs have returned."""
    if thread.actions is NULL:
        actions = deque()
        # Making it may have run the collector, and with it a callback that was here first.
        if thread.actions is NULL:
            Py_INCREF(actions)
            thread.actions = <PyObject *> actions
    (<object> thread.actions).append((first, second))
    return 0


cdef inline bint enter(Thread *thread, DelayedOperation operation) noexcept:
    """True if the thread was idle and is now busy with `operation`. Then the caller must `leave`."""
    if thread.busy_with is not NULL:
        return False
    thread.busy_with = <void *> operation
    return True


cdef inline int leave(Thread *thread) except -1:
    thread.busy_with = NULL
    if thread.actions is not NULL and not thread.is_draining:
        drain(thread)
    return 0


cdef int drain(Thread *thread) except -1:
    """Run what the callbacks set off, and what that sets off, one after the other."""
    actions = <object> thread.actions
    thread.is_draining = True
    try:
        while len(actions):
            first, second = actions.popleft()
            if isinstance(first, DelayedOperation):
                finish(thread, <DelayedOperation> first)
            else:
                check_key(thread, <Purgatory> first, second)
    finally:
        thread.is_draining = False
        if not len(actions) and thread.actions is <PyObject *> actions:
            thread.actions = NULL
            Py_DECREF(actions)
    return 0


# Operations

cdef struct Watch:
    # Borrowed; NULL once the operation is completed or cancelled. In a free watch: the next one.
    PyObject *operation
    # How many lists hold the watch.
    uint32_t lists


cdef Watch *free_watches = NULL
cdef uint32_t free_watch_count = 0


cdef inline Watch *new_watch(DelayedOperation operation) except NULL:
    global free_watches, free_watch_count
    cdef Watch *watch = free_watches
    if watch is not NULL:
        free_watches = <Watch *> watch.operation
        free_watch_count -= 1
    else:
        watch = <Watch *> PyMem_Malloc(sizeof(Watch))
        if watch is NULL:
            raise MemoryError
    watch.operation = <PyObject *> operation
    watch.lists = 0
    return watch


cdef inline void free_watch(Watch *watch) noexcept:
    global free_watches, free_watch_count
    if free_watch_count == MOST_FREE:
        PyMem_Free(watch)
        return
    watch.operation = <PyObject *> free_watches
    free_watches = watch
    free_watch_count += 1


@cython.final
cdef class Home:
    """Leads from an operation to its purgatory without keeping it alive: the purgatory owns its operations, not they it."""
    cdef PyObject *purgatory


cdef class DelayedOperation(TimerTask):
    """DelayedOperation(delay_ms, lock=None)
--

    Subclass it: `try_complete` checks the condition and calls `force_complete`; `on_complete` gives the answer.

    Whatever completes it, an event or the end of its time, and from whichever thread: `on_complete` runs exactly once,
    under the operation's lock, so never while a thread is in `try_complete`. Pass `lock` to share one with the state
    that the condition reads. An exception of a callback goes to the purgatory's `on_error`.
    """

    # Of the purgatory that let it in; None after the callbacks have returned.
    cdef Home home
    # What the lists of its keys hold in its stead; NULL while it is on none.
    cdef Watch *watch
    # When a purgatory started its clock, for the statistics.
    cdef int64_t started_ms
    # Held over try_complete and on_complete, unless another one was given.
    cdef Lock lock
    cdef object given_lock
    # Told the outcome, which is known once the callbacks have returned.
    cdef object observer
    # Truth values of one byte each. `taken_out`: it was cancelled since a purgatory last let it in.
    cdef unsigned char completed, expired, settled, taken_out

    def __init__(self, delay_ms, lock=None):
        init_task(self, delay_ms)
        if callback_of(self, TRY_COMPLETE) is NO_CONDITION:
            raise InvalidArgument(f"{type(self).__name__} must override try_complete()")
        self.given_lock = lock
        self.started_ms = NOT_STARTED

    def __dealloc__(self):
        # No list holds it: lists keep their operations alive.
        if self.watch is not NULL:
            free_watch(self.watch)

    # For the subclass

    def try_complete(self):
        """If the condition holds, `return self.force_complete()`; otherwise False. Called under the lock."""
        raise NotImplementedError

    def on_complete(self):
        """Called once, when the operation is completed by whatever means, before `on_expiration`."""

    def on_expiration(self):
        """Called after `on_complete`, without the lock, if it was the end of its time that completed the operation."""

    # For everyone

    @property
    def is_completed(self):
        """Whether the operation is completed, or just about to run `on_complete`."""
        return <bint> self.completed

    @property
    def is_cancelled(self):
        """Whether the operation was cancelled, by itself or by one of its keys, since it last began to wait."""
        return <bint> self.taken_out

    def force_complete(self):
        """Complete the operation. True for the one caller that did it; False if it was completed before.

        Inside a callback of another operation it is completed at once, and its `on_complete` runs when that callback
        has returned.
        """
        return complete(&this_thread, self, False)

    def safe_try_complete(self):
        """`try_complete` under the lock; False if completed before. Waits for the lock, so that no chance is lost."""
        return try_or_watch(&this_thread, self, None, None, NULL)

    def cancel(self):
        """Take the operation out without completing it: its clock stops and no key completes it. True if it waited."""
        if self.watch is NULL:
            # It may wait in a timer alone.
            return cancel_task(self)
        unwatch(self)
        count_cancelled(self)
        return True

    def run(self):
        """The timer's call: time is up."""
        complete(&this_thread, self, True)

    def __repr__(self):
        state = "completed" if self.completed else "waiting" if self.watch is not NULL else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay} {state}>"

    # For the purgatory

    def _stop_clock(self):
        cancel_task(self)

    def _observe(self, observer):
        """Let `observer` be told the outcome; if there is one already, return it and tell nobody."""
        if self.observer is not None:
            raise InvalidArgument(f"somebody waits already for {self!r}")
        if self.settled:
            return "expired" if self.expired else "completed"
        self.observer = observer
        return None

    def _stop_observing(self):
        self.observer = None


cdef PyObject *NO_CONDITION = type_lookup(<PyTypeObject *> DelayedOperation, <PyObject *> TRY_COMPLETE)
cdef PyObject *NO_ANSWER = type_lookup(<PyTypeObject *> DelayedOperation, <PyObject *> ON_COMPLETE)


cdef inline PyObject *callback_of(DelayedOperation self, str name) noexcept:
    """What the operation's class has under `name`, borrowed."""
    return type_lookup(type_of(<PyObject *> self), <PyObject *> name)


cdef inline int take(DelayedOperation self) except -1:
    if self.given_lock is None:
        acquire(&self.lock)
    else:
        self.given_lock.__enter__()
    return 0


cdef inline int give(DelayedOperation self) except -1:
    if self.given_lock is None:
        release(&self.lock)
    else:
        self.given_lock.__exit__(None, None, None)
    return 0


cdef bint try_or_watch(
    Thread *thread, DelayedOperation self, Purgatory purgatory, tuple keys, Py_hash_t *hashes
) except -1:
    """Try; if that fails, watch the keys, if there are any, and try again while the lock is still held."""
    cdef bint outermost = enter(thread, self), done = False
    try:
        take(self)
        try:
            if not self.completed:
                done = attempt(self)
                # A try that returns False may have completed it all the same.
                if purgatory is not None and not done and not self.completed:
                    watch_keys_of(purgatory, self, keys, hashes)
                    # Without a watch, it was completed or cancelled meanwhile.
                    done = self.watch is not NULL and attempt(self)
        finally:
            give(self)
    finally:
        if outermost:
            leave(thread)
    return done


cdef inline bint attempt(DelayedOperation self) except -1:
    cdef PyObject *result = call_method(<PyObject *> self, <PyObject *> TRY_COMPLETE)
    if result is Py_False:
        Py_DECREF(<object> result)
        return False
    if result is NULL:
        report_raised(self)
        return False
    return truth_of(result)


cdef bint truth_of(PyObject *result) except -1:
    cdef object owned = <object> result
    Py_DECREF(owned)
    return PyObject_IsTrue(owned)


cdef int report_raised(DelayedOperation self) except -1:
    """A callback raised. An `Exception` goes to the handler, and anything else passes through."""
    try:
        dwell_raised()
    except Exception as error:
        report(handler_of(self), error, self)
    return 0


cdef object handler_of(DelayedOperation self):
    purgatory = home_of(self)
    return log_error if purgatory is None else (<Purgatory> purgatory)._on_error


cdef bint complete(Thread *thread, DelayedOperation self, bint expired) except -1:
    if self.completed:
        return False
    if thread.busy_with is <void *> self:
        # Inside its own try_complete, with the lock held.
        claim(self, expired)
        call_back(self, True)
    elif thread.busy_with is NULL:
        thread.busy_with = <void *> self
        try:
            # The lock comes first: no thread may be in try_complete when the operation becomes completed.
            take(self)
            if self.completed:
                give(self)
                return False
            claim(self, expired)
            # This gives the lock back.
            call_back(self, False)
        finally:
            leave(thread)
    else:
        # Inside a callback of another operation, whose lock is held: waiting for this one's could be a deadlock.
        claim(self, expired)
        put_off(thread, self, None)
    return True


cdef int finish(Thread *thread, DelayedOperation self) except -1:
    """Run the callbacks of an operation that was claimed before."""
    enter(thread, self)
    try:
        take(self)
        call_back(self, False)
    finally:
        leave(thread)
    return 0


cdef inline void claim(DelayedOperation self, bint expired) noexcept:
    """Make a waiting operation a completed one. The caller has just seen that it is none, and holds a reference."""
    self.completed = True
    self.expired = expired
    cancel_task(self)
    unwatch(self)
    purgatory = home_of(self)
    if purgatory is not None:
        count_settled(<Purgatory> purgatory, self)


cdef int call_back(DelayedOperation self, bint keep_lock) except -1:
    """Run the callbacks; the caller has taken the lock. The outcome is known then, and also if Ctrl-C interrupted them."""
    try:
        try:
            call_on_complete(self)
        finally:
            if not keep_lock:
                give(self)
        if self.expired:
            try:
                self.on_expiration()
            except Exception as error:
                report(handler_of(self), error, self)
    finally:
        self.settled = True
        if self.observer is not None:
            tell_observer(self, "expired" if self.expired else "completed")
        self.home = None
    return 0


cdef inline int call_on_complete(DelayedOperation self) except -1:
    cdef PyObject *result
    # Nothing to call, where neither the class nor (without a __dict__) the instance has a callback of its own.
    if callback_of(self, ON_COMPLETE) is NO_ANSWER and type_of(<PyObject *> self).tp_dictoffset == 0:
        return 0
    result = call_method(<PyObject *> self, <PyObject *> ON_COMPLETE)
    if result is NULL:
        report_raised(self)
    else:
        Py_DECREF(<object> result)
    return 0


cdef int count_cancelled(DelayedOperation self) except -1:
    """Stop the clock, count the operation as cancelled unless it was before, and tell the observer."""
    if not self.taken_out:
        self.taken_out = True
        purgatory = home_of(self)
        if purgatory is not None:
            (<Purgatory> purgatory).cancelled += 1
    cancel_task(self)
    tell_observer(self, "cancelled")
    return 0


cdef int tell_observer(DelayedOperation self, outcome) except -1:
    observer = self.observer
    self.observer = None
    try:
        if observer is not None:
            observer(outcome)
    except RuntimeError as error:  # its event loop was closed
        report(handler_of(self), error, self)
    return 0


cdef inline Purgatory home_of(DelayedOperation self):
    # No references: the purgatory is just going away, and code that runs meanwhile must not bring it back.
    if self.home is None or self.home.purgatory is NULL or reference_count(self.home.purgatory) <= 0:
        return None
    return <Purgatory> self.home.purgatory


cdef inline void unwatch(DelayedOperation self) noexcept:
    """Let go of the operation from the lists of all its keys. The caller holds a reference."""
    cdef Watch *watch = self.watch
    if watch is NULL:
        return
    self.watch = NULL
    watch.operation = NULL
    if watch.lists:
        Py_DECREF(self)
    else:
        free_watch(watch)


# The map

cdef struct KeyEntry:
    KeyEntry *next
    Py_hash_t hash
    # Owned.
    PyObject *key
    # In the order they came: `first`, or memory of their own.
    Watch **watches
    uint32_t used, capacity
    Watch *first[INLINE]


cdef struct Map:
    KeyEntry **chains
    # There are 2^bits chains.
    int bits
    uint32_t keys
    # Counts keys that were added and removed, so that a comparison of keys notices that the map changed under it.
    uint64_t version
    # On all lists together.
    int64_t watches


cdef KeyEntry *free_entries = NULL
cdef uint32_t free_entry_count = 0


cdef inline KeyEntry **chain_of(Map *map, Py_hash_t hash) noexcept:
    return &map.chains[(<uint64_t> hash * MIX) >> (64 - map.bits)]


cdef inline KeyEntry *find(Map *map, key, Py_hash_t hash) except? NULL:
    cdef KeyEntry *entry = chain_of(map, hash)[0]
    while entry is not NULL:
        if entry.key is <PyObject *> key:
            return entry
        if entry.hash == hash:
            return find_equal(map, key, hash)
        entry = entry.next
    return NULL


cdef KeyEntry *find_equal(Map *map, key, Py_hash_t hash) except? NULL:
    """`find` where keys have to be compared, which may run anybody's code."""
    cdef KeyEntry *entry = chain_of(map, hash)[0]
    cdef uint64_t version
    cdef bint is_equal
    while entry is not NULL:
        if entry.key is <PyObject *> key:
            return entry
        if entry.hash == hash:
            version = map.version
            other = <object> entry.key
            is_equal = PyObject_RichCompareBool(<PyObject *> other, <PyObject *> key, Py_EQ)
            if map.version != version:
                entry = chain_of(map, hash)[0]
                continue
            if is_equal:
                return entry
        entry = entry.next
    return NULL


cdef inline bint is_in_map(Map *map, KeyEntry *entry, Py_hash_t hash) noexcept:
    """Whether the entry is still there. It may be another key's by now, at the same address; nobody minds."""
    cdef KeyEntry *other = chain_of(map, hash)[0]
    while other is not NULL and other is not entry:
        other = other.next
    return other is not NULL


cdef KeyEntry *find_or_add(Map *map, key, Py_hash_t hash) except NULL:
    global free_entries, free_entry_count
    cdef KeyEntry *entry = find(map, key, hash)
    cdef KeyEntry **chain
    if entry is not NULL:
        return entry
    if map.keys >> map.bits:
        resize(map, map.bits + 1)
    if free_entries is not NULL:
        entry = free_entries
        free_entries = entry.next
        free_entry_count -= 1
    else:
        entry = <KeyEntry *> PyMem_Malloc(sizeof(KeyEntry))
        if entry is NULL:
            raise MemoryError
    Py_INCREF(key)
    entry.key = <PyObject *> key
    entry.hash = hash
    entry.watches = entry.first
    entry.used = 0
    entry.capacity = INLINE
    chain = chain_of(map, hash)
    entry.next = chain[0]
    chain[0] = entry
    map.keys += 1
    map.version += 1
    return entry


cdef int resize(Map *map, int bits) except -1:
    cdef KeyEntry **chains = <KeyEntry **> PyMem_Calloc(<size_t> 1 << bits, sizeof(KeyEntry *))
    cdef KeyEntry **old = map.chains
    cdef KeyEntry **chain
    cdef KeyEntry *entry
    cdef KeyEntry *following
    cdef size_t place, count = <size_t> 1 << map.bits if old is not NULL else 0
    if chains is NULL:
        raise MemoryError
    map.chains = chains
    map.bits = bits
    map.version += 1
    for place in range(count):
        entry = old[place]
        while entry is not NULL:
            following = entry.next
            chain = chain_of(map, entry.hash)
            entry.next = chain[0]
            chain[0] = entry
            entry = following
    PyMem_Free(old)
    return 0


cdef inline void unlink(Map *map, KeyEntry *entry) noexcept:
    """Take an entry out of the map. The caller disposes of it."""
    cdef KeyEntry **place = chain_of(map, entry.hash)
    while place[0] is not entry:
        place = &place[0].next
    place[0] = entry.next
    map.keys -= 1
    map.version += 1


cdef inline void dispose(KeyEntry *entry) noexcept:
    """Free an entry that has no watches and is not in the map. Drops the key, which may run anybody's code: comes last."""
    global free_entries, free_entry_count
    cdef PyObject *key = entry.key
    if entry.watches is not entry.first:
        PyMem_Free(entry.watches)
    if free_entry_count < MOST_FREE:
        entry.next = free_entries
        free_entries = entry
        free_entry_count += 1
    else:
        PyMem_Free(entry)
    Py_DECREF(<object> key)


cdef inline int append(Map *map, KeyEntry *entry, DelayedOperation operation) except -1:
    cdef Watch *watch = operation.watch
    # A key that was named twice: its watch came last.
    if entry.used and entry.watches[entry.used - 1] is watch:
        return 0
    if entry.used == entry.capacity:
        grow(entry)
    if watch.lists == 0:
        Py_INCREF(operation)
    watch.lists += 1
    entry.watches[entry.used] = watch
    entry.used += 1
    map.watches += 1
    return 0


cdef int grow(KeyEntry *entry) except -1:
    cdef bint is_outside = entry.watches is not entry.first
    cdef uint32_t capacity = entry.capacity + entry.capacity // 2 + 1
    cdef Watch **watches = <Watch **> PyMem_Realloc(entry.watches if is_outside else NULL, capacity * sizeof(Watch *))
    if watches is NULL:
        raise MemoryError
    if not is_outside:
        memcpy(watches, entry.first, entry.used * sizeof(Watch *))
    entry.watches = watches
    entry.capacity = capacity
    return 0


cdef inline void drop_empty(Watch *watch) noexcept:
    """One list less holds an empty watch."""
    watch.lists -= 1
    if watch.lists == 0:
        free_watch(watch)


cdef inline uint32_t pack(Map *map, KeyEntry *entry, uint32_t start, uint32_t end) noexcept:
    """Drop the empty watches from `start` to `end`; returns how many there were."""
    cdef uint32_t place, kept = start
    cdef Watch *watch
    for place in range(start, end):
        watch = entry.watches[place]
        if watch.operation is NULL:
            drop_empty(watch)
        else:
            entry.watches[kept] = watch
            kept += 1
    if kept < end:
        if end < entry.used:
            memmove(&entry.watches[kept], &entry.watches[end], (entry.used - end) * sizeof(Watch *))
        entry.used -= end - kept
        map.watches -= end - kept
    return end - kept


cdef int64_t purge_entry(Map *map, KeyEntry *entry) noexcept:
    """Drop an entry's empty watches, a chunk at a time. It may be gone afterwards if it has many."""
    cdef uint32_t start = 0, end, dropped
    cdef int64_t purged = 0
    cdef Py_hash_t hash = entry.hash
    while start < entry.used:
        # A larger chunk for a longer list, since the rest of the list moves up with each.
        end = min(entry.used, start + max(<uint32_t> PURGE_CHUNK, entry.used >> 6))
        dropped = pack(map, entry, start, end)
        purged += dropped
        start = end - dropped
        if start < entry.used:
            let_others_run()
            if not is_in_map(map, entry, hash):
                break
    return purged


cdef inline void let_others_run() noexcept:
    with nogil:
        pass


cdef int append_operations(list found, KeyEntry *entry) except -1:
    cdef uint32_t place
    for place in range(entry.used):
        if entry.watches[place].operation is not NULL:
            found.append(<object> entry.watches[place].operation)
    return 0


cdef void let_go(Map *map, KeyEntry *entry) noexcept:
    """Dispose of an entry that is not in the map, with its watches. Comes last: may run anybody's code."""
    cdef uint32_t place
    cdef Watch *watch
    cdef PyObject *operation
    map.watches -= entry.used
    for place in range(entry.used):
        watch = entry.watches[place]
        operation = watch.operation
        if operation is NULL:
            drop_empty(watch)
        else:
            watch.lists -= 1
            if watch.lists == 0:
                # The operation keeps the watch, and frees it.
                Py_DECREF(<object> operation)
    dispose(entry)


# Purgatory

cdef class Purgatory:
    """Purgatory(name, *, timer=None, clock=None, purge_interval=1000, reaper=True, on_error=None)
--

    Where operations wait for their keys or their time; each is completed exactly once. A context manager.

    Time runs out by itself, on a thread, unless `reaper=False`: then call `advance`, or pass a `timer` that is driven
    elsewhere, such as a `LoopTimer`. Without `timer` the purgatory makes one; each purgatory should have its own.
    """

    cdef dict __dict__
    cdef object __weakref__
    cdef object _name, _timer, _clock
    cdef int64_t _purge_interval
    cdef readonly object _on_error, _owns_timer, _reaper
    cdef public bint _closed
    cdef readonly object _lock
    cdef bint purges_when_watching
    # The timer, where operations can be added to it without a Python call; None otherwise.
    cdef Wheels wheels
    # Whether that timer reads the clock without a Python call, which cannot fail.
    cdef bint has_own_clock
    # A Home, owned. No Python attribute, since the cyclic collector clears those before __dealloc__ can use them.
    cdef PyObject *home
    cdef Map map
    # The operations watched since the last purge, and those that waited then.
    cdef int64_t estimated_total
    cdef int64_t completed, expired, cancelled, purged, waited_ms, late_ms
    cdef int64_t waits[PLACES]
    cdef int64_t lateness[PLACES]

    def __cinit__(self, *args, **kwargs):
        resize(&self.map, LEAST_BITS)
        home = Home.__new__(Home)
        (<Home> home).purgatory = <PyObject *> self
        Py_INCREF(home)
        self.home = <PyObject *> home
        # Until `__init__` has run.
        self._closed = True

    def __init__(self, name, *, timer=None, clock=None, purge_interval=1000, reaper=True, on_error=None):
        self._purge_interval = at_least("purge_interval", purge_interval, 0)
        self._on_error = log_error if on_error is None else on_error
        self._name = name
        self._owns_timer = timer is None
        self._clock, self._timer = clock_and_timer(name, clock, timer, reaper, self._on_error)
        self.purges_when_watching = not reaper and not self._owns_timer
        self._lock = threading.Lock()
        if isinstance(self._timer, Wheels) and type(self._timer).add is Wheels.add and self._timer.clock is self._clock:
            self.wheels = self._timer
            self.has_own_clock = type(self._clock) is SystemClock or type(self._clock) is ManualClock
        self._closed = False
        self._reaper = self._start_reaper() if reaper else None

    def __dealloc__(self):
        cdef size_t place
        cdef KeyEntry *entry
        if self.home is not NULL:
            (<Home> self.home).purgatory = NULL
            Py_DECREF(<Home> self.home)
        if self.map.chains is NULL:
            return
        for place in range(<size_t> 1 << self.map.bits):
            while self.map.chains[place] is not NULL:
                entry = self.map.chains[place]
                unlink(&self.map, entry)
                let_go(&self.map, entry)
        PyMem_Free(self.map.chains)

    @property
    def name(self):
        """The name that statistics, threads and errors show."""
        return self._name

    @property
    def timer(self):
        """Where the clocks of operations run."""
        return self._timer

    @property
    def clock(self):
        """What tells the time."""
        return self._clock

    @property
    def purge_interval(self):
        """How many operations may be estimated to have left watches behind before a purge."""
        return self._purge_interval

    def try_complete_else_watch(self, operation, watch_keys):
        """Complete `operation`, or let it wait for its keys and for its time. True if this call completed it.

        It is tried, put on the list of each key, and tried once more. Any thread may call.
        """
        cdef Py_hash_t few[FEW]
        cdef Py_hash_t *hashes = few
        cdef Py_ssize_t count, place
        if not isinstance(operation, DelayedOperation):
            raise InvalidType(f"operation must be a DelayedOperation, not {type(operation).__name__}: {operation!r}")
        cdef DelayedOperation waiting = <DelayedOperation> operation
        cdef tuple keys = watch_keys if type(watch_keys) is tuple else as_tuple(watch_keys)
        count = len(keys)
        if count == 0:
            raise InvalidArgument("watch_keys must not be empty: nothing could ever complete the operation")
        if count > FEW:
            keys = tuple(dict.fromkeys(keys))
            count = len(keys)
            hashes = <Py_hash_t *> PyMem_Malloc(count * sizeof(Py_hash_t))
            if hashes is NULL:
                raise MemoryError
        try:
            for place in range(count):
                hashes[place] = PyObject_Hash(keys[place])
                fetch(chain_of(&self.map, hashes[place]))
            if self._closed:
                if self._timer is None:
                    raise InvalidArgument(f"{type(self).__name__} was given an operation before its __init__ ran")
                raise Closed(f"the purgatory {self._name!r} is closed; it takes no more operations")
            if waiting.completed:
                return False
            # The keys are looked up after the first try. Until then their entries are in the cache.
            for place in range(count):
                fetch(chain_of(&self.map, hashes[place])[0])
            waiting.home = <Home> self.home
            waiting.taken_out = False
            if try_or_watch(&this_thread, waiting, self, keys, hashes):
                return True
        finally:
            if hashes is not few:
                PyMem_Free(hashes)
        if not waiting.completed:
            start_clock(self, waiting)
        if self.purges_when_watching:
            self._purge_if_worth_it()
        return False

    def check_and_complete(self, key):
        """Try the operations that wait for `key`; returns how many this completed. Any thread may call.

        Inside a callback of an operation the check is put off until that callback has returned, and 0 is returned.
        Hold no lock that a callback takes: see the head of this module.
        """
        cdef Thread *thread = &this_thread
        if thread.busy_with is NULL:
            return check_key(thread, self, key)
        put_off(thread, self, key)
        return 0

    def cancel(self, operation):
        """The same as `operation.cancel()`: take it out without completing it. True if it waited."""
        return operation.cancel()

    def cancel_for_key(self, key):
        """Forget `key` and stop the clocks of the operations that waited for it, without completing; returns them.

        They stay on the lists of their other keys, as in Kafka, and may yet be completed through these.
        """
        cdef list taken = []
        cdef KeyEntry *entry = find(&self.map, key, PyObject_Hash(key))
        if entry is NULL:
            return taken
        append_operations(taken, entry)
        unlink(&self.map, entry)
        let_go(&self.map, entry)
        for operation in taken:
            count_cancelled(<DelayedOperation> operation)
        return taken

    @property
    def watched(self):
        """How many watches all keys have, including those of completed operations until they are checked or purged."""
        return self.map.watches

    @property
    def num_delayed(self):
        """How many operations wait for their time: the size of the timer."""
        return delayed(self)

    def purge(self):
        """Drop the watches that completed operations left behind, and keys without watches; returns how many watches.

        Called by itself when more than `purge_interval` operations are estimated to have left some.
        """
        cdef int64_t purged = 0
        cdef uint32_t seen = 0
        cdef size_t place = 0
        cdef KeyEntry *entry
        cdef KeyEntry *following
        cdef KeyEntry *removed = NULL
        cdef Py_hash_t hash
        self.estimated_total = delayed(self)
        while place < <size_t> 1 << self.map.bits:
            entry = self.map.chains[place]
            while entry is not NULL:
                following = entry.next
                seen += entry.used + 1
                if entry.used > PURGE_CHUNK:
                    # Other threads run meanwhile, and may change this chain or remove the entry.
                    hash = entry.hash
                    purged += purge_entry(&self.map, entry)
                    if not is_in_map(&self.map, entry, hash):
                        break
                    following = entry.next
                else:
                    purged += pack(&self.map, entry, 0, entry.used)
                if entry.used == 0:
                    unlink(&self.map, entry)
                    entry.next = removed
                    removed = entry
                entry = following
            place += 1
            if removed is not NULL:
                dispose_all(removed)
                removed = NULL
            if seen > PURGE_CHUNK:
                seen = 0
                let_others_run()
        if self.map.bits > LEAST_BITS and self.map.keys < <size_t> 1 << (self.map.bits - 3):
            resize(&self.map, self.map.bits - 1)
        self.purged += purged
        return purged

    def statistics(self):
        """A frozen snapshot."""
        cdef int place
        return PurgatoryStatistics(
            name=self._name,
            watched=self.map.watches,
            delayed=delayed(self),
            completed=self.completed,
            expired=self.expired,
            cancelled=self.cancelled,
            purged=self.purged,
            waits=tuple([self.waits[place] for place in range(PLACES)]),
            waited_ms=self.waited_ms,
            lateness=tuple([self.lateness[place] for place in range(PLACES)]),
            late_ms=self.late_ms,
        )

    # These are the readable ones.
    advance = ReadablePurgatory.advance
    wait = ReadablePurgatory.wait
    close = ReadablePurgatory.close
    __enter__ = ReadablePurgatory.__enter__
    __exit__ = ReadablePurgatory.__exit__
    _start_reaper = ReadablePurgatory._start_reaper
    _wake_reaper = ReadablePurgatory._wake_reaper

    def __repr__(self):
        return f"<{type(self).__name__} {self._name!r} delayed={self.num_delayed}>"

    # Inside

    def _operations(self):
        """Each operation that waits, once."""
        # Appending to it cannot run the collector, whose finalizers might change the map under the loop.
        cdef list found = []
        cdef size_t place
        cdef KeyEntry *entry
        for place in range(<size_t> 1 << self.map.bits):
            entry = self.map.chains[place]
            while entry is not NULL:
                append_operations(found, entry)
                entry = entry.next
        return list({id(operation): operation for operation in found}.values())

    def _take_all(self):
        """Forget every key; returns each operation that waited, once."""
        cdef list taken = self._operations()
        cdef KeyEntry *entry
        cdef size_t place = 0
        while place < <size_t> 1 << self.map.bits:
            entry = self.map.chains[place]
            if entry is NULL:
                place += 1
            else:
                unlink(&self.map, entry)
                let_go(&self.map, entry)
        return taken

    def _purge_if_worth_it(self):
        """What was watched since the last purge, and no longer waits for its time, has probably left watches behind."""
        if self.estimated_total - delayed(self) > self._purge_interval:
            self.purge()

    def _check(self):
        """Assert every invariant; for tests, while nothing else runs."""
        cdef KeyEntry *entry
        cdef uint32_t place
        cdef size_t chain
        cdef Watch *watch
        cdef int64_t keys = 0, watches = 0
        held = {}
        for chain in range(<size_t> 1 << self.map.bits):
            entry = self.map.chains[chain]
            while entry is not NULL:
                assert chain_of(&self.map, entry.hash) is &self.map.chains[chain] and hash(<object> entry.key) == entry.hash
                assert entry.used <= entry.capacity
                keys += 1
                watches += entry.used
                for place in range(entry.used):
                    watch = entry.watches[place]
                    held[<size_t> watch] = held.get(<size_t> watch, 0) + 1
                    if watch.operation is not NULL:
                        operation = <DelayedOperation> watch.operation
                        assert not (<DelayedOperation> operation).completed, "a list keeps a completed operation alive"
                        assert (<DelayedOperation> operation).watch is watch, "an operation has another watch than its list"
                entry = entry.next
        assert (keys, watches) == (self.map.keys, self.map.watches), "the map counts wrong"
        for address, count in held.items():
            assert (<Watch *> <size_t> address).lists == count, "a watch counts its lists wrong"


cdef tuple as_tuple(watch_keys):
    if isinstance(watch_keys, (str, bytes)):
        raise InvalidType(f"watch_keys must be a list of keys, not one key: {watch_keys!r}")
    return tuple(watch_keys)


cdef void dispose_all(KeyEntry *entry) noexcept:
    cdef KeyEntry *following
    while entry is not NULL:
        following = entry.next
        dispose(entry)
        entry = following


cdef inline int64_t delayed(Purgatory self) except -1:
    return size_of(self.wheels) if self.wheels is not None else self._timer.size


cdef int watch_keys_of(Purgatory self, DelayedOperation operation, tuple keys, Py_hash_t *hashes) except -1:
    """Put the operation on the list of each key, unless it is completed meanwhile."""
    cdef Py_ssize_t place
    cdef KeyEntry *entry
    if operation.watch is NULL:
        operation.watch = new_watch(operation)
    try:
        for place in range(len(keys)):
            entry = find_or_add(&self.map, keys[place], hashes[place])
            # Completed or cancelled while keys were compared.
            if operation.watch is NULL:
                if entry.used == 0:
                    unlink(&self.map, entry)
                    dispose(entry)
                break
            append(&self.map, entry, operation)
    except BaseException:
        unwatch(operation)
        cancel_task(operation)
        raise
    self.estimated_total += 1
    return 0


cdef int start_clock(Purgatory self, DelayedOperation operation) except -1:
    cdef int64_t now_ms
    try:
        if self.wheels is not None:
            now_ms = start_of(self.wheels)
            operation.started_ms = now_ms
            add_at(self.wheels, operation, later(now_ms, operation.delay), now_ms)
        else:
            operation.started_ms = self._clock.now_ms()
            self._timer.add(operation)
    except BaseException:
        unwatch(operation)
        cancel_task(operation)
        raise
    # Another thread may complete or cancel the operation, or close the purgatory, while the clock is being started.
    if operation.completed or operation.taken_out:
        cancel_task(operation)
    elif self._closed and operation.cancel():
        raise Closed(f"the purgatory {self._name!r} was closed; it takes no more operations")
    return 0


cdef inline int64_t later(int64_t time_ms, int64_t delay_ms) noexcept nogil:
    if delay_ms <= 0:
        return time_ms
    return time_ms + delay_ms if time_ms <= FOREVER_MS - delay_ms else FOREVER_MS


cdef int64_t check_key(Thread *thread, Purgatory self, key) except -1:
    cdef Py_hash_t hash = PyObject_Hash(key)
    cdef KeyEntry *entry = find(&self.map, key, hash)
    cdef PyObject *few[FEW]
    cdef PyObject **operations = few
    cdef uint32_t count = 0, place
    cdef int64_t completed = 0
    if entry is NULL:
        return 0
    if entry.used > FEW:
        operations = <PyObject **> PyMem_Malloc(entry.used * sizeof(PyObject *))
        if operations is NULL:
            raise MemoryError
    # Those that wait now, held by references of our own: callbacks may change the list in any way.
    for place in range(entry.used):
        if entry.watches[place].operation is not NULL:
            operations[count] = entry.watches[place].operation
            # The second cache line of an operation has its lock and what else a try touches.
            fetch(<char *> operations[count] + 64)
            Py_INCREF(<object> operations[count])
            count += 1
    try:
        for place in range(count):
            completed += try_or_watch(thread, <DelayedOperation> operations[place], None, None, NULL)
    finally:
        if is_in_map(&self.map, entry, hash):
            pack(&self.map, entry, 0, entry.used)
            if entry.used == 0:
                unlink(&self.map, entry)
                dispose(entry)
        for place in range(count):
            Py_DECREF(<object> operations[place])
        if operations is not few:
            PyMem_Free(operations)
    return completed


cdef inline void count_settled(Purgatory self, DelayedOperation operation) noexcept:
    cdef int64_t waited_ms = 0, late_ms
    if operation.started_ms != NOT_STARTED:
        waited_ms = max(0, now_or(self, operation.started_ms) - operation.started_ms)
    self.waits[place_of(waited_ms)] += 1
    self.waited_ms += waited_ms
    if operation.expired:
        late_ms = max(0, waited_ms - max(0, operation.delay))
        self.expired += 1
        self.lateness[place_of(late_ms)] += 1
        self.late_ms += late_ms
    else:
        self.completed += 1


cdef inline int64_t now_or(Purgatory self, int64_t otherwise_ms) noexcept:
    """The time; if the clock fails, `otherwise_ms`: that must not keep an operation from its callbacks."""
    # The cyclic collector may have cleared the purgatory already.
    if self.has_own_clock and self.wheels is not None:
        return now_of(self.wheels)
    try:
        return self._clock.now_ms()
    except Exception as error:
        report(self._on_error, error, self._clock)
        return otherwise_ms
