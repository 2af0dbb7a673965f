# cython: language_level=3
"""The compiled twin of `pure_is_plain` in `peers.client.values`; both pass the same tests."""

from cpython.object cimport PyObject


cdef extern from "Python.h":
    # With pointers, so that no reference is counted.
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyLong_CheckExact(PyObject* value)
    bint PyFloat_CheckExact(PyObject* value)
    bint PyBytes_CheckExact(PyObject* value)
    bint PyBool_Check(PyObject* value)
    bint PyDict_CheckExact(PyObject* value)
    bint PyList_CheckExact(PyObject* value)
    bint PyTuple_CheckExact(PyObject* value)
    bint PyDict_Next(PyObject* value, Py_ssize_t* position, PyObject** key, PyObject** item)
    Py_ssize_t PySequence_Fast_GET_SIZE(PyObject* value)
    PyObject* PySequence_Fast_GET_ITEM(PyObject* value, Py_ssize_t position)
    PyObject* Py_None


cdef inline bint _is_scalar(PyObject* value) noexcept:
    return (
        PyUnicode_CheckExact(value)
        or PyFloat_CheckExact(value)
        or PyLong_CheckExact(value)
        or value == Py_None
        or PyBool_Check(value)
        or PyBytes_CheckExact(value)
    )


cdef bint _is_plain(PyObject* value) noexcept:
    cdef Py_ssize_t position = 0
    cdef PyObject* key
    cdef PyObject* item
    if _is_scalar(value):
        return True
    if PyDict_CheckExact(value):
        while PyDict_Next(value, &position, &key, &item):
            if not (_is_scalar(key) or _is_plain(key)) or not (_is_scalar(item) or _is_plain(item)):
                return False
        return True
    if PyList_CheckExact(value) or PyTuple_CheckExact(value):
        for position in range(PySequence_Fast_GET_SIZE(value)):
            item = PySequence_Fast_GET_ITEM(value, position)
            if not _is_scalar(item) and not _is_plain(item):
                return False
        return True
    return False


def is_plain(value):
    """Return whether a value and all that it holds are of the types that msgpack itself has."""
    return _is_plain(<PyObject*> value)
