#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo runs to its end beside another one that is killed, and the host looks as before. As root."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

DEMO = pathlib.Path(__file__).resolve().parent.parent / "demo"


def start():
    return subprocess.Popen([DEMO], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def read_until(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the demo ended before it said '{text}'")


def processes_in_session(session):
    return subprocess.run(["pgrep", "--session", str(session)], capture_output=True, text=True).stdout.split()


class Demo(unittest.TestCase):
    def test_it_ends_well_beside_one_that_is_stopped(self):
        whole = start()
        for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(signal=number.name), start() as other:
                read_until(other, "Conversations")
                to = os.kill if number == signal.SIGKILL else os.killpg  # a terminal signals all, an out-of-memory killer one
                to(other.pid, number)
                other.communicate(timeout=30)
                self.assertEqual(expected, other.returncode)
                end = time.monotonic() + 10
                while (left := processes_in_session(other.pid)) and time.monotonic() < end:
                    time.sleep(0.1)
                self.assertEqual([], left)
        output, _ = whole.communicate(timeout=240)
        self.assertEqual(0, whole.returncode, output)
        for line in ("xveth against ptp", "xveth against bridge", "host ends left: 0, ports left: 0"):
            self.assertIn(line, output)


if __name__ == "__main__":
    unittest.main()
