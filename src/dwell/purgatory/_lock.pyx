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
    cdef Waiter **place = &lock.waiters
    cdef PyLockStatus status
    waiter.thread = me
    waiter.next = NULL
    waiter.gate = PyThread_allocate_lock()
    if waiter.gate is NULL:
        raise MemoryError
    PyThread_acquire_lock(waiter.gate, 1)
    while place[0] is not NULL:
        place = &place[0].next
    place[0] = &waiter
    while True:
        with nogil:
            status = PyThread_acquire_lock_timed(waiter.gate, -1, 1)
        if status == PY_LOCK_ACQUIRED:
            break
        try:
            PyErr_CheckSignals()
        except BaseException:
            # Leave the queue; if the lock was handed over meanwhile, pass it on.
            if not leave_queue(lock, &waiter):
                release(lock)
            PyThread_free_lock(waiter.gate)
            raise
    PyThread_free_lock(waiter.gate)
    return 0


cdef bint leave_queue(Lock *lock, Waiter *waiter) noexcept:
    cdef Waiter **place = &lock.waiters
    while place[0] is not NULL:
        if place[0] is waiter:
            place[0] = waiter.next
            return True
        place = &place[0].next
    return False
