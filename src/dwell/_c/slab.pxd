# Memory for many objects of one size, on pages of 2 MiB.
#
# Timers are met in random order: a cancelled one may lie anywhere. On pages of 4 KiB nearly every such access misses the
# translation cache as well, so the pages are large ones where the system has them. A block is one cache line (or
# several), aligned. A page whose blocks are all free is given back, except the last one.

from libc.stdint cimport uint32_t, uintptr_t
from libc.stdlib cimport free

cdef extern from *:
    """
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    #define DWELL_PAGE ((size_t)1 << 21)

    /* A page, aligned to its own size. `large`: on one large page if the system has them. */
    static void *dwell_page(int large) {
    #if defined(_WIN32)
        (void)large;
        return _aligned_malloc(DWELL_PAGE, DWELL_PAGE);
    #else
        void *page = NULL;
        if (posix_memalign(&page, DWELL_PAGE, DWELL_PAGE) != 0) return NULL;
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (large) madvise(page, DWELL_PAGE, MADV_HUGEPAGE);
    #else
        (void)large;
    #endif
        return page;
    #endif
    }

    static void dwell_free_page(void *page) {
    #if defined(_WIN32)
        _aligned_free(page);
    #else
        free(page);
    #endif
    }
    """
    void *dwell_page(int large) nogil
    void dwell_free_page(void *page) nogil
    enum: DWELL_PAGE


cdef struct Page:
    # The neighbours among the pages with room.
    Page *before
    Page *after
    # Blocks that were given back, linked through their first word, and the first block that was never taken.
    void *given_back
    char *fresh
    char *end
    uint32_t live


cdef struct Slab:
    # In bytes, a multiple of 64.
    uint32_t block
    uint32_t pages
    # The pages with room; the first is the one that was given a block last, which is still in the cache.
    Page *room


cdef inline Page *page_of(void *block) noexcept nogil:
    """The header of the page that `block` lies on.

    Headers lie at different places of their pages: at the same place they would all fall into one set of the cache.
    """
    cdef uintptr_t start = <uintptr_t> block & ~<uintptr_t> (DWELL_PAGE - 1)
    return <Page *> (start + ((start >> 21) & 63) * 64)


cdef inline void link(Slab *slab, Page *page) noexcept nogil:
    page.before = NULL
    page.after = slab.room
    if slab.room is not NULL:
        slab.room.before = page
    slab.room = page


cdef inline void unlink(Slab *slab, Page *page) noexcept nogil:
    if page.before is NULL:
        slab.room = page.after
    else:
        page.before.after = page.after
    if page.after is not NULL:
        page.after.before = page.before


cdef inline bint has_room(Page *page, uint32_t block) noexcept nogil:
    return page.given_back is not NULL or page.fresh + block <= page.end


cdef inline void *take_block(Slab *slab) noexcept nogil:
    """A block, not cleared; NULL if there is no memory."""
    cdef Page *page = slab.room
    cdef void *block
    cdef char *start
    if page is NULL:
        # A program with few timers needs no large page.
        start = <char *> dwell_page(slab.pages > 0)
        if start is NULL:
            return NULL
        page = page_of(start)
        page.given_back = NULL
        page.fresh = start + 4096
        page.end = start + DWELL_PAGE
        page.live = 0
        slab.pages += 1
        link(slab, page)
    block = page.given_back
    if block is not NULL:
        page.given_back = (<void **> block)[0]
    else:
        block = page.fresh
        page.fresh += slab.block
    page.live += 1
    if not has_room(page, slab.block):
        unlink(slab, page)
    return block


cdef inline void give_block(Slab *slab, void *block) noexcept nogil:
    cdef Page *page = page_of(block)
    if not has_room(page, slab.block):
        link(slab, page)
    elif slab.room is not page:
        unlink(slab, page)
        link(slab, page)
    (<void **> block)[0] = page.given_back
    page.given_back = block
    page.live -= 1
    if page.live == 0 and slab.pages > 1:
        unlink(slab, page)
        slab.pages -= 1
        dwell_free_page(<void *> (<uintptr_t> page & ~<uintptr_t> (DWELL_PAGE - 1)))
