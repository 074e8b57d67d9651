"""Several threads on one engine, and Ctrl-C while compiling. Runs in the environment of in_wheel.py."""

import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import tenon

MODELS = pathlib.Path(os.environ["TENON_MODELS"])


def in_threads(work, arguments):
    """Does the work of each argument in a thread of its own."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Threads(unittest.TestCase):
    def test_one_engine_in_many(self):
        engine = tenon.compile(MODELS / "linear.onnx", threads=1)
        engine = tenon.load(engine._file(), threads=1)
        weight = np.load(MODELS / "linear.npy")
        failures, sessions = [], set()

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(100):
                x = rng.standard_normal((int(rng.integers(1, 9)), 8), np.float32)
                if not np.allclose(engine(x), np.maximum(x @ weight, 0), atol=1e-5):
                    failures.append(seed)
            sessions.add(engine._session())

        in_threads(work, range(8))
        self.assertEqual((failures, len(sessions)), ([], 8))

    def test_one_session_in_many(self):
        """They take turns: every answer is that of its own input, of either shape."""
        session = tenon.compile(MODELS / "linear.onnx", threads=2).session()
        weight = np.load(MODELS / "linear.npy")
        failures = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(500):
                x = rng.standard_normal((int(rng.integers(1, 9)), 8), np.float32)
                if not np.allclose(session(x), np.maximum(x @ weight, 0), atol=1e-5):
                    failures.append(seed)

        in_threads(work, range(8))
        self.assertEqual(failures, [])

    def test_a_fork_runs_what_was_loaded_before_and_after(self):
        engine = tenon.compile(MODELS / "linear.onnx", threads=2)
        x = np.ones((4, 8), np.float32)
        expected = engine(x)
        child = os.fork()
        if child == 0:
            again = tenon.load(engine._file(), threads=2)
            os._exit(0 if np.array_equal(engine(x), expected) and np.array_equal(again(x), expected) else 1)
        for _ in range(600):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.fail("the child hangs")
        self.assertEqual(status, 0)
        np.testing.assert_array_equal(engine(x), expected)

    def test_processes_get_engines(self):
        x = np.ones((4, 8), np.float32)
        compiled = tenon.compile(MODELS / "linear.onnx", threads=1)
        for engine in (compiled, tenon.load(compiled._file(), threads=1)):
            for method in ("fork", "spawn"):
                with self.subTest(method=method), multiprocessing.get_context(method).Pool(2) as pool:
                    for y, given in zip(pool.map(engine, [x, 2 * x]), [x, 2 * x]):
                        np.testing.assert_array_equal(y, engine(given))
            again = pickle.loads(pickle.dumps(engine.session()))
            np.testing.assert_array_equal(again(x), engine(x))

    def test_the_interpreter_ends_while_a_thread_runs(self):
        program = (
            "import sys, threading, numpy as np, tenon\n"
            "engine = tenon.load(sys.argv[1], threads=2)\n"
            "x = np.ones((4, 8), np.float32)\n"
            "def work():\n    while True:\n        engine(x)\n"
            "threading.Thread(target=work, daemon=True).start()\n"
            "engine(x)\n"
        )
        engine = tenon.compile(MODELS / "linear.onnx")
        subprocess.run([sys.executable, "-c", program, engine._file()], check=True, timeout=60)

    def test_compiling_in_several(self):
        engines = []

        def work(name):
            engines.append(tenon.compile(MODELS / f"{name}.onnx", cache=False))

        in_threads(work, ("linear", "two", "tiny", "linear"))
        self.assertEqual(len(engines), 4)

    def test_python_goes_on_while_compiling(self):
        ticks = 0
        done = threading.Event()

        def tick():
            nonlocal ticks
            while not done.is_set():
                ticks += 1
                time.sleep(0.002)

        thread = threading.Thread(target=tick)
        thread.start()
        tenon.compile(MODELS / "long.onnx", cache=False)
        done.set()
        thread.join()
        self.assertGreater(ticks, 20)


class Cancelling(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.output = os.path.join(self.folder.name, "model.tenon")

    def tearDown(self):
        self.assertEqual(os.listdir(self.folder.name), [], "something was left behind")
        self.folder.cleanup()

    def compile(self, progress):
        return tenon.compile(MODELS / "long.onnx", output=self.output, cache=False, progress=progress)

    def test_by_the_progress_function(self):
        for phase in ("import", "optimize", "codegen", "export"):
            with self.subTest(phase), self.assertRaises(tenon.CancelledError) as caught:
                self.compile(lambda name, fraction: name == phase)
            self.assertEqual((caught.exception.id, caught.exception.code), ("TN0407", 1))

    def test_by_an_exception_of_it(self):
        def fail(phase, fraction):
            raise LookupError("planted")

        with self.assertRaisesRegex(LookupError, "planted"):
            self.compile(fail)

    def test_by_the_keyboard(self):
        def press(phase, fraction):
            phases.append(phase)
            if phase == "codegen" and fraction > 0 and not pressed:
                pressed.append(phase)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)  # so that the main thread has seen it before the compilation can be done

        phases, pressed = [], []
        with self.assertRaises(KeyboardInterrupt):
            self.compile(press)
        self.assertNotIn("export", phases, "it went on to the end")
        engine = tenon.compile(MODELS / "tiny.onnx")  # and the next one works
        self.assertEqual(engine(np.ones(4, np.float32))[0], 2)

    def test_progress_grows(self):
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            tenon.compile(MODELS / "linear.onnx", output=os.path.join(folder, "m"), cache=False,
                          progress=lambda phase, fraction: seen.append((phase, fraction)))  # fmt: skip
        self.assertEqual([phase for phase, _ in seen][0], "import")
        self.assertTrue(all(0 <= fraction <= 1 for _, fraction in seen))
        self.assertEqual(seen[-1][1], 1)


if __name__ == "__main__":
    unittest.main()
