# A lock that costs nothing until it is contended for, for the compiled layers.
#
# It is three words inside its owner. Free, it is taken and given back in a few instructions: the interpreter lock makes them atomic. A thread
# that finds it taken queues with a gate on its own stack and sleeps outside the interpreter lock; who gives the lock back hands it to the
# first in the queue. Hence no lock is made for an owner that nobody contends for, and nobody starves.

from libc.stdint cimport uint32_t

cdef extern from "Python.h":
    ctypedef void *PyThread_type_lock
    unsigned long PyThread_get_thread_ident() nogil
    void PyThread_release_lock(PyThread_type_lock lock) nogil


cdef struct Waiter:
    unsigned long thread
    PyThread_type_lock gate
    Waiter *next


cdef struct Lock:
    # The thread that holds it, 0 if none; how often; and who waits, the first to come first.
    unsigned long owner
    Waiter *waiters
    uint32_t depth


cdef int wait_for(Lock *lock, unsigned long me) except -1


cdef inline int acquire(Lock *lock) except -1:
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
