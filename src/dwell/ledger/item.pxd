# The compiled build of item.py: the checked access of the C API, which takes named tuples as the tuples they are.

cdef extern from *:
    """
    static inline PyObject *dwell_item(PyObject *row, Py_ssize_t place) {
        PyObject *value = PyTuple_GetItem(row, place);
        Py_XINCREF(value);
        return value;
    }
    """
    object item "dwell_item" (object row, Py_ssize_t place)
