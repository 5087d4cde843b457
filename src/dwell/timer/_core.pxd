# The C layout, for compiled layers above the timer: they may subclass TimerTask and call the core without a Python call.

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct Entry:
    # A waiting timer's place, inside the TimerTask or, for a timer of the bulk calls, inside its Node.
    int64_t deadline_ms
    # The number of its bucket, with TOKEN set in a Node.
    uint32_t bucket
    # Its slot in the bucket.
    uint32_t place


cdef struct Node:
    Entry entry
    # What `advance_many` hands back.
    int64_t token
    # Its number, and how often it was used before; together they are the handle, so that the handle of a timer
    # long gone does not cancel the node's next tenant.
    uint32_t number
    uint32_t generation


cdef struct Bucket:
    # In insertion order, with gaps (NULL) where timers were cancelled.
    Entry **slots
    uint32_t used
    uint32_t capacity
    uint32_t live
    bint queued
    int64_t expiration


cdef struct Level:
    # Times in ticks of the timer; unsigned where a span may take all 64 bits.
    int64_t tick
    uint64_t interval
    int64_t current


cdef struct Queued:
    int64_t expiration
    uint32_t bucket


cdef class TimerTask:
    cdef Entry entry
    # The core it waits in, borrowed: a core that goes away clears it. NULL when the task does not wait.
    cdef void *core
    cdef object callback
    cdef readonly int64_t delay_ms
    cdef unsigned char flags


cdef class RecurringTask(TimerTask):
    cdef readonly int64_t period_ms
    cdef int64_t due_ms


cdef class TimerCore:
    cdef readonly object clock
    cdef readonly int64_t tick_ms
    cdef readonly uint32_t wheel_size
    cdef public bint _closed
    cdef public list _due
    cdef int clock_kind
    # Pages of nodes, so that a node never moves, and the numbers of those that are free, used as a stack.
    cdef Node **pages
    cdef uint32_t page_count, node_count
    cdef uint32_t *free_nodes
    cdef uint32_t free_count
    cdef Bucket *buckets
    cdef Level levels[64]
    cdef int level_count
    cdef Queued *queue
    cdef uint32_t queue_count, queue_capacity
    cdef int64_t *tokens
    cdef Py_ssize_t token_count, token_capacity
    cdef int64_t current
    cdef int64_t pending, cascades, fired, cancelled
    cdef int64_t lateness[22]

    cdef int64_t now(self) except? -1
    # The moment a delay counts from.
    cdef int64_t start(self) except? -1
    cdef int add_at(self, TimerTask task, int64_t deadline_ms, int64_t now_ms) except -1


# `TimerTask.__init__` and `cancel()` for compiled subclasses, without a Python call.
cdef int init_task(TimerTask task, delay_ms) except -1
cdef bint cancel_task(TimerTask task) noexcept
