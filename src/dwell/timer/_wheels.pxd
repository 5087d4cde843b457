# The C layout, for compiled layers above the timer: they may subclass TimerTask, and add and cancel without a Python call.

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct Entry:
    # Where a timer waits: part of the TimerTask or, for a timer of the bulk calls, of its Node.
    # The number of its bucket, 0 if it does not wait, and in the four highest bits its flags.
    uint32_t bucket
    # Its slot in the bucket.
    uint32_t place
    int64_t deadline_ms


cdef class TimerTask:
    # With the object's header and the collector's, exactly one cache line of 64 bytes.
    cdef Entry entry
    cdef object callback
    cdef int64_t delay


cdef class RecurringTask(TimerTask):
    cdef int64_t period
    # The deadline of the run that was handed over last.
    cdef int64_t due_ms


cdef struct Node:
    # A timer of the bulk calls.
    Entry entry
    # What `advance_many` hands back.
    int64_t token
    # Its number, and how often it was used before; together they are the handle, so that the handle of a timer long
    # gone does not cancel the node's next tenant.
    uint32_t number
    uint32_t generation


cdef struct Level:
    # Times in ticks of the timer; unsigned where a span may take all 64 bits.
    int64_t tick
    uint64_t interval
    # The start of the bucket it stands at, and the place of that bucket in the level.
    int64_t current
    uint32_t slot
    # The number of its first bucket.
    uint32_t first


cdef struct Queued:
    int64_t expiration
    uint32_t bucket


cdef class Wheels:
    cdef object time, on_first, on_due
    cdef list due
    cdef bint is_closed
    cdef int clock_kind
    cdef int64_t tick
    cdef uint32_t size_of_wheel
    cdef Level levels[64]
    cdef int level_count
    # The time of the lowest level, in ticks.
    cdef int64_t current
    # A binary heap of the buckets that hold timers, the next to expire first.
    cdef Queued *queue
    cdef uint32_t queue_count, queue_capacity
    # Pages of nodes, so that a node never moves, and the numbers of those that are free, used as a stack.
    cdef Node **pages
    cdef uint32_t page_count, node_count
    cdef uint32_t *free_nodes
    cdef uint32_t free_count
    # Tokens of expired timers, not yet handed back.
    cdef int64_t *tokens
    cdef Py_ssize_t token_count, token_capacity
    cdef int64_t pending, cascades, fired, cancelled
    cdef int64_t lateness[22]


# The time, and the moment a delay counts from: on the system clock the time rounded up.
cdef int64_t now_of(Wheels wheels) except? -1
cdef int64_t start_of(Wheels wheels) except? -1
# How many timers wait.
cdef int64_t size_of(Wheels wheels) noexcept
# `Wheels.add` with a deadline, `TimerTask.__init__` and `TimerTask.cancel`, for compiled subclasses.
cdef int add_at(Wheels wheels, TimerTask task, int64_t deadline_ms, int64_t now_ms) except -1
cdef int init_task(TimerTask task, delay_ms) except -1
cdef bint cancel_task(TimerTask task) noexcept
