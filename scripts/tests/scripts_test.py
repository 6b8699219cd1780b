#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The other checks, and the summary of a test run, each fed with what it must find."""
import importlib.machinery
import importlib.util
import io
import pathlib
import tempfile
import unittest
from contextlib import redirect_stdout


def load(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(pathlib.Path(__file__).resolve().parent.parent / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


sources, docs, summary = load("check-sources"), load("check-docs"), load("test-summary")


class Sources(unittest.TestCase):
    def test_each_folder_has_its_licence(self):
        apache = "// SPDX-License-Identifier: Apache-2.0\n"
        dual = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n"
        self.assertEqual([], sources.check_file("base/a.cpp", apache))
        self.assertEqual([], sources.check_file("bpf-progs/src/a.bpf.c", dual))
        self.assertEqual([], sources.check_file("scripts/a", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"))
        self.assertEqual(1, len(sources.check_file("bpf-progs/src/a.bpf.c", apache)))
        self.assertEqual(1, len(sources.check_file("base/a.cpp", dual)))
        self.assertEqual(1, len(sources.check_file("base/a.cpp", "int x;\n")))
        self.assertEqual(1, len(sources.check_file("scripts/a", "#!/bin/sh\n")))

    def test_a_path_of_somebodys_machine_is_named(self):
        self.assertEqual(1, len(sources.check_file("README.md", "see /wor" + "k/main\n")))
        self.assertEqual([], sources.check_file("README.md", "see docs/guide\n"))


class Docs(unittest.TestCase):
    ABI = "enum xv_reason {\n\tXV_PASS_TTL = 1,\t/* XV_PASS_OTHER */\n\tXV_DROP_SPOOFED,\n\tXV_ERR_DOWN,\n\tXV_REASON_MAX,\n};\n"

    def test_reasons_of_page_and_header_are_the_same(self):
        self.assertEqual([], docs.check_reasons(self.ABI, "`pass_ttl` `drop_spoofed` `error_down`"))
        self.assertEqual(2, len(docs.check_reasons(self.ABI, "`pass_ttl` `drop_spoofed` `error_gone`")))

    NET_CONF = ('constexpr std::array<std::string_view, 3> known{"mtu", "nic", "chain"};\n'
                'for (const char* key : {"chain"})\n    if (const Json* value = find_member(plugin, key)) return not_served(key, *value);\n'
                'find_member_any_case(*source.runtime_config, "mac")')
    REQUESTS = ('constexpr std::array<std::string_view, 1> known_keys{"policy"};\n'
                'constexpr std::array<std::string_view, 1> permissions{"arming"};')
    GUIDE = "| `mtu` | 0 |\n| `nic` | |\n| `xveth.dev/policy` | |\n| `allow.arming` | `mac` |\n## Reserved\n| `chain` | |\n## Files\n| `/run` |\n"

    def test_keys_of_page_and_parser_are_the_same(self):
        check = lambda guide: docs.check_keys(self.NET_CONF, self.REQUESTS, guide)
        self.assertEqual([], check(self.GUIDE))
        for key in ("mtu", "xveth.dev/policy", "allow.arming", "mac"):
            self.assertEqual([f"configuration.md lacks {key}"], check(self.GUIDE.replace(f"`{key}`", "")))
        self.assertEqual(["configuration.md does not say that chain is refused"], check("| `chain` |\n" + self.GUIDE.replace("`chain`", "")))
        self.assertEqual(["configuration.md names speed, which the parser does not know"], check("| `speed` | |\n" + self.GUIDE))

    def test_the_example_is_the_shipped_one(self):
        self.assertEqual([], docs.check_example("a\n```json\n{\"a\": 1}\n```\n", '{"a":1}'))
        self.assertEqual(1, len(docs.check_example("a\n```json\n{\"a\": 2}\n```\n", '{"a":1}')))
        self.assertEqual(1, len(docs.check_example("nothing", '{"a":1}')))

    def test_links_lead_somewhere(self):
        with tempfile.TemporaryDirectory() as directory:
            page = pathlib.Path(directory, "a.md")
            page.write_text("# The `first` one\n")
            good = "[a](a.md) [b](a.md#the-first-one) [c](#the-first-one) [d](https://example.org)\n```\n[e](gone.md)\n```\n"
            self.assertEqual([], docs.check_links(page, good))
            self.assertEqual(2, len(docs.check_links(page, "[a](gone.md) [b](a.md#second)")))


class Summary(unittest.TestCase):
    def last_line(self, *cases):
        with tempfile.TemporaryDirectory() as directory, redirect_stdout(io.StringIO()) as printed:
            pathlib.Path(directory, "unit.xml").write_text("<testsuite>" + "".join(cases) + "</testsuite>")
            code = summary.main(directory)
        return code, printed.getvalue().splitlines()[-1]

    @staticmethod
    def case(output, inner="", status="run"):
        return f'<testcase name="x" status="{status}">{inner}<system-out>{output}</system-out></testcase>'

    def test_cases_inside_a_program_are_counted(self):
        output = "[  PASSED  ] 5 tests.\n[  SKIPPED ] 2 tests, listed below:\n"
        self.assertEqual((0, "8 passed, 0 failed, 2 skipped"),
                         self.last_line(self.case(output), self.case("=== 1 passed in 0.1s ===\n"), self.case("1 passed in 2.34s\n"),
                                        self.case("fine")))

    def test_failures_are_counted_even_without_a_summary(self):
        failed = self.case("[  PASSED  ] 1 test.\n[  FAILED  ] 3 tests, listed below:\n", "<failure/>", "fail")
        self.assertEqual((1, "1 passed, 4 failed, 0 skipped"), self.last_line(failed, self.case("", "<failure/>", "fail")))

    def test_nothing_run_is_no_success(self):
        self.assertEqual((1, "0 passed, 0 failed, 1 skipped"), self.last_line(self.case("", "<skipped/>", "notrun")))


if __name__ == "__main__":
    unittest.main()
