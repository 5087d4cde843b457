# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of the ledger: `engine.py` and what it uses, `ledger.py`, `ticket.py` and `replay.py`.

Those files tell how it works; here stands what differs, for speed and memory:

- Rows are read as the tuples they are. A row without any fault is recognised here; every other row goes to
  `admission.py`, which knows the reasons.
- An operation holds no dictionary. Which needs are met follows from two counts and the last key, unless there are three
  needs or more (`Terms.met`). What few operations have (a quorum, a volume) stands in `Terms`.
- A key that one operation waits for, by a signal, and of which nothing else is known, has no `KeyState`: the operation
  itself stands in its place among the keys.
- Op_ids are in a hash table of their own (`OpIds`).
- A heap is an array of (rank, operation), without an object per entry.
- `await` makes neither a future nor a generator: `Awaiting` is as much of a future as a task needs.
- Operations, keys, tickets and what awaits are unknown to the cyclic collector. Only waiters can form a reference cycle;
  the outcome breaks it, and so does closing the ledger unless it leaves them waiting.
"""

import asyncio
import inspect
import threading
from collections import deque
from functools import partial
from operator import itemgetter

cimport cython
from cpython.long cimport PyLong_AsLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from dwell._c.clock cimport monotonic_ns
from dwell._c.lock cimport Lock, acquire, release

from dwell.clock import SystemClock
from dwell.contract.columns import CANCELLED, COMPLETED, EXPIRED, PENDING, REJECTED
from dwell.contract.order import content, order
from dwell.contract.reason import Reason
from dwell.contract.time_range import AFTER_ALL, BEFORE_ALL, MAX_MS, MIN_MS, is_usable_time
from dwell.errors import Closed, Full, InvalidArgument, InvalidType, log_error
from dwell.ledger.admission import check_event, fault, is_usable_event, plain_needs, plain_number, plain_text, retention
from dwell.ledger.explanation import Explanation, NeedState
from dwell.ledger.ledger import KEY_RETENTION_MS, MAX_OPEN, OP_RETENTION_MS
from dwell.ledger.ledger import Ledger as ReadableLedger
from dwell.ledger.notify import Notifier
from dwell.ledger.replay import Replay as ReadableReplay
from dwell.ledger.row import Event, Need, Outcome, Wait
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.ticket import Ticket as ReadableTicket
from dwell.reaper import POLL_MS, Reaper


cdef extern from *:
    """
    /* Fields of rows by their place, borrowed. */
    #define dwell_field(row, place) PyTuple_GET_ITEM(row, place)
    #define dwell_is(one, other) ((PyObject *)(one) == (PyObject *)(other))

    /* 1 and the number if this is an int, no subclass, of 64 bits. Never raises. */
    static inline int dwell_int64(PyObject *number, long long *value) {
        int overflow;
        if (!PyLong_CheckExact(number)) return 0;
        *value = PyLong_AsLongLongAndOverflow(number, &overflow);
        return !overflow;
    }

    /* Rows of a long list lie scattered in memory. Ask for those a few places ahead, so that they are in the cache when
       their turn comes: first the row, then what it refers to, then what that refers to. */
    #if defined(__GNUC__)
    #define dwell_ask(object) __builtin_prefetch((const char *)(object))
    #else
    #define dwell_ask(object)
    #endif

    static inline void dwell_ask_for_event(PyObject *rows, Py_ssize_t place) {
        Py_ssize_t count = PyList_GET_SIZE(rows);
        PyObject *row;
        if (place + 16 < count) dwell_ask((char *)PyList_GET_ITEM(rows, place + 16) + 16);
        if (place + 8 < count) {
            row = PyList_GET_ITEM(rows, place + 8);
            dwell_ask(PyTuple_GET_ITEM(row, 0));
            dwell_ask(PyTuple_GET_ITEM(row, 1));
            dwell_ask(PyTuple_GET_ITEM(row, 2));
        }
    }

    static inline void dwell_ask_for_wait(PyObject *rows, Py_ssize_t place) {
        Py_ssize_t count = PyList_GET_SIZE(rows), i, needs_count;
        PyObject *row, *needs, *need;
        if (place + 16 < count) dwell_ask((char *)PyList_GET_ITEM(rows, place + 16) + 32);
        if (place + 12 < count) {
            row = PyList_GET_ITEM(rows, place + 12);
            dwell_ask(PyTuple_GET_ITEM(row, 0));
            dwell_ask(PyTuple_GET_ITEM(row, 1));
            dwell_ask(PyTuple_GET_ITEM(row, 2));
            dwell_ask(PyTuple_GET_ITEM(row, 3));
        }
        if (place + 8 < count) {
            needs = PyTuple_GET_ITEM(PyList_GET_ITEM(rows, place + 8), 1);
            if (PyTuple_CheckExact(needs)) {
                needs_count = PyTuple_GET_SIZE(needs);
                for (i = 0; i < needs_count && i < 4; i++) dwell_ask(PyTuple_GET_ITEM(needs, i));
            }
        }
        if (place + 4 < count) {
            needs = PyTuple_GET_ITEM(PyList_GET_ITEM(rows, place + 4), 1);
            if (PyTuple_CheckExact(needs)) {
                needs_count = PyTuple_GET_SIZE(needs);
                for (i = 0; i < needs_count && i < 4; i++) {
                    need = PyTuple_GET_ITEM(needs, i);
                    if (PyTuple_Check(need) && PyTuple_GET_SIZE(need) == 2) {
                        dwell_ask(PyTuple_GET_ITEM(need, 0));
                        dwell_ask(PyTuple_GET_ITEM(need, 1));
                    }
                }
            }
        }
    }

    static inline PyObject *dwell_outcome(PyObject *row_type, PyObject *op_id, PyObject *outcome, long long finished_at_ms,
                                          long long waited_ms, PyObject *completed_by) {
        PyObject *row = ((PyTypeObject *)row_type)->tp_alloc((PyTypeObject *)row_type, 6);
        PyObject *finished_at, *waited;
        if (row == NULL) return NULL;
        finished_at = PyLong_FromLongLong(finished_at_ms);
        waited = PyLong_FromLongLong(waited_ms);
        PyTuple_SET_ITEM(row, 0, Py_NewRef(op_id));
        PyTuple_SET_ITEM(row, 1, Py_NewRef(outcome));
        PyTuple_SET_ITEM(row, 2, finished_at);
        PyTuple_SET_ITEM(row, 3, waited);
        PyTuple_SET_ITEM(row, 4, Py_NewRef(completed_by));
        PyTuple_SET_ITEM(row, 5, Py_NewRef(Py_None));
        if (finished_at == NULL || waited == NULL) {
            Py_DECREF(row);
            return NULL;
        }
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)row)->ob_hash = -1;
    #endif
        /* Strings and integers form no cycle: millions of rows need not be visited by the cyclic collector. */
        if (PyUnicode_CheckExact(op_id) && (completed_by == Py_None || PyUnicode_CheckExact(completed_by)))
            PyObject_GC_UnTrack(row);
        return row;
    }
    """
    PyObject *field "dwell_field"(PyObject *row, Py_ssize_t place)
    void ask_for_event "dwell_ask_for_event"(PyObject *rows, Py_ssize_t place)
    void ask_for_wait "dwell_ask_for_wait"(PyObject *rows, Py_ssize_t place)
    bint int64 "dwell_int64"(PyObject *number, long long *value)
    object make_outcome "dwell_outcome"(
        object row_type, object op_id, object outcome, long long finished_at_ms, long long waited_ms, object completed_by
    )

cdef extern from "stdlib.h":
    void qsort(void *entries, size_t count, size_t size, int (*compare)(const void *, const void *) noexcept)

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *dictionary, PyObject *key) except? NULL
    PyObject *PyDict_SetDefault(PyObject *dictionary, PyObject *key, PyObject *value) except NULL
    int PyDict_DelItem(PyObject *dictionary, PyObject *key) except -1
    int PyDict_SetItem(PyObject *dictionary, PyObject *key, PyObject *value) except -1
    Py_hash_t PyObject_Hash(PyObject *value) except? -1
    bint PyUnicode_CheckExact(PyObject *value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text)
    int PyUnicode_Compare(PyObject *one, PyObject *other) except? -1
    bint PyTuple_CheckExact(PyObject *value)
    bint PyList_CheckExact(PyObject *value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *value)
    Py_ssize_t PyList_GET_SIZE(PyObject *value)
    PyObject *PyTuple_GET_ITEM(PyObject *value, Py_ssize_t place)
    PyObject *PyList_GET_ITEM(PyObject *value, Py_ssize_t place)
    int PyList_SetSlice(PyObject *value, Py_ssize_t low, Py_ssize_t high, PyObject *items) except -1
    PyObject *Py_None
    PyTypeObject *Py_TYPE(PyObject *value)


# The contract's range of times, as numbers of C.
cdef long long FIRST_MS = MIN_MS
cdef long long LAST_MS = MAX_MS
cdef long long BEFORE = BEFORE_ALL
cdef long long AFTER = AFTER_ALL

# As in `heap.py`.
cdef enum:
    TOLERATED = 16

# The needs of a row are compared with each other one by one up to this number, beyond it by `admission.py`.
cdef enum:
    FEW = 8

# What became of an operation: its place in NAMES.
cdef enum State:
    IS_WAITING
    IS_COMPLETED
    IS_EXPIRED
    IS_REJECTED
    IS_CANCELLED
    IS_PENDING

# Looked up once.
cdef type NEED = Need
cdef type WAIT = Wait
cdef type EVENT = Event
cdef type OUTCOME = Outcome

cdef tuple NAMES = (None, COMPLETED, EXPIRED, REJECTED, CANCELLED, PENDING)

# No event can bring a level of 2**63 or more. A volume that waits for such a level at a key is counted among its pins.
cdef object UNREACHABLE = 2**63

# The places of fields in a Wait, a Need and an Event.
cdef enum:
    OP_ID = 0
    NEEDS = 1
    DELAY_MS = 2
    SUBMITTED_AT_MS = 3
    QUORUM = 4
    VOLUME = 5
    NEED_KEY = 0
    NEED_LEVEL = 1
    EVENT_KEY = 0
    EVENT_AT_MS = 1
    EVENT_LEVEL = 2


# -- operations


@cython.final
@cython.no_gc
cdef class Terms:
    """What few operations have."""

    cdef object quorum
    cdef object volume
    # With a volume: by need the level its key is watched for, None where it is not watched.
    cdef list thresholds
    # Since when each need is met, once two are met and some are not.
    cdef list met


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Operation:
    """One operation, from admission to what became of it. State only; the engine decides."""

    cdef readonly object op_id
    cdef readonly tuple needs
    cdef readonly long long submitted_at_ms
    cdef readonly long long deadline_ms
    # In the order of admission.
    cdef readonly long long number
    # While it waits: when a need was last met. Afterwards: when it was settled.
    cdef long long at_ms
    # While it waits, or is completed: the smallest key met then. If it is rejected: the reason.
    cdef object by
    cdef Terms terms
    # None, the only waiter, or a dict of waiters in their order.
    cdef object _waiters
    # How many more needs must be met for completion, and how many are not met; unused with a volume.
    cdef int missing
    cdef int unmet
    cdef unsigned char state
    # The condition holds: it completes at the end of the instant.
    cdef unsigned char is_ripe
    # It has an entry among the deadlines.
    cdef unsigned char is_queued

    @property
    def outcome(self) -> str | None:
        return NAMES[self.state]

    @property
    def quorum(self) -> int | None:
        return None if self.terms is None else self.terms.quorum

    @property
    def volume(self) -> int | None:
        return None if self.terms is None else self.terms.volume

    @property
    def waiters(self) -> dict[object, None]:
        if self._waiters is None:
            return {}
        return dict(self._waiters) if isinstance(self._waiters, dict) else {self._waiters: None}

    @property
    def watched(self) -> dict[str, int | None]:
        """Where it still waits: by key the level, None for a signal."""
        cdef Py_ssize_t i
        if self.state != IS_WAITING:
            return {}
        if has_volume(self):
            return {self.needs[i][0]: level for i, level in enumerate(self.terms.thresholds) if level is not None}
        return {need[0]: need[1] for i, need in enumerate(self.needs) if met_since(self, i) is None}

    def row(self) -> Outcome:
        """What became of it."""
        return outcome_of(self)


cdef inline bint has_volume(Operation op) noexcept:
    return op.terms is not None and op.terms.thresholds is not None


cdef Operation make_operation(op_id, long long number):
    cdef Operation op = Operation.__new__(Operation)
    op.op_id = op_id
    op.number = number
    op.submitted_at_ms = op.deadline_ms = op.at_ms = BEFORE
    return op


cdef tuple row_of(Operation op):
    """What was asked for."""
    return (op.op_id, op.needs, op.deadline_ms - op.submitted_at_ms, op.submitted_at_ms, op.quorum, op.volume)


cdef outcome_of(Operation op):
    if op.state == IS_REJECTED:
        return Outcome(op.op_id, REJECTED, reason=op.by)
    if op.state == IS_PENDING:
        return Outcome(op.op_id, PENDING)
    return make_outcome(OUTCOME, op.op_id, NAMES[op.state], op.at_ms, op.at_ms - op.submitted_at_ms, op.by)


cdef inline PyObject *key_of(Operation op, Py_ssize_t place) noexcept:
    return field(PyTuple_GET_ITEM(<PyObject *> op.needs, place), NEED_KEY)


cdef inline PyObject *level_of(Operation op, Py_ssize_t place) noexcept:
    return field(PyTuple_GET_ITEM(<PyObject *> op.needs, place), NEED_LEVEL)


cdef inline Py_ssize_t count_needs(Operation op) noexcept:
    return PyTuple_GET_SIZE(<PyObject *> op.needs)


cdef inline bint is_same(PyObject *one, PyObject *other) except -1:
    """Whether two plain strings are equal."""
    if one == other:
        return True
    return <str> one == <str> other


cdef Py_ssize_t place_of(Operation op, PyObject *name) except -1:
    """Which of the needs is the one at this key."""
    cdef Py_ssize_t i
    for i in range(count_needs(op)):
        if is_same(key_of(op, i), name):
            return i
    raise LookupError(<object> name)


cdef met_since(Operation op, Py_ssize_t place):
    """Since when this need is met, None if it is not; unused with a volume."""
    if op.terms is not None and op.terms.met is not None:
        return op.terms.met[place]
    # At most one is met, so it is the one met last.
    if op.unmet < count_needs(op) and op.by is not None and is_same(key_of(op, place), <PyObject *> op.by):
        return op.at_ms
    return None


cdef inline Terms terms_of(Operation op):
    if op.terms is None:
        op.terms = Terms.__new__(Terms)
    return op.terms


# -- heaps


cdef struct Entry:
    long long rank
    # A reference of its own.
    PyObject *operation


cdef struct Heap:
    Entry *entries
    Py_ssize_t count
    Py_ssize_t capacity
    Py_ssize_t dead


cdef inline bint precedes(Entry *one, Entry *other) noexcept:
    if one.rank != other.rank:
        return one.rank < other.rank
    return (<Operation> one.operation).number < (<Operation> other.operation).number


cdef int compare(const void *one, const void *other) noexcept:
    if precedes(<Entry *> one, <Entry *> other):
        return -1
    return precedes(<Entry *> other, <Entry *> one)


cdef inline void rise_to_place(Entry *entries, Py_ssize_t place, Entry entry) noexcept:
    cdef Py_ssize_t parent
    while place > 0:
        parent = (place - 1) >> 1
        if not precedes(&entry, &entries[parent]):
            break
        entries[place] = entries[parent]
        place = parent
    entries[place] = entry


cdef inline void sink_to_place(Entry *entries, Py_ssize_t count, Py_ssize_t place, Entry entry) noexcept:
    cdef Py_ssize_t child = 2 * place + 1
    while child < count:
        if child + 1 < count and precedes(&entries[child + 1], &entries[child]):
            child += 1
        if not precedes(&entries[child], &entry):
            break
        entries[place] = entries[child]
        place = child
        child = 2 * place + 1
    entries[place] = entry


cdef int resize(Heap *heap, Py_ssize_t capacity) except -1:
    cdef Entry *entries = <Entry *> PyMem_Realloc(heap.entries, capacity * sizeof(Entry))
    if entries is NULL:
        raise MemoryError
    heap.entries = entries
    heap.capacity = capacity
    return 0


cdef inline int push(Heap *heap, long long rank, Operation op) except -1:
    cdef Entry entry
    if heap.count == heap.capacity:
        resize(heap, heap.capacity + (heap.capacity >> 1) + 2)
    Py_INCREF(op)
    entry.rank = rank
    entry.operation = <PyObject *> op
    rise_to_place(heap.entries, heap.count, entry)
    heap.count += 1
    return 0


cdef inline Operation pop(Heap *heap):
    """Take out the first entry, dead or alive."""
    cdef Operation first = <Operation> heap.entries[0].operation
    heap.count -= 1
    if heap.count:
        sink_to_place(heap.entries, heap.count, 0, heap.entries[heap.count])
    # The entry's own reference; `first` has another.
    Py_DECREF(first)
    return first


cdef inline bint is_alive(Entry *entry, PyObject *name) except -1:
    """Whether the entry is of use, at this key or, without one, among the deadlines."""
    cdef Operation op = <Operation> entry.operation
    if op.state != IS_WAITING:
        return False
    if name is NULL or not has_volume(op):
        return True
    # The threshold of a volume may have moved.
    threshold = op.terms.thresholds[place_of(op, name)]
    return threshold is not None and threshold == entry.rank


cdef inline int bury(Heap *heap, PyObject *name) except -1:
    """Count one more entry as dead."""
    heap.dead += 1
    if 2 * heap.dead > heap.count + TOLERATED:
        drop_dead(heap, name)
    return 0


cdef int drop_dead(Heap *heap, PyObject *name) except -1:
    cdef Entry *entries = heap.entries
    cdef Entry entry
    cdef Py_ssize_t i = 0, count = heap.count, kept = 0, gone = count
    # The living to the front, the dead to the back; these are dropped when the heap is whole again.
    while i < gone:
        if is_alive(&entries[i], name):
            i += 1
        else:
            gone -= 1
            entry = entries[i]
            entries[i] = entries[gone]
            entries[gone] = entry
    kept = gone
    if name is NULL:
        for i in range(kept // 2 - 1, -1, -1):
            sink_to_place(entries, kept, i, entries[i])
    else:
        # A sorted array is a heap, too. A threshold that came back is there twice, and one of the two is dead.
        qsort(entries, kept, sizeof(Entry), compare)
        kept = 0
        for i in range(gone):
            if kept and entries[kept - 1].rank == entries[i].rank and entries[kept - 1].operation == entries[i].operation:
                continue
            entry = entries[kept]
            entries[kept] = entries[i]
            entries[i] = entry
            kept += 1
    heap.count = kept
    heap.dead = 0
    for i in range(kept, count):
        Py_DECREF(<object> entries[i].operation)
    if heap.capacity > 4 * kept + 64:
        resize(heap, 2 * kept + 2)
    return 0


cdef void free_heap(Heap *heap) noexcept:
    cdef Py_ssize_t i
    for i in range(heap.count):
        Py_DECREF(<object> heap.entries[i].operation)
    PyMem_Free(heap.entries)


# -- op_ids


cdef struct Slot:
    Py_hash_t hash
    # A reference of its own; NULL if the slot is free.
    PyObject *operation


cdef struct OpIds:
    # Operations by op_id: a hash table with linear probing, at most two thirds full. A dict of strings keeps no hashes,
    # so that each probe reads a string somewhere in memory: with 100,000 op_ids, lookups were 24 % of live time.
    Slot *slots
    # How many slots there are, a power of two, and how many are taken.
    Py_ssize_t capacity
    Py_ssize_t count


cdef inline Py_ssize_t find_slot(OpIds *op_ids, PyObject *op_id, Py_hash_t hash) except -1:
    """The slot of this op_id, or the free one where it belongs. There must be slots."""
    cdef Py_ssize_t mask = op_ids.capacity - 1
    cdef Py_ssize_t i = hash & mask
    while op_ids.slots[i].operation is not NULL:
        if op_ids.slots[i].hash == hash:
            if is_same(<PyObject *> (<Operation> op_ids.slots[i].operation).op_id, op_id):
                return i
        i = (i + 1) & mask
    return i


cdef int rebuild(OpIds *op_ids, Py_ssize_t capacity) except -1:
    cdef OpIds rebuilt
    cdef Py_ssize_t i, j
    rebuilt.capacity = capacity
    rebuilt.count = op_ids.count
    rebuilt.slots = <Slot *> PyMem_Calloc(capacity, sizeof(Slot))
    if rebuilt.slots is NULL:
        raise MemoryError
    for i in range(op_ids.capacity):
        if op_ids.slots[i].operation is not NULL:
            j = op_ids.slots[i].hash & (capacity - 1)
            while rebuilt.slots[j].operation is not NULL:
                j = (j + 1) & (capacity - 1)
            rebuilt.slots[j] = op_ids.slots[i]
    PyMem_Free(op_ids.slots)
    op_ids[0] = rebuilt
    return 0


cdef inline int make_room(OpIds *op_ids) except -1:
    """Have room for one more."""
    if 3 * (op_ids.count + 1) > 2 * op_ids.capacity:
        rebuild(op_ids, 2 * op_ids.capacity if op_ids.capacity else 8)
    return 0


cdef Operation find_operation(OpIds *op_ids, PyObject *op_id):
    if op_ids.capacity == 0:
        return None
    cdef Py_ssize_t i = find_slot(op_ids, op_id, PyObject_Hash(op_id))
    return None if op_ids.slots[i].operation is NULL else <Operation> op_ids.slots[i].operation


cdef int remove_operation(OpIds *op_ids, Operation op) except -1:
    """Free its slot, and move those behind it that would no longer be found."""
    cdef Py_ssize_t mask = op_ids.capacity - 1
    cdef Py_ssize_t free = find_slot(op_ids, <PyObject *> op.op_id, PyObject_Hash(<PyObject *> op.op_id))
    cdef Py_ssize_t i = free, home
    cdef PyObject *removed = op_ids.slots[free].operation
    while True:
        i = (i + 1) & mask
        if op_ids.slots[i].operation is NULL:
            break
        home = op_ids.slots[i].hash & mask
        # Not if it lies between its home and this place, seen around the end of the table.
        if (i - home) & mask >= (i - free) & mask:
            op_ids.slots[free] = op_ids.slots[i]
            free = i
    op_ids.slots[free].operation = NULL
    op_ids.count -= 1
    Py_DECREF(<object> removed)
    if op_ids.capacity > 64 and 8 * op_ids.count < op_ids.capacity:
        rebuild(op_ids, op_ids.capacity >> 1)
    return 0


cdef list list_operations(OpIds *op_ids):
    cdef Py_ssize_t i
    return [
        <Operation> op_ids.slots[i].operation for i in range(op_ids.capacity) if op_ids.slots[i].operation is not NULL
    ]


cdef void free_op_ids(OpIds *op_ids) noexcept:
    cdef Py_ssize_t i
    for i in range(op_ids.capacity):
        if op_ids.slots[i].operation is not NULL:
            Py_DECREF(<object> op_ids.slots[i].operation)
    PyMem_Free(op_ids.slots)


# -- keys


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class KeyState:
    """What is known of a key, and who waits for it."""

    cdef str name
    cdef long long level
    cdef long long rose_at_ms
    cdef long long seen_at_ms
    cdef Heap levels
    # Who waits for the next event: the first, and the others.
    cdef Operation signal
    cdef list signals
    # How many of these no longer wait.
    cdef int dead
    # Volumes that count on the level but wait for no greater one.
    cdef int pins
    cdef bint has_level

    def __dealloc__(self):
        free_heap(&self.levels)


cdef KeyState make_key(name):
    cdef KeyState key = KeyState.__new__(KeyState)
    key.name = name
    key.rose_at_ms = key.seen_at_ms = BEFORE
    return key


cdef inline Py_ssize_t count_signals(KeyState key) noexcept:
    if key.signal is None:
        return 0
    return 1 if key.signals is None else 1 + PyList_GET_SIZE(<PyObject *> key.signals)


cdef inline bint is_idle(KeyState key) noexcept:
    return key.pins == 0 and key.levels.count == key.levels.dead and count_signals(key) == key.dead


cdef int watch_signal(KeyState key, Operation op) except -1:
    if key.signal is None:
        key.signal = op
    elif key.signals is None:
        key.signals = [op]
    else:
        key.signals.append(op)
    return 0


cdef int bury_signal(KeyState key) except -1:
    """Count one more who waits for the next event as dead; where these outnumber the living keep only the living."""
    cdef Operation op
    cdef list living
    key.dead += 1
    if 2 * key.dead > count_signals(key) + TOLERATED:
        living = [op for op in (key.signal, *(key.signals or ())) if op.state == IS_WAITING]
        key.signal = living[0] if living else None
        key.signals = living[1:] or None
        key.dead = 0
    return 0


# -- the engine


@cython.final
cdef class Engine:
    """Decides outcomes: see `engine.py`."""

    cdef readonly long long now_ms
    cdef public list settled
    cdef readonly long long opened
    cdef readonly long long completed
    cdef readonly long long expired
    cdef readonly long long rejected
    cdef readonly long long cancelled
    cdef readonly long long pending
    cdef readonly long long repeated
    cdef readonly long long recorded
    cdef public long long set_aside
    # By name a KeyState, or the one operation that waits for the next event.
    cdef readonly dict keys
    # The operation that counts under each op_id, and the rejected ones by op_id and content, the oldest first.
    cdef OpIds op_ids
    cdef dict _rejected
    cdef Heap deadlines
    cdef list _ripe
    cdef bint _forgets_keys
    cdef bint _forgets_op_ids
    cdef long long _key_retention_ms
    cdef long long _op_retention_ms
    # (when to look whether it is stale, key)
    cdef object _levelled
    # Settled operations, the oldest first; those forgotten are None.
    cdef list _past
    cdef Py_ssize_t _forgotten

    def __init__(self, key_retention_ms: int | None = None, op_retention_ms: int | None = None) -> None:
        key_retention_ms = retention(key_retention_ms, "key_retention_ms")
        op_retention_ms = retention(op_retention_ms, "op_retention_ms")
        self.now_ms = BEFORE
        self.settled = []
        self.keys = {}
        self._rejected = {}
        self._ripe = []
        self._forgets_keys = key_retention_ms is not None
        self._forgets_op_ids = op_retention_ms is not None
        self._key_retention_ms = key_retention_ms or 0
        self._op_retention_ms = op_retention_ms or 0
        self._levelled = deque()
        self._past = []

    def __dealloc__(self):
        free_heap(&self.deadlines)
        free_op_ids(&self.op_ids)

    # -- time

    cpdef at(self, long long now_ms):
        if now_ms > self.now_ms:
            if self.deadlines.count and self.deadlines.entries[0].rank < now_ms:
                self.expire(now_ms - 1)
            self.now_ms = now_ms
            if self._forgets_keys and self._levelled:
                self._forget_keys()
            if self._forgets_op_ids:
                self._forget_op_ids()

    def next_deadline_ms(self) -> int | None:
        return self.deadlines.entries[0].rank if self.deadlines.count else None

    cdef _forget_keys(self):
        cdef KeyState key
        while self._levelled and self._levelled[0][0] < self.now_ms:
            key = self._levelled.popleft()[1]
            if self.keys.get(key.name) is key:
                if self._is_stale(key):
                    del self.keys[key.name]
                else:
                    self._levelled.append((self.now_ms + self._key_retention_ms, key))

    cdef inline bint _is_stale(self, KeyState key) noexcept:
        return (
            self._forgets_keys
            and key.has_level
            and key.seen_at_ms + self._key_retention_ms < self.now_ms
            and is_idle(key)
        )

    cdef _forget_op_ids(self):
        cdef Operation op
        cdef list past = self._past
        cdef dict rejected
        while self._forgotten < len(past):
            op = past[self._forgotten]
            if op.at_ms + self._op_retention_ms >= self.now_ms:
                break
            past[self._forgotten] = None
            self._forgotten += 1
            if op.state != IS_REJECTED:
                remove_operation(&self.op_ids, op)
            else:
                rejected = self._rejected[op.op_id]
                del rejected[next(iter(rejected))]
                if not rejected:
                    del self._rejected[op.op_id]
        if self._forgotten > TOLERATED and 2 * self._forgotten > len(past):
            del past[: self._forgotten]
            self._forgotten = 0

    # -- operations

    cpdef Operation open(self, wait):
        cdef PyObject *row = <PyObject *> wait
        cdef bint is_new = False
        cdef Operation op = self._admit(
            field(row, OP_ID),
            field(row, NEEDS),
            field(row, DELAY_MS),
            field(row, SUBMITTED_AT_MS),
            field(row, QUORUM),
            field(row, VOLUME),
            &is_new,
        )
        if is_new:
            self._start(op)
        return op

    cpdef open_later(self, wait):
        cdef PyObject *row = <PyObject *> wait
        cdef bint is_new = False
        cdef Operation op = self._admit(
            field(row, OP_ID),
            field(row, NEEDS),
            field(row, DELAY_MS),
            field(row, SUBMITTED_AT_MS),
            field(row, QUORUM),
            field(row, VOLUME),
            &is_new,
        )
        if is_new:
            self._leave_pending(op)

    cdef Operation _admit(
        self,
        PyObject *op_id,
        PyObject *needs,
        PyObject *delay,
        PyObject *submitted_at,
        PyObject *quorum,
        PyObject *volume,
        bint *is_new,
    ):
        """Judge a row. Without a time of submission (NULL) it is submitted now."""
        cdef long long submitted_at_ms = self.now_ms, delay_ms = 0
        if (
            (submitted_at is NULL or int64(submitted_at, &submitted_at_ms))
            and FIRST_MS <= submitted_at_ms <= LAST_MS
            and int64(delay, &delay_ms)
            and 0 <= delay_ms <= LAST_MS - submitted_at_ms
            and PyUnicode_CheckExact(op_id)
            and PyUnicode_GET_LENGTH(op_id) > 0
            and is_sound(needs, quorum, volume)
        ):
            return self._enrol(op_id, needs, delay_ms, submitted_at_ms, quorum, volume, is_new)
        # It may have a fault, or is of an unusual kind.
        submitted = self.now_ms if submitted_at is NULL else <object> submitted_at
        row = (<object> op_id, <object> needs, <object> delay, submitted, <object> quorum, <object> volume)
        reason = fault(*row)
        if reason is not None:
            return self._reject(row, reason)
        text, plain = plain_text(<object> op_id), plain_needs(<object> needs)
        return self._enrol(
            <PyObject *> text, <PyObject *> plain, <object> delay, submitted, quorum, volume, is_new
        )

    cdef Operation _enrol(
        self,
        PyObject *op_id,
        PyObject *needs,
        long long delay_ms,
        long long submitted_at_ms,
        PyObject *quorum,
        PyObject *volume,
        bint *is_new,
    ):
        """Take in a row without a fault of its own, unless its op_id is known."""
        cdef Operation op = make_operation(<object> op_id, self.opened)
        cdef Terms terms
        cdef Slot *slot
        cdef Py_hash_t hash = PyObject_Hash(op_id)
        op.needs = <tuple> needs if PyTuple_CheckExact(needs) else tuple(<object> needs)
        op.submitted_at_ms = submitted_at_ms
        op.deadline_ms = submitted_at_ms + delay_ms
        op.missing = op.unmet = <int> count_needs(op)
        if quorum != Py_None:
            op.missing = <object> quorum
            terms_of(op).quorum = <object> quorum
        elif volume != Py_None:
            terms = terms_of(op)
            terms.volume = <object> volume
            terms.thresholds = [None] * count_needs(op)
        make_room(&self.op_ids)
        slot = &self.op_ids.slots[find_slot(&self.op_ids, op_id, hash)]
        if slot.operation is not NULL:
            return self._repeat(<Operation> slot.operation, op)
        Py_INCREF(op)
        slot.operation = <PyObject *> op
        slot.hash = hash
        self.op_ids.count += 1
        self.opened += 1
        self.pending += 1
        is_new[0] = True
        return op

    cdef int _start(self, Operation op) except -1:
        if has_volume(op):
            self._watch_volume(op)
        else:
            self._watch_needs(op)
        if not op.is_ripe:
            push(&self.deadlines, op.deadline_ms, op)
            op.is_queued = True
        return 0

    cdef Operation _repeat(self, Operation first, Operation op):
        """A row under an op_id that is known: the same operation, or rejected."""
        row = row_of(op)
        if content(row) == content(row_of(first)):
            self.repeated += 1
            return first
        return self._reject(row, Reason.CONTENT_DIFFERS.text(first.op_id))

    cdef Operation _reject(self, row, str reason):
        cdef Operation op = make_operation(row[OP_ID], self.opened)
        cdef dict rejected
        op.at_ms = self.now_ms
        if op.op_id:
            op.op_id = plain_text(op.op_id)
            try:
                same = content(row)
                hash(same)
                rejected = self._rejected.setdefault(op.op_id, {})
                if same in rejected:
                    self.repeated += 1
                    return rejected[same]
            except (TypeError, ValueError):
                raise InvalidType(f"needs, quorum or volume is of a wrong kind: {row!r}") from None
            rejected[same] = op
            if self._forgets_op_ids:
                self._past.append(op)
        op.state = IS_REJECTED
        op.by = reason
        self.opened += 1
        self.rejected += 1
        self.settled.append(op)
        return op

    cdef int _watch_needs(self, Operation op) except -1:
        cdef Py_ssize_t i
        cdef PyObject *name
        cdef PyObject *asked
        cdef long long level
        cdef KeyState key
        for i in range(count_needs(op)):
            name = key_of(op, i)
            asked = level_of(op, i)
            if asked == Py_None:
                self._watch_signal(name, op)
                continue
            level = PyLong_AsLongLong(<object> asked)
            key = self._key(name)
            if key.has_level and key.level >= level:
                self._meet(op, <PyObject *> key.name)
            else:
                push(&key.levels, level, op)
        return 0

    cdef inline int _watch_signal(self, PyObject *name, Operation op) except -1:
        cdef PyObject *found = PyDict_SetDefault(<PyObject *> self.keys, name, <PyObject *> op)
        if found != <PyObject *> op:
            watch_signal(self._key(name), op)
        return 0

    cdef KeyState _known_key(self, PyObject *name):
        """The key, unless nothing counts that is known of it: then None."""
        cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> self.keys, name)
        if found is NULL or not isinstance(<object> found, KeyState) or self._is_stale(<KeyState> found):
            return None
        return <KeyState> found

    cdef KeyState _key(self, PyObject *name):
        cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> self.keys, name)
        cdef KeyState key
        if found is not NULL and isinstance(<object> found, KeyState) and not self._is_stale(<KeyState> found):
            return <KeyState> found
        key = make_key(<object> name)
        if found is not NULL and isinstance(<object> found, Operation):
            key.signal = <Operation> found
        PyDict_SetItem(<PyObject *> self.keys, name, <PyObject *> key)
        return key

    cpdef cancel(self, Operation op):
        if op.state == IS_WAITING:
            self._finish(op, IS_CANCELLED, self.now_ms)

    # -- events

    cpdef record(self, name, level):
        self._record(<PyObject *> name, <PyObject *> level)

    cdef int _record(self, PyObject *name, PyObject *level) except -1:
        cdef PyObject *found
        cdef KeyState key
        cdef Operation op
        cdef long long number = 0
        self.recorded += 1
        if not PyUnicode_CheckExact(name):
            text = plain_text(<object> name)
            name = <PyObject *> text
        found = PyDict_GetItemWithError(<PyObject *> self.keys, name)
        if found is not NULL and isinstance(<object> found, Operation):
            op = <Operation> found
            PyDict_DelItem(<PyObject *> self.keys, name)
            self._meet(op, name)
            found = NULL
        if found is NULL:
            if level == Py_None:
                return 0
            key = self._key(name)
        else:
            key = <KeyState> found
            if self._is_stale(key):
                if level == Py_None:
                    PyDict_DelItem(<PyObject *> self.keys, name)
                    return 0
                key = self._key(name)
        key.seen_at_ms = self.now_ms
        if key.signal is not None:
            self._signal(key)
        if level != Py_None:
            if not int64(level, &number):
                number = plain_number(<object> level)
            self._rise(key, number)
        self._drop_if_unknown(key)
        return 0

    cdef int _signal(self, KeyState key) except -1:
        cdef Operation op = key.signal
        cdef list others = key.signals
        key.signal = None
        key.signals = None
        key.dead = 0
        if op.state == IS_WAITING:
            self._meet(op, <PyObject *> key.name)
        if others is not None:
            for op in others:
                if op.state == IS_WAITING:
                    self._meet(op, <PyObject *> key.name)
        return 0

    cdef int _rise(self, KeyState key, long long level) except -1:
        cdef Operation op
        cdef Heap *levels = &key.levels
        cdef Py_ssize_t place
        cdef long long threshold
        if not key.has_level:
            key.has_level = True
            if self._forgets_keys:
                self._levelled.append((self.now_ms + self._key_retention_ms, key))
        elif level <= key.level:
            return 0
        key.level = level
        key.rose_at_ms = self.now_ms
        while levels.count and levels.entries[0].rank <= level:
            threshold = levels.entries[0].rank
            op = pop(levels)
            if op.state != IS_WAITING:
                levels.dead -= 1
            elif not has_volume(op):
                self._meet(op, <PyObject *> key.name)
            else:
                place = place_of(op, <PyObject *> key.name)
                if op.terms.thresholds[place] != threshold:
                    levels.dead -= 1
                    continue
                op.terms.thresholds[place] = None
                if not op.is_ripe:
                    self._watch_volume(op)
        # What was alive has left; the dead may now be more than half.
        if 2 * levels.dead > levels.count + TOLERATED:
            drop_dead(levels, <PyObject *> key.name)
        return 0

    cdef int _meet(self, Operation op, PyObject *name) except -1:
        op.missing -= 1
        op.unmet -= 1
        if op.unmet > 0 and op.unmet + 1 < count_needs(op):
            self._note_met(op, name)
        if op.at_ms != self.now_ms or op.by is None:
            op.at_ms = self.now_ms
            op.by = <object> name
        elif PyUnicode_Compare(name, <PyObject *> op.by) < 0:
            op.by = <object> name
        if op.missing <= 0 and not op.is_ripe:
            op.is_ripe = True
            self._ripe.append(op)
        return 0

    cdef int _note_met(self, Operation op, PyObject *name) except -1:
        """Of the second need met, and those after it, the operation has to remember when."""
        cdef Terms terms = terms_of(op)
        cdef list met
        if terms.met is None:
            met = [None] * count_needs(op)
            met[place_of(op, <PyObject *> op.by)] = op.at_ms
            terms.met = met
        terms.met[place_of(op, name)] = self.now_ms
        return 0

    cdef int _watch_volume(self, Operation op) except -1:
        cdef list thresholds = op.terms.thresholds
        cdef KeyState key
        cdef Py_ssize_t i
        missing = op.terms.volume
        levels = []
        for need in op.needs:
            key = self._known_key(<PyObject *> need[NEED_KEY])
            base = need[NEED_LEVEL]
            level = base if key is None or not key.has_level or key.level < base else key.level
            levels.append(level)
            missing -= level - base
        if missing <= 0:
            op.is_ripe = True
            self._ripe.append(op)
            return 0
        # With every key below its threshold the sum has grown by at most k * (share - 1) <= missing - 1.
        share = 1 + (missing - 1) // len(levels)
        for i in range(len(levels)):
            threshold = min(levels[i] + share, UNREACHABLE)
            if threshold != thresholds[i]:
                key = self._key(key_of(op, i))
                before, thresholds[i] = thresholds[i], None
                self._unwatch_level(key, before)
                thresholds[i] = threshold
                if threshold < UNREACHABLE:
                    push(&key.levels, threshold, op)
                else:
                    key.pins += 1
        return 0

    cdef int _unwatch_level(self, KeyState key, threshold) except -1:
        if threshold is not None:
            if threshold < UNREACHABLE:
                bury(&key.levels, <PyObject *> key.name)
            else:
                key.pins -= 1
        return 0

    # -- outcomes

    cpdef settle(self):
        cdef Operation op
        cdef Py_ssize_t i = 0
        cdef list ripe = self._ripe
        if PyList_GET_SIZE(<PyObject *> ripe):
            while i < PyList_GET_SIZE(<PyObject *> ripe):
                op = <Operation> PyList_GET_ITEM(<PyObject *> ripe, i)
                if op.state == IS_WAITING:
                    self._finish(op, IS_COMPLETED, self.now_ms)
                i += 1
            PyList_SetSlice(<PyObject *> ripe, 0, i, NULL)

    cpdef expire(self, long long last_ms):
        cdef Operation op
        cdef Heap *deadlines = &self.deadlines
        while deadlines.count and deadlines.entries[0].rank <= last_ms:
            op = pop(deadlines)
            if op.state != IS_WAITING:
                deadlines.dead -= 1
                continue
            op.is_queued = False
            if op.deadline_ms > self.now_ms:
                self.now_ms = op.deadline_ms
            self._finish(op, IS_EXPIRED, op.deadline_ms)
        if 2 * deadlines.dead > deadlines.count + TOLERATED:
            drop_dead(deadlines, NULL)

    cpdef list waiting(self):
        cdef Py_ssize_t i
        cdef Operation op
        found = []
        for i in range(self.deadlines.count):
            op = <Operation> self.deadlines.entries[i].operation
            if op.state == IS_WAITING:
                found.append((op.deadline_ms, op.number, op))
        return [entry[2] for entry in sorted(found)]

    cpdef suspend(self):
        for op in self.waiting():
            self._leave_pending(op)

    cdef _leave_pending(self, Operation op):
        op.state = IS_PENDING
        self.settled.append(op)

    cdef int _finish(self, Operation op, unsigned char state, long long finished_at_ms) except -1:
        by = None
        if state == IS_COMPLETED:
            self.completed += 1
            by = self._last_to_rise(op) if has_volume(op) else op.by
        elif state == IS_EXPIRED:
            self.expired += 1
        else:
            self.cancelled += 1
        self.pending -= 1
        op.state = state
        if op.unmet > 0 or has_volume(op):
            self._leave_keys(op)
        op.at_ms = finished_at_ms
        op.by = by
        if op.is_queued:
            op.is_queued = False
            bury(&self.deadlines, NULL)
        if self._forgets_op_ids:
            self._past.append(op)
        self.settled.append(op)
        return 0

    cdef _last_to_rise(self, Operation op):
        """Of the keys that contribute to the volume the one whose level rose last, of several the smallest."""
        cdef KeyState key
        cdef long long last_ms = BEFORE
        last = None
        for need in op.needs:
            key = self._known_key(<PyObject *> need[NEED_KEY])
            if key is None or not key.has_level or key.level <= need[NEED_LEVEL]:
                continue
            if key.rose_at_ms > last_ms or (key.rose_at_ms == last_ms and (last is None or key.name < last)):
                last_ms = key.rose_at_ms
                last = key.name
        return last

    cdef int _leave_keys(self, Operation op) except -1:
        """Give up the places that the operation, now settled, still has at keys."""
        cdef Py_ssize_t i
        cdef PyObject *name
        cdef PyObject *found
        cdef KeyState key
        cdef bint with_volume = has_volume(op)
        for i in range(count_needs(op)):
            name = key_of(op, i)
            if with_volume:
                if op.terms.thresholds[i] is None:
                    continue
            elif met_since(op, i) is not None:
                continue
            found = PyDict_GetItemWithError(<PyObject *> self.keys, name)
            if found == <PyObject *> op:
                PyDict_DelItem(<PyObject *> self.keys, name)
                continue
            if found is NULL or not isinstance(<object> found, KeyState):
                # Memory ran out before the operation was watched here.
                continue
            key = <KeyState> found
            if with_volume:
                self._unwatch_level(key, op.terms.thresholds[i])
            elif level_of(op, i) == Py_None:
                bury_signal(key)
            else:
                bury(&key.levels, name)
            self._drop_if_unknown(key)
        if op.terms is not None:
            op.terms.met = None
            op.terms.thresholds = None
        return 0

    cdef inline int _drop_if_unknown(self, KeyState key) except -1:
        """A key without level and without waiters is as good as one never heard of."""
        if not key.has_level and is_idle(key):
            del self.keys[key.name]
        return 0

    # -- for people

    cpdef statistics(self):
        return LedgerStatistics(
            opened=self.opened,
            completed=self.completed,
            expired=self.expired,
            rejected=self.rejected,
            cancelled=self.cancelled,
            pending=self.pending,
            repeated=self.repeated,
            recorded=self.recorded,
            set_aside=self.set_aside,
            keys=len(self.keys),
            operations=self.op_ids.count,
        )

    cpdef explain(self, op_id):
        cdef Operation op = None
        cdef KeyState key
        cdef Py_ssize_t i
        if isinstance(op_id, str):
            op_id = plain_text(op_id)
            op = find_operation(&self.op_ids, <PyObject *> op_id)
        if op is None or op.state != IS_WAITING:
            return None
        needs = []
        reached = 0
        for i, (name, level) in enumerate(op.needs):
            key = self._known_key(<PyObject *> name)
            key_level = None if key is None or not key.has_level else key.level
            if has_volume(op):
                excess = 0 if key_level is None else max(0, key_level - level)
                since_ms = key.rose_at_ms if excess else None
                reached += excess
            else:
                since_ms = met_since(op, i)
            needs.append(NeedState(key=name, level=level, key_level=key_level, met_since_ms=since_ms))
        return Explanation(
            op_id=op_id,
            submitted_at_ms=op.submitted_at_ms,
            deadline_ms=op.deadline_ms,
            needs=tuple(needs),
            required=None if has_volume(op) else op.quorum or len(op.needs),
            volume=op.volume,
            volume_reached=reached if has_volume(op) else None,
        )

    def _check(self):
        """As in `engine.py`."""
        cdef Operation op
        cdef KeyState key
        settled = self.completed + self.expired + self.rejected + self.cancelled
        assert self.opened == settled + self.pending
        waiting = [op for op in list_operations(&self.op_ids) if op.state == IS_WAITING]
        assert len(waiting) == self.pending == len(self.waiting())
        expected = dict.fromkeys(self.keys, 0)
        pins = dict.fromkeys(self.keys, 0)
        deadlines = entries_of(&self.deadlines)
        for op in waiting:
            assert (op.deadline_ms, op.number) in deadlines
            for name, level in op.watched.items():
                if self.keys[name] is op:
                    assert level is None
                    expected[name] += 1
                    continue
                key = self.keys[name]
                if level is not None and level >= UNREACHABLE:
                    pins[name] += 1
                    continue
                expected[name] += 1
                if level is None:
                    assert op is key.signal or op in key.signals
                else:
                    assert (level, op.number) in entries_of(&key.levels)
                    assert not key.has_level or level > key.level
        for name, state in self.keys.items():
            if isinstance(state, Operation):
                assert expected[name] == 1
                continue
            key = state
            alive = count_signals(key) - key.dead + key.levels.count - key.levels.dead
            assert alive == expected[name]
            assert key.pins == pins[name]
            assert 0 <= 2 * key.dead <= count_signals(key) + TOLERATED
            assert key.has_level or alive + key.pins > 0
            assert is_idle(key) == (alive + key.pins == 0)
            check_heap(&key.levels)
        check_heap(&self.deadlines)
        assert self.deadlines.count - self.deadlines.dead == self.pending


cdef list entries_of(Heap *heap):
    cdef Py_ssize_t i
    return [(heap.entries[i].rank, (<Operation> heap.entries[i].operation).number) for i in range(heap.count)]


cdef check_heap(Heap *heap):
    ranks = entries_of(heap)
    assert all([ranks[(place - 1) // 2] <= ranks[place] for place in range(1, len(ranks))])
    assert 0 <= 2 * heap.dead <= len(ranks) + TOLERATED


cdef bint is_sound(PyObject *needs, PyObject *quorum, PyObject *volume) except -1:
    """Whether needs, quorum and volume are plain and without a fault. If not, they may still be."""
    cdef bint is_tuple = PyTuple_CheckExact(needs)
    cdef bint needs_levels = volume != Py_None
    cdef Py_ssize_t count, i, j
    cdef PyObject *names[FEW]
    cdef PyObject *need
    cdef PyObject *level
    cdef long long number = 0
    if not is_tuple and not PyList_CheckExact(needs):
        return False
    count = PyTuple_GET_SIZE(needs) if is_tuple else PyList_GET_SIZE(needs)
    if not 1 <= count <= FEW:
        return False
    for i in range(count):
        need = PyTuple_GET_ITEM(needs, i) if is_tuple else PyList_GET_ITEM(needs, i)
        if Py_TYPE(need) != <PyTypeObject *> NEED:
            return False
        names[i] = field(need, NEED_KEY)
        level = field(need, NEED_LEVEL)
        if not PyUnicode_CheckExact(names[i]):
            return False
        if level == Py_None:
            if needs_levels:
                return False
        elif not int64(level, &number):
            return False
        for j in range(i):
            if is_same(names[j], names[i]):
                return False
    if quorum != Py_None:
        if needs_levels or not int64(quorum, &number) or not 1 <= number <= count:
            return False
    return not needs_levels or (int64(volume, &number) and number > 0)


# -- those who wait for an outcome


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Awaiting:
    """One `await` of a ticket. Used by the thread of its loop, but for `loop`, which is set before it is shared."""

    cdef Ledger _ledger
    cdef Operation _operation
    cdef object loop
    # Wakes the task.
    cdef object _callback
    cdef object _context
    # Of whoever cancelled.
    cdef object _message
    cdef bint _is_woken
    cdef bint _is_cancelled
    # By this name a task knows a future, and whether it was awaited.
    cdef public bint _asyncio_future_blocking

    # -- for the coroutine that awaits

    def __iter__(self):
        return self

    def __next__(self):
        cdef Operation op = self._operation
        if op.state == IS_WAITING:
            self.loop = get_running_loop()
            if self._ledger._add_waiter(op, self):
                self._asyncio_future_blocking = True
                return self
        raise StopIteration(outcome_of(op))

    def send(self, _value):
        """Mirrors `generator.send()`."""
        return self.__next__()

    def throw(self, kind, value=None, _traceback=None):
        """Mirrors `generator.throw()`."""
        self.close()
        if isinstance(kind, BaseException):
            raise kind
        if isinstance(value, BaseException):
            raise value
        raise kind

    def close(self):
        self._forget()
        self._ledger._remove_waiter(self._operation, self)

    # -- for its task

    def get_loop(self):
        return self.loop

    def add_done_callback(self, callback, *, context=None):
        self._callback = callback
        self._context = context
        if self._is_woken:
            self._wake()

    def cancel(self, msg=None):
        """Cancelling the task leaves the wait open."""
        if self._callback is None:
            return False
        self._ledger._remove_waiter(self._operation, self)
        self._is_cancelled = True
        self._message = msg
        self._wake()
        return True

    def result(self):
        if self._is_cancelled:
            raise asyncio.CancelledError() if self._message is None else asyncio.CancelledError(self._message)

    # -- for the ledger

    cdef int _wake(self) except -1:
        callback, context = self._callback, self._context
        self._forget()
        self._is_woken = True
        if callback is not None:
            self.loop.call_soon(callback, self, context=context)
        return 0

    cdef inline void _forget(self) noexcept:
        """Nobody awaits any more. Breaks the cycle of task and future."""
        self._callback = self._context = None


cdef object get_running_loop = asyncio.get_running_loop
cdef object running_loop = asyncio._get_running_loop


def wake_all(list awaiting):
    cdef Awaiting one
    for one in awaiting:
        one._wake()


cdef wake(dict awaiting):
    cdef Awaiting one
    running = running_loop()
    for loop, waiting in awaiting.items():
        if loop is running:
            wake_all(waiting)
        else:
            try:
                loop.call_soon_threadsafe(wake_all, waiting)
            except RuntimeError:
                # The loop was closed.
                for one in waiting:
                    one._forget()


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Ticket:
    """One open wait. Block for its outcome in a thread, `await` it in asyncio, or cancel it; from any thread, any
    number of times, by any number of waiters.
    """

    __signature__ = inspect.signature(ReadableTicket)

    cdef Ledger _ledger
    cdef readonly Operation _operation

    def __init__(self, Ledger ledger not None, Operation operation not None):
        self._ledger = ledger
        self._operation = operation

    @property
    def op_id(self) -> str | None:
        return self._operation.op_id

    @property
    def outcome(self) -> Outcome | None:
        """The outcome, None while the operation waits."""
        return None if self._operation.state == IS_WAITING else outcome_of(self._operation)

    def result(self, timeout: float | None = None) -> Outcome:
        """Block until there is an outcome. After `timeout` seconds without one, TimeoutError; the wait stays open."""
        cdef Operation op = self._operation
        if op.state == IS_WAITING and (timeout is None or timeout > 0):
            gate = threading.Lock()
            gate.acquire()
            if self._ledger._add_waiter(op, gate.release):
                try:
                    gate.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
                finally:
                    self._ledger._remove_waiter(op, gate.release)
        if op.state == IS_WAITING:
            raise TimeoutError(f"{self.op_id!r} has no outcome after {timeout} s")
        return outcome_of(op)

    def __await__(self):
        """The outcome. Cancelling the task that awaits leaves the wait open; `cancel()` ends it."""
        cdef Awaiting awaiting = Awaiting.__new__(Awaiting)
        awaiting._ledger = self._ledger
        awaiting._operation = self._operation
        return awaiting

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """Have `callback(ticket)` called once there is an outcome: at once if there is one, else by the thread that
        settles it, under no lock. What it raises goes to the ledger's error handler.
        """
        call = partial(callback, self)
        if not self._ledger._add_waiter(self._operation, call):
            self._ledger._notifier.call(call)

    def cancel(self) -> bool:
        """End the wait. True if that made it cancelled, False if it had an outcome, or its deadline was over."""
        return self._ledger._cancel(self._operation)

    def __repr__(self):
        return f"<Ticket {self.op_id!r}: {self.outcome or 'waiting'}>"


# -- live


cdef class Ledger:
    """Open waits and the events they wait for. Every method may be called from any thread.

    `max_open`: more open waits than this are refused with `Full`. `key_retention_ms`: how long the level of a key that
    nobody waits for counts after its last event; its memory is given back within twice that time. `op_retention_ms`:
    how long an op_id is known after its outcome. None: for ever. `on_error` gets what callbacks raise, and what the
    clock raises in the thread that expires waits.

    An operation expires in the millisecond after its deadline, so that an event in the deadline's own millisecond still
    completes it, as the contract says. With `reaper=False` no thread is started, and `advance()` expires what is due.
    """

    __signature__ = inspect.signature(ReadableLedger)

    cdef readonly str name
    cdef readonly object clock
    cdef readonly Engine _engine
    cdef object _now_ms
    cdef bint _is_system
    cdef Lock _lock
    cdef object _notifier
    cdef object _bell
    cdef object _reaper
    cdef long long _sleep_ms
    cdef long long _alarm_ms
    cdef long long _max_open
    cdef bint _closed
    cdef object __weakref__

    def __cinit__(self, *args, **kwargs):
        # A subclass may use it before `__init__` has run.
        self._engine = Engine()

    def __init__(
        self,
        name="ledger",
        *,
        clock=None,
        max_open=MAX_OPEN,
        key_retention_ms=KEY_RETENTION_MS,
        op_retention_ms=OP_RETENTION_MS,
        reaper=True,
        on_error=None,
    ):
        if not isinstance(max_open, int):
            raise InvalidType(f"max_open must be an integer, not {max_open!r}")
        if max_open < 1:
            raise InvalidArgument(f"max_open must be at least 1, not {max_open}")
        on_error = log_error if on_error is None else on_error
        self.name = name
        self.clock = SystemClock() if clock is None else clock
        self._now_ms = self.clock.now_ms
        self._is_system = type(self.clock) is SystemClock
        self._max_open = min(max_open, 2**62)
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._notifier = Notifier(on_error)
        self._alarm_ms = AFTER if reaper else BEFORE
        self._bell = threading.Lock()
        self._bell.acquire()
        self._reaper = Reaper(f"dwell-{name}", self._turn, on_error, self._ring) if reaper else None
        if self._reaper is not None:
            self._reaper.start()

    # -- waits

    def open(
        self,
        op_id: str | Wait | None,
        needs: Iterable[Need] | None = None,
        delay_ms: int | None = None,
        *,
        quorum: int | None = None,
        volume: int | None = None,
    ) -> Ticket:
        """Wait for `needs`, at most `delay_ms` from now. O(log waiting) per need.

        A `Wait` may be given in place of all arguments. It is submitted now, whatever its `submitted_at_ms`.

        A wait the contract rejects gives a ticket that is settled as rejected, with the reason. `Full` if as many waits
        are open as may be, `InvalidType` for an argument of a wrong kind, `Closed` after close.
        """
        cdef Engine engine = self._engine
        cdef Operation op
        cdef Ticket ticket
        cdef bint is_new = False
        if type(op_id) is not str and isinstance(op_id, Wait):
            if any([argument is not None for argument in (needs, delay_ms, quorum, volume)]):
                raise InvalidArgument("a Wait must be the only argument: it has needs and delay_ms already")
            op_id, needs, delay_ms, _, quorum, volume = op_id
        if needs is not None and type(needs) is not tuple:
            needs = tuple(needs)
        self._enter(False)
        try:
            if engine.pending >= self._max_open:
                raise Full(f"{self.name}: {engine.pending} waits are open, max_open is {self._max_open}")
            op = engine._admit(
                <PyObject *> op_id,
                <PyObject *> needs,
                <PyObject *> delay_ms,
                NULL,
                <PyObject *> quorum,
                <PyObject *> volume,
                &is_new,
            )
            if is_new:
                engine._start(op)
                if op.deadline_ms < self._alarm_ms and op.is_queued:
                    self._wake_reaper()
        finally:
            self._leave()
        ticket = Ticket.__new__(Ticket)
        ticket._ledger = self
        ticket._operation = op
        return ticket

    def explain(self, op_id: str) -> Explanation | None:
        """What the operation waits for and what is met, since when; None if none of that op_id waits."""
        self._take()
        try:
            return self._engine.explain(op_id)
        finally:
            release(&self._lock)

    # -- events

    def record(self, key: str | None, level: int | None = None) -> int:
        """Something happened to `key` now. Returns how many waits that completed. Without a key: counted, set aside."""
        cdef Engine engine = self._engine
        cdef long long before, number = 0
        if not PyUnicode_CheckExact(<PyObject *> key) or not (level is None or int64(<PyObject *> level, &number)):
            return self.record_many(((key, level),))
        self._enter(False)
        try:
            before = engine.completed
            engine._record(<PyObject *> key, <PyObject *> level)
            engine.settle()
            return engine.completed - before
        finally:
            self._leave()

    def record_many(self, events: Iterable[tuple[str | None, int | None]]) -> int:
        """All these (key, level) happened at once: one instant, one time under the lock."""
        cdef Engine engine = self._engine
        cdef long long before
        rows = [(key, level) for key, level in events]
        for key, level in rows:
            check_event(key, level)
        self._enter(False)
        try:
            before = engine.completed
            for key, level in rows:
                if key is None:
                    engine.set_aside += 1
                else:
                    engine._record(<PyObject *> key, <PyObject *> level)
            engine.settle()
            return engine.completed - before
        finally:
            self._leave()

    # -- time

    def advance(self) -> int:
        """End the current millisecond: expire all that is due in it or before. Returns how many expired.

        For ledgers without a reaper.
        """
        cdef Engine engine = self._engine
        cdef long long now_ms = self._read_clock()
        cdef long long before
        self._take()
        try:
            before = engine.expired
            engine.at(now_ms)
            engine.expire(engine.now_ms)
            return engine.expired - before
        finally:
            self._leave()

    def _turn(self):
        """One turn of the reaper: sleep until the next deadline is over, or something wakes it, and look."""
        self._bell.acquire(timeout=max(0, min(self._sleep_ms, POLL_MS)) / 1000)
        # If looking fails the next turn must not sleep.
        self._sleep_ms = 0
        self._look()
        return True

    def _look(self):
        cdef Engine engine = self._engine
        self._enter(True)
        try:
            self._alarm_ms = engine.deadlines.entries[0].rank if engine.deadlines.count else AFTER
            # One millisecond after the deadline, whose events still count.
            self._sleep_ms = self._alarm_ms + 1 - engine.now_ms
        finally:
            self._leave()

    cdef int _wake_reaper(self) except -1:
        """Under the lock."""
        self._alarm_ms = BEFORE
        if self._bell.locked():
            self._bell.release()
        return 0

    def _ring(self):
        self._take()
        try:
            self._wake_reaper()
        finally:
            release(&self._lock)

    # -- life

    def statistics(self) -> LedgerStatistics:
        """A frozen snapshot; the identity holds in it."""
        self._take()
        try:
            return self._engine.statistics()
        finally:
            release(&self._lock)

    def close(self, policy: ClosePolicy = "cancel") -> None:
        """Take nothing more in, and end the reaper. What still waits is cancelled; or expired, as if time ran on and
        nothing happened; or left as it is, to be cancelled by its ticket. A second call does nothing.
        """
        cdef Engine engine = self._engine
        if policy not in ("leave", "expire", "cancel"):
            raise InvalidArgument(f"policy must be 'leave', 'expire' or 'cancel', not {policy!r}")
        # A clock that raises must not keep the ledger open; then the time is that of the call before.
        self._notifier.call(self._look)
        self._take()
        try:
            if self._closed:
                return
            self._closed = True
            if policy == "expire":
                engine.expire(LAST_MS)
            elif policy == "cancel":
                for operation in engine.waiting():
                    engine.cancel(operation)
        finally:
            self._leave()
        if self._reaper is not None:
            self._reaper.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        return f"<Ledger {self.name!r} pending={self._engine.pending}>"

    # -- the lock

    cdef inline long long _read_clock(self) except? -1:
        if self._is_system:
            return monotonic_ns() // 1_000_000
        return self._now_ms()

    cdef inline int _take(self) except -1:
        acquire(&self._lock)
        if self._lock.depth > 1:
            release(&self._lock)
            raise RuntimeError("the ledger was called from within itself")
        return 0

    cdef int _enter(self, bint even_closed) except -1:
        """Take the lock and move on to now. The clock is read before, since its code may be anybody's."""
        cdef long long now_ms = self._read_clock()
        self._take()
        try:
            if self._closed and not even_closed:
                raise Closed(f"{self.name} is closed")
            if now_ms > self._engine.now_ms:
                self._engine.at(now_ms)
        except BaseException:
            release(&self._lock)
            raise
        return 0

    cdef int _leave(self) except -1:
        """Give the lock back, then tell those who wait for what was settled under it."""
        cdef Engine engine = self._engine
        cdef Operation op
        cdef list waiters = None
        cdef Py_ssize_t count
        try:
            if PyList_GET_SIZE(<PyObject *> engine._ripe):
                engine.settle()
            count = PyList_GET_SIZE(<PyObject *> engine.settled)
            if count:
                for op in engine.settled:
                    if op._waiters is not None:
                        if waiters is None:
                            waiters = []
                        waiters.append(op._waiters)
                        op._waiters = None
                PyList_SetSlice(<PyObject *> engine.settled, 0, count, NULL)
        finally:
            release(&self._lock)
        if waiters is not None:
            self._tell(waiters)
        return 0

    cdef int _tell(self, list waiters) except -1:
        cdef Awaiting only
        if len(waiters) == 1 and isinstance(waiters[0], Awaiting):
            # The usual case in asyncio.
            only = waiters[0]
            if only.loop is running_loop():
                return only._wake()
        awaiting = {}
        callbacks = []
        for several in waiters:
            for waiter in several if isinstance(several, dict) else (several,):
                if isinstance(waiter, Awaiting):
                    awaiting.setdefault((<Awaiting> waiter).loop, []).append(waiter)
                else:
                    callbacks.append(waiter)
        if awaiting:
            wake(awaiting)
        if callbacks:
            self._notifier.call_all(callbacks)
        return 0

    # -- for tickets

    cdef bint _add_waiter(self, Operation op, waiter) except -1:
        """False if there is an outcome already: nobody will be told."""
        self._take()
        try:
            if op.state != IS_WAITING:
                return False
            if op._waiters is None:
                op._waiters = waiter
            elif isinstance(op._waiters, dict):
                op._waiters[waiter] = None
            else:
                op._waiters = {op._waiters: None, waiter: None}
            return True
        finally:
            release(&self._lock)

    cdef int _remove_waiter(self, Operation op, waiter) except -1:
        try:
            self._take()
        except RuntimeError:
            # The coroutine is collected by a thread that is inside the ledger. What is left there wakes nobody.
            return 0
        try:
            if isinstance(op._waiters, dict):
                op._waiters.pop(waiter, None)
            elif op._waiters == waiter:
                op._waiters = None
        finally:
            release(&self._lock)
        return 0

    cdef bint _cancel(self, Operation op) except -1:
        cdef bint is_cancelled
        self._enter(True)
        try:
            is_cancelled = op.state == IS_WAITING
            self._engine.cancel(op)
        finally:
            self._leave()
        return is_cancelled


# -- recorded


def replay(
    waits: Iterable[Wait],
    events: Iterable[Event],
    *,
    as_of_ms: int | None = None,
    in_order: bool = False,
    key_retention_ms: int | None = None,
    op_retention_ms: int | None = None,
) -> Replay:
    """The outcome of every wait, one by one as recorded time decides them.

    Rows may come in any order; they are then all read and sorted first. With `in_order=True` they must come sorted by
    time, are read only as far as needed, and the first row out of order raises InvalidArgument. Rows without a usable
    time may stand anywhere.

    Kept in memory are the waits that are open, the level of every key, and every wait that was settled (for the rule on
    repeats). With `key_retention_ms` a key nobody waits for is forgotten so long after its last event, with
    `op_retention_ms` a wait so long after its outcome: memory is then bounded by what happens within these times, an
    older level does not count, and an older repeat is a new operation.

    `as_of_ms`: only what is known at that moment counts, and what is undecided then is pending. Without it time runs on
    to the end and nothing is.
    """
    return Replay(
        waits,
        events,
        as_of_ms=as_of_ms,
        in_order=in_order,
        key_retention_ms=key_retention_ms,
        op_retention_ms=op_retention_ms,
    )


cdef class Replay:
    """A running replay: iterate for the outcomes; `statistics()` counts what was read and decided so far."""

    __signature__ = inspect.signature(ReadableReplay)

    cdef Engine _engine
    cdef long long _end_ms
    cdef bint _in_order
    cdef bint _is_started
    cdef bint _is_ended
    # Rows still to be read: iterators, or lists of usable rows sorted by time, and how many of these were read.
    cdef object _waits
    cdef object _events
    cdef list _sorted_waits
    cdef list _sorted_events
    cdef Py_ssize_t _waits_read
    cdef Py_ssize_t _events_read
    # The next rows and their times; AFTER when there is none.
    cdef object _wait
    cdef long long _wait_ms
    cdef object _event
    cdef long long _event_ms
    # Operations whose outcomes are next, and how many of them were given.
    cdef list _settled
    cdef Py_ssize_t _given

    def __cinit__(self, *args, **kwargs):
        # A subclass may use it before `__init__` has run.
        self._engine = Engine()
        self._settled = []

    def __init__(
        self, waits, events, *, as_of_ms=None, in_order=False, key_retention_ms=None, op_retention_ms=None
    ):
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._end_ms = LAST_MS if as_of_ms is None else max(BEFORE, min(as_of_ms, MAX_MS))
        self._in_order = in_order
        self._waits = iter(waits)
        self._events = iter(events)
        self._wait_ms = self._event_ms = BEFORE
        self._settled = []

    def __iter__(self):
        return self

    def __next__(self):
        cdef Operation op
        while self._given == PyList_GET_SIZE(<PyObject *> self._settled):
            if self._is_ended:
                raise StopIteration
            # Whatever fails, here or in the caller's iterators, ends the replay.
            self._is_ended = True
            PyList_SetSlice(<PyObject *> self._settled, 0, self._given, NULL)
            self._given = 0
            self._is_ended = self._go_on()
            self._settled, self._engine.settled = self._engine.settled, self._settled
        op = <Operation> PyList_GET_ITEM(<PyObject *> self._settled, self._given)
        self._given += 1
        return outcome_of(op)

    def statistics(self) -> LedgerStatistics:
        """The counts so far; after the last outcome, those of the whole replay."""
        return self._engine.statistics()

    # -- time

    cdef bint _go_on(self) except -1:
        """Instant by instant until something is settled. True at the end of time."""
        cdef Engine engine = self._engine
        cdef long long now_ms
        if not self._is_started:
            self._start()
        while PyList_GET_SIZE(<PyObject *> engine.settled) == 0:
            now_ms = self._wait_ms if self._wait_ms < self._event_ms else self._event_ms
            if now_ms > self._end_ms:
                self._stop()
                return True
            engine.at(now_ms)
            if self._wait_ms == now_ms:
                self._open_all(now_ms)
            while self._event_ms == now_ms:
                event = self._event
                self._read_event()
                engine._record(field(<PyObject *> event, EVENT_KEY), field(<PyObject *> event, EVENT_LEVEL))
            engine.settle()
        return False

    cdef int _open_all(self, long long now_ms) except -1:
        """Open the waits of this instant."""
        first = self._wait
        self._read_wait()
        if self._wait_ms != now_ms:
            self._engine.open(first)
            return 0
        batch = [first]
        while self._wait_ms == now_ms:
            batch.append(self._wait)
            self._read_wait()
        for wait in first_first(batch):
            self._engine.open(wait)
        return 0

    cdef int _stop(self) except -1:
        self._engine.expire(self._end_ms)
        self._engine.suspend()
        left = []
        while self._wait is not None:
            left.append(self._wait)
            self._read_wait()
        for wait in first_first(left):
            self._engine.open_later(wait)
        return 0

    # -- rows

    cdef int _start(self) except -1:
        self._is_started = True
        if not self._in_order:
            self._sorted_waits = self._collect(True)
            self._sorted_events = self._collect(False)
        self._read_wait()
        self._read_event()
        return 0

    cdef list _collect(self, bint is_wait):
        """All usable rows by time."""
        cdef Py_ssize_t place = SUBMITTED_AT_MS if is_wait else EVENT_AT_MS
        cdef list collected = []
        cdef bint is_sorted = True
        cdef long long last_ms = BEFORE, row_ms = 0
        while True:
            row = self._next_wait(&row_ms) if is_wait else self._next_event(&row_ms)
            if row is None:
                break
            if row_ms < last_ms:
                is_sorted = False
            last_ms = row_ms
            collected.append(row)
        if not is_sorted:
            collected.sort(key=itemgetter(place))
        return collected

    cdef int _read_wait(self) except -1:
        cdef long long row_ms = AFTER
        if self._sorted_waits is not None:
            if self._waits_read < PyList_GET_SIZE(<PyObject *> self._sorted_waits):
                ask_for_wait(<PyObject *> self._sorted_waits, self._waits_read)
                self._wait = <object> PyList_GET_ITEM(<PyObject *> self._sorted_waits, self._waits_read)
                self._waits_read += 1
                self._wait_ms = PyLong_AsLongLong(<object> field(<PyObject *> self._wait, SUBMITTED_AT_MS))
            else:
                self._wait = None
                self._wait_ms = AFTER
            return 0
        self._wait = self._next_wait(&row_ms)
        if row_ms < self._wait_ms:
            raise out_of_order(self._wait, self._wait_ms)
        self._wait_ms = row_ms
        return 0

    cdef int _read_event(self) except -1:
        cdef long long row_ms = AFTER
        if self._sorted_events is not None:
            if self._events_read < PyList_GET_SIZE(<PyObject *> self._sorted_events):
                ask_for_event(<PyObject *> self._sorted_events, self._events_read)
                self._event = <object> PyList_GET_ITEM(<PyObject *> self._sorted_events, self._events_read)
                self._events_read += 1
                self._event_ms = PyLong_AsLongLong(<object> field(<PyObject *> self._event, EVENT_AT_MS))
            else:
                self._event = None
                self._event_ms = AFTER
            return 0
        self._event = self._next_event(&row_ms)
        if row_ms < self._event_ms:
            raise out_of_order(self._event, self._event_ms)
        self._event_ms = row_ms
        return 0

    cdef _next_wait(self, long long *row_ms):
        """The next wait with a usable time, and that time; None after the last. One without is rejected at once."""
        for wait in self._waits:
            if Py_TYPE(<PyObject *> wait) != <PyTypeObject *> WAIT and not isinstance(wait, Wait):
                raise InvalidType(f"waits must hold Wait, not {wait!r}")
            if int64(field(<PyObject *> wait, SUBMITTED_AT_MS), row_ms):
                if FIRST_MS <= row_ms[0] <= LAST_MS:
                    return wait
            elif is_usable_time(wait[SUBMITTED_AT_MS]):
                row_ms[0] = wait[SUBMITTED_AT_MS]
                return wait
            self._engine.open(wait)
        row_ms[0] = AFTER
        return None

    cdef _next_event(self, long long *row_ms):
        """The next event that counts, and its time; None after the last."""
        cdef long long level = 0
        for event in self._events:
            if Py_TYPE(<PyObject *> event) != <PyTypeObject *> EVENT and not isinstance(event, Event):
                raise InvalidType(f"events must hold Event, not {event!r}")
            if (
                PyUnicode_CheckExact(field(<PyObject *> event, EVENT_KEY))
                and int64(field(<PyObject *> event, EVENT_AT_MS), row_ms)
                and (
                    field(<PyObject *> event, EVENT_LEVEL) == Py_None
                    or int64(field(<PyObject *> event, EVENT_LEVEL), &level)
                )
            ):
                if FIRST_MS <= row_ms[0] <= LAST_MS:
                    return event
            elif is_usable_event(event):
                row_ms[0] = event[EVENT_AT_MS]
                return event
            self._engine.set_aside += 1
        row_ms[0] = AFTER
        return None


cdef out_of_order(row, long long last_ms):
    return InvalidArgument(f"in_order was promised, but after {last_ms} ms comes {row!r}")


cdef list first_first(list batch):
    """The waits as they are, unless some share an op_id: then the contract's first comes first."""
    cdef Py_ssize_t count = PyList_GET_SIZE(<PyObject *> batch), i, j
    cdef PyObject *one
    cdef PyObject *other
    cdef bint is_repeated = False
    if count <= FEW:
        for i in range(count):
            one = field(PyList_GET_ITEM(<PyObject *> batch, i), OP_ID)
            for j in range(i):
                other = field(PyList_GET_ITEM(<PyObject *> batch, j), OP_ID)
                if PyUnicode_CheckExact(one) and PyUnicode_CheckExact(other):
                    is_repeated = is_repeated or is_same(one, other)
                else:
                    is_repeated = is_repeated or <object> one == <object> other
    else:
        is_repeated = len({wait[OP_ID] for wait in batch}) < count
    return sorted(batch, key=order) if is_repeated else batch
