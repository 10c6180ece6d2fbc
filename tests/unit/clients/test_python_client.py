"""millrace_client with servers that answer wrongly, and with bad arguments and files."""

import array
import http.server
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/clients/python")
sys.path.insert(0, CLIENT)
from millrace_client import MillraceError, connect  # noqa: E402
from millrace_client.npy import read_npy, write_npy  # noqa: E402


def tensor(name="x", datatype="FP32", shape=(1, 2)):
    return {"name": name, "datatype": datatype, "shape": list(shape)}


def metadata(inputs=None, outputs=None):
    document = {
        "name": "m",
        "versions": ["1"],
        "inputs": [tensor()] if inputs is None else inputs,
        "outputs": [tensor("y")] if outputs is None else outputs,
    }
    return json.dumps(document).encode()


class Server:
    """An HTTP server of one model that gives fixed answers to a metadata request and to an inference."""

    def __init__(self, described, answer=b"\0" * 8, length=None):
        self.inferences = 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply(described if self.path == "/v2/models/m" else b"")

            def do_POST(self):
                server.inferences += 1
                server.asked = self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(answer, length)

            def reply(self, body, length=None):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.send_header("Inference-Header-Content-Length", "0")
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = length is not None

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Fails(unittest.TestCase):
    def fails(self, code, call, *words):
        with self.assertRaises(MillraceError) as raised:
            call()
        self.assertEqual(raised.exception.code, code, raised.exception)
        for word in words:
            self.assertIn(word, str(raised.exception))


class Urls(Fails):
    def test_without_a_valid_host_are_refused(self):
        for scheme in ("http", "https", "udp"):
            for host in ("[::1", "[x]", "a" * 70, "a..b", "\N{LATIN SMALL LETTER O WITH DIAERESIS}" * 70):
                url = f"{scheme}://{host}:8000"
                with self.subTest(url):
                    self.fails("invalid", lambda: connect(url), repr(url))
        self.fails("invalid", lambda: connect("unix:/\ud800"), "unix:")


class Timeouts(Fails):
    def test_infinite_and_nan_are_refused(self):
        for timeout in (float("inf"), -float("inf"), float("nan"), 1e30):
            with self.subTest(timeout):
                self.fails("invalid", lambda: connect("http://127.0.0.1:1", timeout), "time-out")
                self.fails("invalid", lambda: connect("udp://127.0.0.1:1", timeout), "time-out")
                with Server(metadata()) as server, connect(server.url, 60) as client:
                    self.fails("invalid", lambda: client.infer("m", [bytes(8)], timeout), "time-out")
                    self.assertEqual(server.inferences, 0)


class Answers(Fails):
    def test_with_unusable_metadata_are_refused(self):
        for described in (
            metadata(inputs=[tensor(datatype="BYTES")]),
            metadata(outputs=[tensor(datatype="BYTES")]),
            metadata(outputs=[tensor(datatype=["FP32"])]),
            metadata(inputs=[tensor(shape=(1, 0))]),
            metadata(inputs=[tensor(shape=(-1, -2))]),
            metadata(outputs=[]),
            metadata().replace(b"[1, 2]", b"[Infinity, 2]"),
            b"[" * 100000,
        ):
            with self.subTest(described[:300]), Server(described) as server:
                with connect(server.url, 60) as client:
                    self.fails("protocol", lambda: client.model("m"), "m")

    def test_longer_than_the_model_allows_are_not_read_to_their_end(self):
        # The announced number of bytes never arrives. The client must refuse the answer by its announced
        # length: it must neither wait for these bytes nor allocate memory for them.
        with Server(metadata(), bytes((16 << 20) + 9), 1 << 50) as server, connect(server.url, 60) as client:
            self.fails("protocol", lambda: client.infer("m", [bytes(8)], 60), "16,777,224 bytes")

    def test_truncated_are_errors(self):
        with Server(metadata(), bytes(4), 8) as server, connect(server.url, 60) as client:
            self.fails("unavailable", lambda: client.infer("m", [bytes(8)], 60))


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="millrace-client")
        self.addCleanup(self.folder.cleanup)

    def file(self, name, data=None):
        path = os.path.join(self.folder.name, name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def run_client(self, url, *more):
        command = [sys.executable, "-B", "-m", "millrace_client", "--url", url, "--model", "m", *more]
        environment = {**os.environ, "PYTHONPATH": CLIENT}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=environment
        )

    def refused(self, run, *words):
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        for word in ("millrace-client: error: ", *words):
            self.assertIn(word, run.stderr)

    def test_refuses_key_and_token_files_that_are_not_ascii(self):
        path = self.file("secrets", b"1 \xff\xfe\n")
        self.refused(
            self.run_client("udp://127.0.0.1:1", "--input", "x", "--key-id", "1", "--keys", path), path, "ASCII"
        )
        self.refused(self.run_client("http://127.0.0.1:1", "--input", "x", "--token-file", path), path, "ASCII")

    def test_refuses_an_unwritable_output_before_it_sends_a_request(self):
        write_npy(self.file("x.npy"), "<f4", (1, 2), bytes(8))
        with Server(metadata()) as server:
            for target, wrong in (
                (self.file("absent/y.npy"), "there is no directory " + self.file("absent")),
                (self.folder.name, "is a directory"),
            ):
                run = self.run_client(server.url, "--input", self.file("x.npy"), "--output", target)
                self.refused(run, "--output", wrong)
            self.assertEqual(server.inferences, 0)

    def test_sends_and_writes_bf16_as_integers_with_its_bits(self):
        bits = array.array("H", (0x3F80, 0xC000)).tobytes()
        write_npy(self.file("x.npy"), "<u2", (1, 2), bits)
        described = metadata([tensor("x", "BF16")], [tensor("y", "BF16")])
        with Server(described, bits[::-1]) as server:
            run = self.run_client(server.url, "--input", self.file("x.npy"), "--output", self.file("y.npy"))
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue(server.asked.endswith(bits))
        self.assertEqual(read_npy(self.file("y.npy")), ("<u2", (1, 2), bits[::-1]))


class WriteNpy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="millrace-client")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "y.npy")
        write_npy(self.path, "|u1", (3,), b"abc")

    def test_a_failed_write_keeps_only_the_older_file(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as on a full disk
        try:
            with self.assertRaises(OSError):
                write_npy(self.path, "|u1", (100_000,), bytes(100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual(read_npy(self.path), ("|u1", (3,), b"abc"))
        self.assertEqual(os.listdir(self.folder.name), ["y.npy"])

    def test_writes_through_links_and_into_pipes(self):
        link = os.path.join(self.folder.name, "link")
        os.symlink("y.npy", link)
        write_npy(link, "|u1", (2,), b"de")
        self.assertTrue(os.path.islink(link))
        self.assertEqual(read_npy(self.path), ("|u1", (2,), b"de"))
        reader, writer = os.pipe()
        write_npy(f"/proc/self/fd/{writer}", "|u1", (1,), b"f")
        os.close(writer)
        with open(reader, "rb") as pipe:
            self.assertTrue(pipe.read().endswith(b"\nf"))


class Wheel(unittest.TestCase):
    def test_is_compressed(self):
        spec = importlib.util.spec_from_file_location("build_wheel", os.path.join(CLIENT, "build_wheel.py"))
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        with tempfile.TemporaryDirectory(prefix="millrace-client") as folder:
            with zipfile.ZipFile(os.path.join(folder, build.build_wheel(folder))) as wheel:
                self.assertIsNone(wheel.testzip())
                files = {file.filename: file for file in wheel.infolist()}
        largest = files["millrace_client/udp_client.py"]
        self.assertEqual(largest.compress_type, zipfile.ZIP_DEFLATED)
        self.assertLess(largest.compress_size, largest.file_size)


if __name__ == "__main__":
    unittest.main()
