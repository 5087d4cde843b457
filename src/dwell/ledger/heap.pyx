# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `heap.py`: entries of three words in one array."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport qsort

from dwell.ledger.operation cimport Operation

cpdef enum:
    TOLERATED = 16


@cython.final
@cython.no_gc
cdef class Heap:
    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self._count):
            Py_DECREF(<object> self._entries[i].operation)
        PyMem_Free(self._entries)

    def __len__(self):
        return self._count

    def entries(self):
        return [(self._entries[i].rank, <Operation> self._entries[i].operation) for i in range(self._count)]

    cdef bint has_up_to(self, long long rank) noexcept:
        return self._count > 0 and self._entries[0].rank <= rank

    cdef long long first_rank(self) noexcept:
        return self._entries[0].rank

    cdef int push(self, long long rank, Operation op) except -1:
        cdef Entry *grown
        cdef Py_ssize_t capacity
        cdef Entry entry
        if self._count == self._capacity:
            capacity = self._capacity + (self._capacity >> 1) + 2
            grown = <Entry *> PyMem_Realloc(self._entries, capacity * sizeof(Entry))
            if grown is NULL:
                raise MemoryError
            self._entries = grown
            self._capacity = capacity
        Py_INCREF(op)
        entry.rank = rank
        entry.number = op.number
        entry.operation = <void *> op
        rise(self._entries, self._count, entry)
        self._count += 1
        return 0

    cdef Operation pop(self):
        cdef Operation first = <Operation> self._entries[0].operation
        self._count -= 1
        if self._count:
            sink(self._entries, self._count, 0, self._entries[self._count])
        # The entry's own reference; `first` has another.
        Py_DECREF(first)
        return first

    cdef int bury(self, key) except -1:
        self.dead += 1
        if 2 * self.dead > self._count + TOLERATED:
            self._clean(key)
        return 0

    cdef void unbury(self) noexcept:
        self.dead -= 1

    cdef int _clean(self, key) except -1:
        cdef Entry *entries = self._entries
        cdef Entry entry
        cdef Py_ssize_t i, count = self._count, kept = 0, gone = count
        # The living to the front, the dead to the back; then drop these, when the heap is whole again.
        i = 0
        while i < gone:
            if (<Operation> entries[i].operation).awaits(key, entries[i].rank):
                i += 1
            else:
                gone -= 1
                entry = entries[i]
                entries[i] = entries[gone]
                entries[gone] = entry
        kept = gone
        if key is None:
            for i in range(kept // 2 - 1, -1, -1):
                sink(entries, kept, i, entries[i])
        else:
            # Sorted is a heap, too, and shows the threshold that came back: its entry is there twice, one of them dead.
            qsort(entries, kept, sizeof(Entry), compare)
            kept = 0
            for i in range(gone):
                if kept and compare(&entries[kept - 1], &entries[i]) == 0:
                    continue
                entry = entries[kept]
                entries[kept] = entries[i]
                entries[i] = entry
                kept += 1
        self._count = kept
        self.dead = 0
        for i in range(kept, count):
            Py_DECREF(<object> entries[i].operation)
        return 0


cdef inline bint precedes(Entry *one, Entry *other) noexcept:
    return one.rank < other.rank or (one.rank == other.rank and one.number < other.number)


cdef int compare(const void *one, const void *other) noexcept nogil:
    cdef Entry *a = <Entry *> one
    cdef Entry *b = <Entry *> other
    if a.rank != b.rank:
        return -1 if a.rank < b.rank else 1
    if a.number != b.number:
        return -1 if a.number < b.number else 1
    return 0


cdef inline void rise(Entry *entries, Py_ssize_t place, Entry entry) noexcept:
    """Put the entry at a free place, or where it belongs above."""
    cdef Py_ssize_t parent
    while place > 0:
        parent = (place - 1) >> 1
        if not precedes(&entry, &entries[parent]):
            break
        entries[place] = entries[parent]
        place = parent
    entries[place] = entry


cdef inline void sink(Entry *entries, Py_ssize_t count, Py_ssize_t place, Entry entry) noexcept:
    """Put the entry at a free place, or where it belongs below."""
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
