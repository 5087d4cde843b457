# The compiled build of item.py: the C API takes named tuples as the tuples they are.

cdef extern from *:
    """
    static inline PyObject *dwell_item(PyObject *row, Py_ssize_t place) {
        PyObject *value;
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) <= place) {
            PyErr_BadInternalCall();
            return NULL;
        }
        value = PyTuple_GET_ITEM(row, place);
        Py_INCREF(value);
        return value;
    }

    static inline int dwell_fits(PyObject *number) {
        int overflow;
        PyLong_AsLongLongAndOverflow(number, &overflow);
        return !overflow;
    }

    static inline PyObject *dwell_finished(PyObject *row_type, PyObject *op_id, PyObject *outcome, long long finished_at_ms,
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
        /* Strings and integers close no circle: millions of rows need not be visited by the cyclic collector. */
        if (PyUnicode_CheckExact(op_id) && (completed_by == Py_None || PyUnicode_CheckExact(completed_by)))
            PyObject_GC_UnTrack(row);
        return row;
    }
    """
    object item "dwell_item" (object row, Py_ssize_t place)
    bint fits "dwell_fits" (object number)
    object finished "dwell_finished" (
        object row_type, object op_id, object outcome, long long finished_at_ms, long long waited_ms, object completed_by
    )
