"""millrace_client.tensors: which buffers it accepts, what it sends and what it returns, with and without NumPy."""

import array
import ctypes
import os
import struct
import subprocess
import sys
import unittest

import numpy

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/clients/python")
sys.path.insert(0, CLIENT)
from millrace_client.errors import MillraceError  # noqa: E402
from millrace_client.tensors import (
    DATATYPES,
    Model,
    Tensor,
    find_numpy,
    pack_inputs,
    unpack_outputs,
)  # noqa: E402

NUMBERS = (1.5, -2.0, 0.25, 8.0)
PICTURE = Tensor("x", "FP32", (1, 2, 2))
ON_THE_WIRE = struct.pack("<4f", *NUMBERS)


def sent(tensor, data):
    return bytes(pack_inputs(Model("m", "1", [tensor], []), [data])[0])


class Inputs(unittest.TestCase):
    def refused(self, data, *words, tensor=PICTURE):
        with self.assertRaises(MillraceError) as raised:
            sent(tensor, data)
        self.assertEqual(raised.exception.code, "invalid")
        for word in ("'x'", *words):
            self.assertIn(word, str(raised.exception))

    def test_takes_any_buffer_of_the_datatype(self):
        floats = numpy.array(NUMBERS, numpy.float32)
        for data in (
            floats,
            floats.reshape(1, 2, 2),
            floats.reshape(2, 2),
            floats.reshape(2, 2, 1),
            array.array("f", NUMBERS),
            (ctypes.c_float * 4)(*NUMBERS),
            memoryview(floats),
            ON_THE_WIRE,
            bytearray(ON_THE_WIRE),
            memoryview(ON_THE_WIRE),
            numpy.frombuffer(ON_THE_WIRE, numpy.uint8),
        ):
            with self.subTest(type(data).__name__):
                self.assertEqual(sent(PICTURE, data), ON_THE_WIRE)

    def test_sends_a_strided_array_in_row_major_order(self):
        wide = numpy.zeros((2, 4), numpy.float32)
        wide[:, ::2] = numpy.array(NUMBERS).reshape(2, 2)
        columns = numpy.asfortranarray(numpy.array(NUMBERS, numpy.float32).reshape(2, 2))
        for data in (wide[:, ::2], columns):
            self.assertFalse(data.flags.c_contiguous)
            self.assertEqual(sent(PICTURE, data), ON_THE_WIRE)

    def test_does_not_copy_a_contiguous_array(self):
        floats = numpy.array(NUMBERS, numpy.float32)
        view = pack_inputs(Model("m", "1", [PICTURE], []), [floats])[0]
        floats[0] = 7
        self.assertEqual(struct.unpack_from("<f", view)[0], 7)

    def test_accepts_only_the_numpy_type_of_each_datatype(self):
        types = [name for _, name in DATATYPES.values() if name]
        for datatype, (size, name) in DATATYPES.items():
            tensor = Tensor("x", datatype, (2, 2))
            mine = name or "<u2"  # NumPy has no BF16: its bits
            self.assertEqual(len(sent(tensor, numpy.zeros((2, 2), mine))), 4 * size)
            for other in types:
                if other != mine:
                    self.refused(numpy.zeros((2, 2), other), "elements", datatype, tensor=tensor)

    def test_refuses_other_elements_and_says_how_to_convert(self):
        self.refused(numpy.array(NUMBERS), "elements of 8 bytes (float)", "FP32", ".astype('<f4')")
        self.refused(numpy.array(NUMBERS, ">f4"), "big-endian", ".astype('<f4')")
        self.refused(array.array("i", (1, 2, 3, 4)), "elements of 4 bytes (signed)")
        self.refused(numpy.zeros(4, [("a", "<f4")]), "format")
        self.refused(numpy.zeros(4, numpy.complex64), "format")

    def test_refuses_another_shape_or_size(self):
        self.refused(numpy.zeros((1, 4), numpy.float32), "shape [1, 4]", "[1, 2, 2]")
        self.refused(numpy.zeros((2, 2, 2), numpy.float32), "shape [2, 2, 2]")
        self.refused(numpy.zeros(5, numpy.float32), "20 bytes", "takes 16")
        self.refused(numpy.zeros(0, numpy.float32), "0 bytes")
        self.refused(numpy.float32(1), "shape []")
        self.refused(b"abc", "3 bytes", "takes 16")

    def test_refuses_objects_that_are_no_buffers(self):
        self.refused(list(NUMBERS), "list", "array.array")
        self.refused(None, "NoneType")
        self.refused("abcd", "str")
        self.refused(b"", "datatype BYTES", tensor=Tensor("x", "BYTES", (1,)))

    def test_asks_for_a_list_if_given_a_single_buffer(self):
        for alone in (ON_THE_WIRE, numpy.array(NUMBERS, numpy.float32)):
            with self.assertRaisesRegex(MillraceError, "give a list"):
                pack_inputs(Model("m", "1", [PICTURE], []), alone)
        with self.assertRaisesRegex(MillraceError, "takes 1 inputs, not 2"):
            pack_inputs(Model("m", "1", [PICTURE], []), [ON_THE_WIRE, ON_THE_WIRE])


class Outputs(unittest.TestCase):
    MODEL = Model(
        "m", "1", [], [Tensor("a", "FP32", (1, 2, 2)), Tensor("b", "UINT8", (3,)), Tensor("c", "BF16", (2,))]
    )
    ANSWER = ON_THE_WIRE + b"\1\2\3" + struct.pack("<2H", 0x3F80, 0xC000)

    def test_are_writable_arrays_of_the_models_datatype_and_shape(self):
        a, b, c = unpack_outputs(self.MODEL, self.ANSWER, numpy)
        self.assertEqual((a.dtype, a.shape, tuple(a.flat)), (numpy.float32, (1, 2, 2), NUMBERS))
        self.assertEqual((b.dtype, b.tolist()), (numpy.uint8, [1, 2, 3]))
        self.assertEqual((c.dtype, c.tolist()), (numpy.uint16, [0x3F80, 0xC000]))
        a += 1

    def test_are_bytes_without_numpy(self):
        self.assertEqual(
            unpack_outputs(self.MODEL, self.ANSWER), [self.ANSWER[:16], self.ANSWER[16:19], self.ANSWER[19:]]
        )

    def test_of_another_size_are_refused(self):
        for answer in (self.ANSWER[:-1], self.ANSWER + b"\0", b""):
            with self.assertRaises(MillraceError) as raised:
                unpack_outputs(self.MODEL, answer, numpy)
            self.assertEqual(raised.exception.code, "protocol")

    def test_of_an_unknown_datatype_are_refused(self):
        with self.assertRaises(MillraceError) as raised:
            unpack_outputs(Model("m", "1", [], [Tensor("a", "BYTES", (1,))]), b"", numpy)
        self.assertEqual(raised.exception.code, "protocol")


class WithoutNumpy(unittest.TestCase):
    def test_outputs_are_bytes_unless_arrays_are_required(self):
        self.assertIs(find_numpy(None), numpy)
        self.assertIs(find_numpy(True), numpy)
        self.assertIsNone(find_numpy(False))
        # The entry None in sys.modules makes every import of NumPy fail.
        hidden = (
            "import sys; sys.modules['numpy'] = None; sys.path.insert(0, sys.argv[1])\n"
            "from millrace_client.errors import MillraceError\n"
            "from millrace_client.tensors import find_numpy\n"
            "assert find_numpy(None) is None and find_numpy(False) is None\n"
            "try: find_numpy(True)\n"
            "except MillraceError as error: print(error.code, error)\n"
        )
        run = subprocess.run(
            [sys.executable, "-B", "-c", hidden, CLIENT],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(run.stdout, "invalid arrays=True needs NumPy, which is not installed\n", run.stderr)


if __name__ == "__main__":
    unittest.main()
