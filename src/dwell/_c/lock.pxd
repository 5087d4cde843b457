# A re-entrant lock for compiled code that costs nothing until threads contend for it.
#
# A `Lock` is three words inside its owner, all zero when free. Free, it is taken and given back in a few instructions,
# which the interpreter lock makes atomic: `acquire` and `release` need the interpreter lock. A thread that finds it
# taken queues with a gate on its own stack and sleeps without the interpreter lock. Whoever gives the lock back hands
# it to the first in the queue. So no operating system's lock is made for an owner that nobody contends for, and no
# thread starves.

from libc.stdint cimport uint32_t

cdef extern from "Python.h":
    ctypedef void *PyThread_type_lock
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    unsigned long PyThread_get_thread_ident() nogil
    PyThread_type_lock PyThread_allocate_lock() nogil
    void PyThread_free_lock(PyThread_type_lock lock) nogil
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait) nogil
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible) nogil
    void PyThread_release_lock(PyThread_type_lock lock) nogil
    int PyErr_CheckSignals() except -1


cdef struct Waiter:
    unsigned long thread
    PyThread_type_lock gate
    Waiter *next


cdef struct Lock:
    # The thread that holds it, 0 if none.
    unsigned long owner
    # The threads that wait for it, the first to come first.
    Waiter *waiters
    # How often its thread has taken it.
    uint32_t depth


cdef inline int acquire(Lock *lock) except -1:
    """Take the lock. Raises only what a signal handler raises (Ctrl-C); the lock is not taken then."""
    cdef unsigned long me = PyThread_get_thread_ident()
    if lock.owner == 0:
        lock.owner = me
        lock.depth = 1
    elif lock.owner == me:
        lock.depth += 1
    else:
        wait_for(lock, me)
    return 0


cdef inline void release(Lock *lock) noexcept:
    cdef Waiter *first = lock.waiters
    lock.depth -= 1
    if lock.depth:
        return
    if first is NULL:
        lock.owner = 0
        return
    # Handed over, so that nobody can slip in between. The waiter's stack frame is gone once its gate opens.
    lock.waiters = first.next
    lock.owner = first.thread
    lock.depth = 1
    PyThread_release_lock(first.gate)


cdef inline int wait_for(Lock *lock, unsigned long me) except -1:
    """Wait for a lock that another thread holds."""
    cdef Waiter waiter
    cdef Waiter **place
    cdef PyLockStatus status
    waiter.thread = me
    while lock.owner != 0:
        waiter.next = NULL
        waiter.gate = PyThread_allocate_lock()
        if waiter.gate is NULL:
            raise MemoryError
        PyThread_acquire_lock(waiter.gate, 1)
        place = &lock.waiters
        while place[0] is not NULL:
            place = &place[0].next
        place[0] = &waiter
        with nogil:
            status = PyThread_acquire_lock_timed(waiter.gate, -1, 1)
        if status != PY_LOCK_ACQUIRED and not leave_queue(lock, &waiter):
            # The lock was handed over, but first there is a signal.
            release(lock)
        PyThread_free_lock(waiter.gate)
        if status == PY_LOCK_ACQUIRED:
            return 0
        # The signal's handler may want this very lock, so the thread must not be in its queue meanwhile.
        PyErr_CheckSignals()
    lock.owner = me
    lock.depth = 1
    return 0


cdef inline bint leave_queue(Lock *lock, Waiter *waiter) noexcept:
    cdef Waiter **place = &lock.waiters
    while place[0] is not NULL:
        if place[0] is waiter:
            place[0] = waiter.next
            return True
        place = &place[0].next
    return False
