# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""The compiled twin of `operation.py`, `core.py`, `watcher_list.py` and `action_queue.py`.

**The interpreter lock guards the lists.** Appending a watch, packing a list and claiming an operation run no Python code and drop no
last reference, so each is atomic to other threads. Locks are needed where Python code runs in the middle: an operation's, held over its
callbacks, and a shard's, held over the look-up of a key, whose `__hash__` and `__eq__` may be anybody's.

**Watches.** What the lists of all keys of an operation hold is one word-sized pointer to a shared `Watch`. While lists hold it, they
own one reference to the operation together. Completing the operation empties the watch and drops that reference.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject_Hash
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from dwell.purgatory._lock cimport Lock, acquire, release
from dwell.timer._core cimport TimerCore, TimerTask, cancel_task, init_task

from collections import deque

from dwell.errors import Closed, InvalidArgument, InvalidType, log_error
from dwell.purgatory.statistic import PurgatoryStatistics

cdef extern from "Python.h":
    PyObject *type_lookup "_PyType_Lookup"(type operation_class, str name)
    # As declared in Cython it would take a reference first.
    Py_ssize_t reference_count "Py_REFCNT"(PyObject *of)

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define DWELL_PER_THREAD __declspec(thread)
    #else
    #define DWELL_PER_THREAD _Thread_local
    #endif
    /* The operation whose callbacks this thread runs (borrowed); whether it is at work on what callbacks have set off; that. */
    static DWELL_PER_THREAD void *dwell_busy_with = NULL;
    static DWELL_PER_THREAD int dwell_draining = 0;
    static DWELL_PER_THREAD PyObject *dwell_actions = NULL;
    """
    void *dwell_busy_with
    int dwell_draining
    PyObject *dwell_actions

cdef enum:
    SHARDS = 512
    SHARD_SHIFT = 55
    CLASSES = 22
    # A purge lets other threads run after so many places: a list of 340,000 must not stop them for its whole length.
    PURGE_CHUNK = 4096
    # Operations a check can try without allocating.
    FEW = 16
    # Watches a list holds without allocating: most keys have few.
    INLINE = 3

cdef extern from "<stdint.h>":
    const int64_t NOT_STARTED "INT64_MIN"
    const int64_t FOREVER_MS "INT64_MAX"
    const uint64_t MIX "UINT64_C(0x9E3779B97F4A7C15)"


# What callbacks set off

cdef int put_off(first, second) except -1:
    """Keep an action until the callbacks that this thread is in have returned."""
    cdef object actions
    if dwell_actions is NULL:
        actions = deque()
        if dwell_actions is NULL:
            Py_INCREF(actions)
            global_set_actions(<PyObject *> actions)
    (<object> dwell_actions).append((first, second))
    return 0


cdef inline void global_set_actions(PyObject *actions) noexcept:
    global dwell_actions
    dwell_actions = actions


cdef inline bint enter(DelayedOperation operation) noexcept:
    """True if the thread was idle and now is busy with `operation`: then the caller has to `leave`."""
    global dwell_busy_with
    if dwell_busy_with is not NULL:
        return False
    dwell_busy_with = <void *> operation
    return True


cdef inline int leave() except -1:
    global dwell_busy_with
    dwell_busy_with = NULL
    if dwell_actions is not NULL and not dwell_draining:
        drain()
    return 0


cdef int drain() except -1:
    """Run what the callbacks set off, and what that sets off, one after the other."""
    global dwell_draining
    cdef PyObject *empty
    dwell_draining = 1
    try:
        while len(<object> dwell_actions):
            first, second = (<object> dwell_actions).popleft()
            if isinstance(first, DelayedOperation):
                finish(<DelayedOperation> first, second)
            else:
                check_key(<PurgatoryCore> first, second)
    finally:
        dwell_draining = 0
        if not len(<object> dwell_actions):
            empty = dwell_actions
            global_set_actions(NULL)
            Py_XDECREF(empty)
    return 0


# Operations

cdef struct Watch:
    # Borrowed; NULL once the operation is completed or cancelled.
    PyObject *operation
    uint32_t lists


@cython.final
cdef class Home:
    """Leads from an operation to its purgatory without keeping it alive: it owns its operations, not they it."""
    cdef PyObject *core


cdef class DelayedOperation(TimerTask):
    """Subclass it: `try_complete` checks the condition and calls `force_complete`; `on_complete` gives the answer.

    Whatever completes it, an event or the end of its time, and from whichever thread: `on_complete` runs exactly once,
    under the operation's lock, so never while a thread is in `try_complete`. Give `lock` to share one with the state
    that the condition reads. An exception of a callback goes to the purgatory's `on_error`.
    """

    cdef object given_lock
    cdef Home home
    cdef Watch *watch
    # When its clock was started, for the statistics.
    cdef int64_t started_ms
    cdef Lock lock
    cdef bint completed
    # Whether the purgatory has counted it as cancelled since it was last let in.
    cdef bint cancel_counted
    # Known once its callbacks have returned; then the observer, if there is one, is told.
    cdef readonly object _outcome
    cdef public object _observer

    def __init__(self, delay_ms, lock=None):
        init_task(self, delay_ms)
        if type_lookup(type(self), "try_complete") is <PyObject *> NO_CONDITION:
            raise InvalidArgument(f"{type(self).__name__} must override try_complete()")
        self.given_lock = lock
        self.started_ms = NOT_STARTED

    def __dealloc__(self):
        # No list holds it: lists keep their operations alive.
        PyMem_Free(self.watch)

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
        return self.completed

    def force_complete(self):
        """Complete the operation, unless it is. True to the one caller that did it.

        From inside a callback of another operation it is completed at once, and its `on_complete` runs when that
        callback has returned.
        """
        return complete(self, False)

    def safe_try_complete(self):
        """`try_complete` under the lock, unless completed: then False. Waits for the lock: no chance is lost."""
        return safe_try(self, None, None)

    def run(self):
        """The timer's call: time is up."""
        complete(self, True)

    def __repr__(self):
        state = "completed" if self.completed else "waiting" if self.watch is not NULL else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {state}>"


cdef object NO_CONDITION = DelayedOperation.__dict__["try_complete"]


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


cdef bint safe_try(DelayedOperation self, PurgatoryCore purgatory, keys) except -1:
    """Try under the lock; given keys, watch them if that fails and try again in the same hold of the lock."""
    cdef bint outermost = enter(self), done = False
    try:
        take(self)
        try:
            if not self.completed:
                done = attempt(self)
                # A try that returns False may have completed it, and so may anyone while it is being watched.
                if purgatory is not None and not done and not self.completed:
                    watch_keys_of(purgatory, self, keys)
                    done = not self.completed and attempt(self)
        finally:
            give(self)
    finally:
        if outermost:
            leave()
    return done


cdef inline bint attempt(DelayedOperation self) except -1:
    try:
        return self.try_complete()
    except Exception as error:
        report(self, error)
        return False


cdef bint complete(DelayedOperation self, bint expired) except -1:
    global dwell_busy_with
    cdef bint claimed = False
    if self.completed:
        return False
    if dwell_busy_with is <void *> self:
        # Inside its own try_complete, with the lock held.
        claim(self, expired)
        try:
            call_on_complete(self)
            call_on_expiration(self, expired)
        finally:
            settle(self, expired)
    elif dwell_busy_with is NULL:
        dwell_busy_with = <void *> self
        try:
            take(self)
            try:
                if self.completed:
                    return False
                claim(self, expired)
                claimed = True
                call_on_complete(self)
            finally:
                give(self)
            call_on_expiration(self, expired)
        finally:
            if claimed:
                settle(self, expired)
            leave()
    else:
        # Inside a callback of another operation, whose lock is held: waiting for this one's could be a deadlock.
        claim(self, expired)
        put_off(self, expired)
    return True


cdef int finish(DelayedOperation self, bint expired) except -1:
    """The callbacks of an operation that was claimed before."""
    enter(self)
    try:
        take(self)
        try:
            call_on_complete(self)
        finally:
            give(self)
        call_on_expiration(self, expired)
    finally:
        settle(self, expired)
        leave()
    return 0


cdef inline int claim(DelayedOperation self, bint expired) except -1:
    """Make a waiting operation a completed one. The caller has just seen that it is none, and holds a reference."""
    self.completed = True
    cancel_task(self)
    unwatch(self)
    cdef PurgatoryCore purgatory = home_of(self)
    if purgatory is not None:
        count_settled(purgatory, self, expired)
    return 0


cdef inline int call_on_complete(DelayedOperation self) except -1:
    try:
        self.on_complete()
    except Exception as error:
        report(self, error)
    return 0


cdef inline int call_on_expiration(DelayedOperation self, bint expired) except -1:
    if expired:
        try:
            self.on_expiration()
        except Exception as error:
            report(self, error)
    return 0


cdef inline int settle(DelayedOperation self, bint expired) except -1:
    """The callbacks have returned, or were interrupted: there is an outcome, and nobody waits for it longer."""
    self._outcome = "expired" if expired else "completed"
    if self._observer is not None:
        tell_observer(self, self._outcome)
    self.home = None
    return 0


cdef int tell_observer(DelayedOperation self, outcome) except -1:
    observer = self._observer
    self._observer = None
    try:
        if observer is not None:
            observer(outcome)
    except RuntimeError as error:  # its event loop was closed
        report(self, error)
    return 0


cdef inline PurgatoryCore home_of(DelayedOperation self):
    # No references: the purgatory is just going away, and code that runs meanwhile must not bring it back.
    if self.home is None or self.home.core is NULL or reference_count(self.home.core) <= 0:
        return None
    return <PurgatoryCore> self.home.core


cdef int report(DelayedOperation self, error) except -1:
    purgatory = home_of(self)
    if purgatory is None:
        log_error(error, self)
    else:
        purgatory._report(error, self)
    return 0


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
        PyMem_Free(watch)


# Watcher lists

@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class WatcherList:
    """The watches of one key in the order they came."""

    cdef object key
    # NULL is a hole that a purge under way has left; `holes` of `used` are. The first few places are in the object.
    cdef Watch **watches
    cdef Watch *first[INLINE]
    cdef uint32_t used, capacity, holes
    # Counts who began to pack the list, so that a purge notices that the places are no longer its own.
    cdef uint32_t version
    cdef bint in_map

    def __cinit__(self):
        self.watches = self.first
        self.capacity = INLINE

    def __dealloc__(self):
        cdef uint32_t place
        for place in range(self.used):
            if self.watches[place] is not NULL:
                Py_XDECREF(drop(self.watches[place]))
        if self.watches is not self.first:
            PyMem_Free(self.watches)


cdef inline PyObject *drop(Watch *watch) noexcept:
    """One list less holds the watch. Returns the reference to the operation that the lists no longer own, if so."""
    watch.lists -= 1
    if watch.lists:
        return NULL
    if watch.operation is NULL:
        PyMem_Free(watch)
        return NULL
    return watch.operation


cdef inline int append(WatcherList self, DelayedOperation operation) except -1:
    if self.used == self.capacity:
        grow(self)
    if operation.watch.lists == 0:
        Py_INCREF(operation)
    operation.watch.lists += 1
    self.watches[self.used] = operation.watch
    self.used += 1
    return 0


cdef int grow(WatcherList self) except -1:
    cdef bint outside = self.watches is not self.first
    cdef uint32_t capacity = self.capacity + self.capacity // 2 + 1
    cdef Watch **watches = <Watch **> PyMem_Realloc(self.watches if outside else NULL, capacity * sizeof(Watch *))
    if watches is NULL:
        raise MemoryError
    if not outside:
        memcpy(watches, self.first, self.used * sizeof(Watch *))
    self.watches = watches
    self.capacity = capacity
    return 0


cdef inline uint32_t pack(WatcherList self) noexcept:
    """Drop the watches of completed operations; returns how many there were."""
    cdef uint32_t place, kept = 0, dropped = 0
    cdef Watch *watch
    for place in range(self.used):
        watch = self.watches[place]
        if watch is NULL:
            continue
        if watch.operation is NULL:
            drop(watch)
            dropped += 1
        else:
            self.watches[kept] = watch
            kept += 1
    self.used = kept
    self.holes = 0
    self.version += 1
    return dropped


cdef int64_t purge_list(WatcherList self) except -1:
    """Move the living to the front, leaving holes behind that walkers pass over, until the end is reached."""
    cdef uint32_t start = 0, end, place, kept = 0, version
    cdef int64_t purged = 0
    cdef Watch *watch
    if self.used <= PURGE_CHUNK:
        return pack(self)
    self.version += 1
    version = self.version
    while self.version == version:
        end = min(start + PURGE_CHUNK, self.used)
        for place in range(start, end):
            watch = self.watches[place]
            self.watches[place] = NULL
            if watch is NULL:
                continue
            if watch.operation is NULL:
                drop(watch)
                purged += 1
            else:
                self.watches[kept] = watch
                kept += 1
        start = end
        self.holes = end - kept
        if end == self.used:
            self.used = kept
            self.holes = 0
            break
        let_others_run()
    return purged


cdef inline void let_others_run() noexcept:
    with nogil:
        pass


@cython.final
cdef class Shard:
    """One of the parts of the map: a lock, and the lists of the keys that hash to it.

    The lock is held over the look-up of a key, whose `__hash__` and `__eq__` may be anybody's code, and may use the shard again:
    every look into the map allows for a change during the last comparison.
    """

    cdef dict lists
    cdef Lock lock


cdef inline WatcherList find(Shard self, key):
    """The key's list, or None."""
    cdef PyObject *found
    acquire(&self.lock)
    try:
        found = PyDict_GetItemWithError(self.lists, key)
        return None if found is NULL else <WatcherList> found
    finally:
        release(&self.lock)


cdef inline int add_watch(Shard self, key, DelayedOperation operation) except -1:
    cdef PyObject *found
    cdef WatcherList watchers
    acquire(&self.lock)
    try:
        found = PyDict_GetItemWithError(self.lists, key)
        if found is NULL:
            watchers = WatcherList.__new__(WatcherList)
            watchers.key = key
            watchers.in_map = True
            watchers = <WatcherList> self.lists.setdefault(key, watchers)
        else:
            watchers = <WatcherList> found
        # Completed or cancelled while somebody's __eq__ ran.
        if operation.watch is not NULL:
            append(watchers, operation)
    finally:
        release(&self.lock)
    return 0


cdef int remove_if_empty(Shard self, WatcherList watchers) except -1:
    acquire(&self.lock)
    try:
        # It may have been taken away, and another put in its place, or have been added to again.
        if watchers.used == 0 and watchers.in_map:
            del self.lists[watchers.key]
            watchers.in_map = False
    finally:
        release(&self.lock)
    return 0


cdef list take_operations(WatcherList self):
    """Empty a list that was taken out of the map; returns who waited on it."""
    cdef list taken = living(self)
    cdef uint32_t place, used = self.used
    self.used = 0
    self.holes = 0
    self.version += 1
    for place in range(used):
        if self.watches[place] is not NULL:
            # `taken` has references of its own.
            Py_XDECREF(drop(self.watches[place]))
    return taken


cdef list living(WatcherList self):
    cdef uint32_t place
    cdef list found = []
    for place in range(self.used):
        if self.watches[place] is not NULL and self.watches[place].operation is not NULL:
            found.append(<object> self.watches[place].operation)
    return found


# Purgatory

cdef class PurgatoryCore:
    """Lock order: an operation's lock, then a shard's. Of user code only `__eq__` and `__hash__` of keys run under the latter."""

    cdef readonly str name
    cdef readonly object timer, clock
    cdef readonly int64_t purge_interval
    cdef public bint _closed
    cdef public bint _purges_when_watching
    # The timer, where operations can be added to it without a Python call; None otherwise.
    cdef TimerCore timer_core
    # A Home, owned. No Python attribute, since the cyclic collector clears those before __dealloc__ can use them.
    cdef PyObject *home
    cdef list shards
    cdef int64_t estimated_total, completed, expired, cancelled, purged, waited_ms, late_ms
    cdef int64_t waits[CLASSES]
    cdef int64_t lateness[CLASSES]

    def __init__(self, str name, timer, clock, int64_t purge_interval):
        self.name = name
        self.timer = timer
        self.clock = clock
        self.purge_interval = purge_interval
        if isinstance(timer, TimerCore) and type(timer).add is TimerCore.add and timer.clock is clock:
            self.timer_core = timer
        home = Home.__new__(Home)
        (<Home> home).core = <PyObject *> self
        Py_INCREF(home)
        self.home = <PyObject *> home
        self.shards = []
        cdef Shard shard
        for _ in range(SHARDS):
            shard = Shard.__new__(Shard)
            shard.lists = {}
            self.shards.append(shard)

    def __dealloc__(self):
        if self.home is not NULL:
            (<Home> self.home).core = NULL
            Py_DECREF(<Home> self.home)

    def try_complete_else_watch(self, operation, watch_keys):
        """Complete `operation`, or let it wait for its keys and for its time. True if this call completed it.

        It is tried once, then watched on every key, then tried once more: the condition may have come true before it
        was on all lists, and whoever made it true has not seen it there. Any thread may call.
        """
        if not isinstance(operation, DelayedOperation):
            raise InvalidType(f"watch takes a DelayedOperation, not {type(operation).__name__}: {operation!r}")
        cdef DelayedOperation waiting = <DelayedOperation> operation
        keys = unique(watch_keys)
        if self._closed:
            raise Closed(f"the purgatory {self.name!r} is closed; it takes no more operations")
        if waiting.completed:
            return False
        waiting.home = <Home> self.home
        waiting.cancel_counted = False
        if safe_try(waiting, self, keys):
            return True
        if not waiting.completed:
            start_timer(self, waiting)
        if self._purges_when_watching:
            self._purge_if_worth_it()
        return False

    def check_and_complete(self, key):
        """Try what waits for `key`; returns how many operations this completed. Any thread may call.

        From inside a callback of an operation the check is put off until that callback has returned, and 0 is returned.
        """
        if dwell_busy_with is NULL:
            return check_key(self, key)
        put_off(self, key)
        return 0

    def cancel_for_key(self, key):
        """Take away the key's list and stop the clocks of those on it, without completing them; returns them.

        They stay on the lists of their other keys, as in Kafka, and may yet be completed through these.
        """
        cdef Shard shard = shard_of(self, key)
        cdef WatcherList watchers
        acquire(&shard.lock)
        try:
            watchers = shard.lists.pop(key, None)
            if watchers is not None:
                watchers.in_map = False
        finally:
            release(&shard.lock)
        if watchers is None:
            return []
        taken = take_operations(watchers)
        for operation in taken:
            self._cancelled_one(operation)
        return taken

    def cancel(self, DelayedOperation operation not None):
        """Take `operation` out without completing it: its clock stops, no key knows it any more. True if it waited."""
        if operation.completed or operation.watch is NULL:
            return False
        unwatch(operation)
        self._cancelled_one(operation)
        return True

    @property
    def watched(self):
        """How many watches the lists of all keys hold, also of completed operations until walked or purged. O(keys)."""
        cdef int64_t count = 0
        cdef WatcherList watchers
        for watchers in self._lists():
            count += watchers.used - watchers.holes
        return count

    @property
    def num_delayed(self):
        """How many operations wait for their time: the size of the timer."""
        return delayed(self)

    def purge(self):
        """Drop what completed operations left on the lists, and keys nobody watches; returns how many watches went."""
        cdef int64_t purged = 0, seen = 0
        cdef Shard shard
        cdef WatcherList watchers
        self.estimated_total = delayed(self)
        for shard in self.shards:
            for watchers in lists_of(shard):
                seen += watchers.used
                purged += purge_list(watchers)
                if watchers.used == 0:
                    remove_if_empty(shard, watchers)
            if seen > PURGE_CHUNK:
                seen = 0
                let_others_run()
        self.purged += purged
        return purged

    def statistics(self):
        """A frozen snapshot. O(keys)."""
        cdef int place
        return PurgatoryStatistics(
            name=self.name,
            watched=self.watched,
            delayed=delayed(self),
            completed=self.completed,
            expired=self.expired,
            cancelled=self.cancelled,
            purged=self.purged,
            waits=tuple([self.waits[place] for place in range(CLASSES)]),
            waited_ms=self.waited_ms,
            lateness=tuple([self.lateness[place] for place in range(CLASSES)]),
            late_ms=self.late_ms,
        )

    # Called by the driver

    def _purge_if_worth_it(self):
        """What was watched since the last purge, and no longer waits for its time, has probably left watches behind."""
        if self.estimated_total - delayed(self) > self.purge_interval:
            self.purge()

    def _take_all(self):
        """Everything that waits, taken off all lists."""
        cdef Shard shard
        cdef WatcherList watchers
        cdef dict lists
        cdef dict taken = {}
        for shard in self.shards:
            acquire(&shard.lock)
            lists, shard.lists = shard.lists, {}
            for watchers in lists.values():
                watchers.in_map = False
            release(&shard.lock)
            for watchers in lists.values():
                for operation in take_operations(watchers):
                    taken[id(operation)] = operation
        return list(taken.values())

    def _stop_clocks(self):
        """Take everything that waits out of the timer, but not off its keys."""
        cdef WatcherList watchers
        for watchers in self._lists():
            for operation in living(watchers):
                cancel_task(<DelayedOperation> operation)

    def _cancelled_one(self, DelayedOperation operation not None):
        cancel_task(operation)
        # By each of its keys, and once more by itself: it is one operation.
        self.cancelled += not operation.cancel_counted
        operation.cancel_counted = True
        tell_observer(operation, "cancelled")

    def _report(self, error, source):
        """User code raised; the driver tells the handler."""

    def _lists(self):
        cdef Shard shard
        cdef list lists = []
        for shard in self.shards:
            lists.extend(lists_of(shard))
        return lists

    def _check(self):
        """Assert every invariant; for tests, while nothing else runs."""
        cdef Shard shard
        cdef WatcherList watchers
        cdef uint32_t place
        cdef Watch *watch
        held = {}
        for shard in self.shards:
            assert shard.lock.owner == 0 and shard.lock.waiters is NULL
            for key, watchers in shard.lists.items():
                assert shard_of(self, key) is shard and watchers.key is key and watchers.in_map
                assert watchers.holes == 0 and watchers.used <= watchers.capacity
                for place in range(watchers.used):
                    watch = watchers.watches[place]
                    assert watch is not NULL, "a purge left a hole"
                    held[<size_t> watch] = held.get(<size_t> watch, 0) + 1
                    if watch.operation is not NULL:
                        operation = <DelayedOperation> watch.operation
                        assert not (<DelayedOperation> operation).completed, "a list keeps a completed operation alive"
                        assert (<DelayedOperation> operation).watch is watch
        for address, count in held.items():
            assert (<Watch *> <size_t> address).lists == count, "a watch counts its lists wrong"


cdef object unique(watch_keys):
    """The keys as a list or tuple without repeats, or an error."""
    cdef Py_ssize_t count, i, j
    cdef Py_hash_t hashes[4]
    if type(watch_keys) is not list and type(watch_keys) is not tuple:
        if isinstance(watch_keys, (str, bytes)):
            raise InvalidType(f"watch_keys must be a list of keys, not one key: {watch_keys!r}")
        watch_keys = tuple(watch_keys)
    count = len(watch_keys)
    if count == 0:
        raise InvalidArgument("watch_keys must not be empty: nothing could ever complete the operation")
    if count > 4:
        return list(dict.fromkeys(watch_keys))
    for i in range(count):
        hashes[i] = PyObject_Hash(watch_keys[i])
        for j in range(i):
            if hashes[i] == hashes[j]:
                return list(dict.fromkeys(watch_keys))
    return watch_keys


cdef inline Shard shard_of(PurgatoryCore self, key):
    # Mixed: a shard whose keys agree in the low bits of their hashes would be a dictionary full of collisions.
    return <Shard> self.shards[(<uint64_t> PyObject_Hash(key) * MIX) >> SHARD_SHIFT]


cdef inline list lists_of(Shard self):
    acquire(&self.lock)
    try:
        return list(self.lists.values())
    finally:
        release(&self.lock)


cdef inline int64_t delayed(PurgatoryCore self) except -1:
    return self.timer_core.pending if self.timer_core is not None else self.timer.size


cdef int watch_keys_of(PurgatoryCore self, DelayedOperation operation, keys) except -1:
    if operation.completed:
        return 0
    if operation.watch is NULL:
        operation.watch = <Watch *> PyMem_Malloc(sizeof(Watch))
        if operation.watch is NULL:
            raise MemoryError
        operation.watch.operation = <PyObject *> operation
        operation.watch.lists = 0
    try:
        for key in keys:
            if operation.completed:
                break
            add_watch(shard_of(self, key), key, operation)
    except BaseException:  # the `__eq__` of a key
        unwatch(operation)
        cancel_task(operation)
        raise
    self.estimated_total += 1
    return 0


cdef int start_timer(PurgatoryCore self, DelayedOperation operation) except -1:
    cdef int64_t now_ms
    try:
        if self.timer_core is not None:
            now_ms = self.timer_core.start()
            operation.started_ms = now_ms
            self.timer_core.add_at(operation, later(now_ms, operation.delay_ms), now_ms)
        else:
            operation.started_ms = self.clock.now_ms()
            self.timer.add(operation)
    except BaseException:
        unwatch(operation)
        cancel_task(operation)
        raise
    if operation.completed:
        cancel_task(operation)
    elif self._closed and self.cancel(operation):
        raise Closed(f"the purgatory {self.name!r} was closed; it takes no more operations")
    return 0


cdef inline int64_t later(int64_t time_ms, int64_t delay_ms) noexcept nogil:
    if delay_ms <= 0:
        return time_ms
    return time_ms + delay_ms if time_ms <= FOREVER_MS - delay_ms else FOREVER_MS


cdef int64_t check_key(PurgatoryCore self, key) except -1:
    cdef Shard shard = shard_of(self, key)
    cdef WatcherList watchers = find(shard, key)
    cdef PyObject *few[FEW]
    cdef PyObject **operations = few
    cdef uint32_t count = 0, place
    cdef int64_t completed = 0
    if watchers is None:
        return 0
    pack(watchers)
    if watchers.used > FEW:
        operations = <PyObject **> PyMem_Malloc(watchers.used * sizeof(PyObject *))
        if operations is NULL:
            raise MemoryError
    # Who waits now, held by references of our own: callbacks may change the list at will.
    count = watchers.used
    for place in range(count):
        operations[place] = watchers.watches[place].operation
        Py_INCREF(<object> operations[place])
    try:
        for place in range(count):
            completed += safe_try(<DelayedOperation> operations[place], None, None)
    finally:
        pack(watchers)
        if watchers.used == 0:
            remove_if_empty(shard, watchers)
        for place in range(count):
            Py_DECREF(<object> operations[place])
        if operations is not few:
            PyMem_Free(operations)
    return completed


cdef inline int count_settled(PurgatoryCore self, DelayedOperation operation, bint expired) except -1:
    cdef int64_t waited_ms = 0, late_ms
    if operation.started_ms != NOT_STARTED:
        waited_ms = self.timer_core.now() if self.timer_core is not None else self.clock.now_ms()
        waited_ms = max(0, waited_ms - operation.started_ms)
    self.waits[place_of(waited_ms)] += 1
    self.waited_ms += waited_ms
    if expired:
        late_ms = max(0, waited_ms - max(0, operation.delay_ms))
        self.expired += 1
        self.lateness[place_of(late_ms)] += 1
        self.late_ms += late_ms
    else:
        self.completed += 1
    return 0


cdef inline int place_of(int64_t ms) noexcept:
    cdef int bits = 0
    while ms and bits < CLASSES - 1:
        ms >>= 1
        bits += 1
    return bits
