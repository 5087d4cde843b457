# cython: language_level=3, binding=False
"""Waiting for a lock that is taken; `_lock.pxd` has the rest."""

cdef extern from "Python.h":
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    PyThread_type_lock PyThread_allocate_lock() nogil
    void PyThread_free_lock(PyThread_type_lock lock) nogil
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait) nogil
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible) nogil
    int PyErr_CheckSignals() except -1


cdef int wait_for(Lock *lock, unsigned long me) except -1:
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
            # Handed over, but first there is a signal.
            release(lock)
        PyThread_free_lock(waiter.gate)
        if status == PY_LOCK_ACQUIRED:
            return 0
        # Its handler may want this very lock: nobody must be in the queue for whom it would wait.
        PyErr_CheckSignals()
    lock.owner = me
    lock.depth = 1
    return 0


cdef bint leave_queue(Lock *lock, Waiter *waiter) noexcept:
    cdef Waiter **place = &lock.waiters
    while place[0] is not NULL:
        if place[0] is waiter:
            place[0] = waiter.next
            return True
        place = &place[0].next
    return False
