#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants violations of the include rule and expects scripts/check-includes to name each of them."""
import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "check-includes"
LOADER = importlib.machinery.SourceFileLoader("check_includes", str(SCRIPT))
check_includes = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_includes", LOADER))
LOADER.exec_module(check_includes)

ROOT = pathlib.PurePath("/project")


def problems_of_unit(source, *includes):
    """What the check says of one translation unit, fed in ninja's own format."""
    lines = [f"x.o: #deps {len(includes) + 1}, deps mtime 1 (VALID)", f"    {ROOT}/{source}"]
    lines += [f"    {include}" for include in includes]
    units = check_includes.parse_deps("\n".join(lines) + "\n\n", ROOT / "build")
    return check_includes.check_deps(units, ROOT)[0]


class DependencyRecords(unittest.TestCase):
    def test_lower_folders_and_system_headers_are_allowed(self):
        self.assertEqual([], problems_of_unit(
            "datapath/port.cpp", "../netlink/rtnl.hpp", f"{ROOT}/bpf-progs/include/abi.h", f"{ROOT}/base/result.hpp",
            "/usr/include/linux/types.h", "/usr/include/net/if.h", "/usr/include/c++/12/vector"))
        self.assertEqual([], problems_of_unit("netlink/rtnl.cpp", "/usr/include/libnl3/netlink/netlink.h"))
        self.assertEqual([], problems_of_unit("bpf-progs/loader/objects.cpp", "/usr/include/bpf/libbpf.h", "skel/xv.skel.h"))

    def test_a_lower_folder_that_includes_a_higher_one_is_named(self):
        found = problems_of_unit("base/files.cpp", f"{ROOT}/base/files.hpp", f"{ROOT}/datapath/node.hpp")
        self.assertEqual(["base/files.cpp reads /project/datapath/node.hpp: base may include no other folder"], found)

    def test_paths_relative_to_the_build_directory_are_resolved(self):
        self.assertEqual(1, len(problems_of_unit("base/files.cpp", "../datapath/node.hpp")))

    def test_netlink_and_bpf_programs_do_not_meet(self):
        self.assertEqual(1, len(problems_of_unit("netlink/rtnl.cpp", f"{ROOT}/bpf-progs/include/abi.h")))
        self.assertEqual(1, len(problems_of_unit("bpf-progs/loader/a.cpp", f"{ROOT}/netlink/rtnl.hpp")))

    def test_a_header_of_libnl_that_leaks_through_another_header_is_named(self):
        found = problems_of_unit("datapath/port.cpp", f"{ROOT}/netlink/rtnl.hpp", "/usr/include/libnl3/netlink/netlink.h")
        self.assertEqual(1, len(found))
        self.assertIn("only in netlink", found[0])

    def test_kernel_interfaces_outside_their_home_are_named(self):
        for header in ("linux/rtnetlink.h", "linux/genetlink.h", "linux/netfilter/nf_tables.h", "bpf/libbpf.h", "bpf/bpf.h"):
            self.assertEqual(1, len(problems_of_unit("attachment/add.cpp", f"/usr/include/{header}")), header)
        self.assertEqual(1, len(problems_of_unit("datapath/port.cpp", "/build/bpf-progs/skel/xv_nic.skel.h")))

    def test_black_box_tests_include_nothing_of_the_project(self):
        self.assertEqual(1, len(problems_of_unit("e2e/net.cpp", f"{ROOT}/base/netns.hpp")))


class Sources(unittest.TestCase):
    def problems_of(self, name, text):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for folder in ("base", "netlink", "datapath"):
                (root / folder).mkdir()
            (root / "datapath/node.hpp").write_text("")
            (root / name).write_text(text)
            return check_includes.check_sources([root / name], root)

    def test_a_header_that_nobody_compiles_is_judged_too(self):
        self.assertEqual(1, len(self.problems_of("base/new.hpp", '#include "datapath/node.hpp"\n')))
        self.assertEqual(1, len(self.problems_of("datapath/new.hpp", "#include <netlink/route/link.h>\n")))
        self.assertEqual([], self.problems_of("netlink/new.hpp", "#include <netlink/route/link.h>\n"))

    def test_namespace_and_lock_calls_stay_in_base(self):
        for call in ("setns(fd, 0);", "::unshare(CLONE_NEWNET);", "if (flock (fd, LOCK_EX) != 0) {}"):
            self.assertEqual(1, len(self.problems_of("datapath/new.cpp", f"void f() {{ {call} }}\n")), call)
            self.assertEqual([], self.problems_of("base/new.cpp", f"void f() {{ {call} }}\n"), call)

    def test_comments_strings_and_other_names_are_no_calls(self):
        text = '// setns(fd)\n/* flock(x) */ auto s = "unshare(x)"; void g() { node.setns(1); my_flock(2); }\n'
        self.assertEqual([], self.problems_of("datapath/new.cpp", text))

    def test_a_source_without_a_target_is_named(self):
        root = pathlib.Path("/project")
        self.assertEqual(["ctl/lost.cpp is compiled by no target"],
                         check_includes.check_all_compiled([root / "ctl/lost.cpp", root / "ctl/main.cpp"],
                                                           {root / "ctl/main.cpp"}, root))


if __name__ == "__main__":
    unittest.main()
