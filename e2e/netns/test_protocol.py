# SPDX-License-Identifier: Apache-2.0
"""The CNI protocol as a runtime meets it: versions, shapes of results, error codes, limits, odd but valid input."""

import json
import os
import re
import stat
import time

import pytest

from lib import cni, residue
from lib.cni import VERSIONS, call
from lib.topology import GATEWAY, Container, Topology
from lib.traffic import ping, tcp_works, udp_works

XVETH = os.path.join(cni.BIN_DIR, "xveth")
MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")


@pytest.fixture(scope="module")
def lab():
    world = Topology()
    yield world
    world.close()


@pytest.fixture
def untouched(lab):
    """Whatever the test asks for, the node must look the same afterwards."""
    before = residue.snapshot(lab)
    yield lab
    residue.assert_same(before, lab)


def verb(lab, name, conf="", **variables):
    return call(lab.node, name, conf, binary=XVETH, **variables)


# -- VERSION

@pytest.mark.parametrize("stdin, answered", [('{"cniVersion":"0.4.0"}', "0.4.0"), ("", "1.1.0"), ("{}", "1.1.0")])
def test_version_needs_nothing_but_the_command(untouched, stdin, answered):
    answer = verb(untouched, "VERSION", stdin, netns="dummy", ifname="dummy", path=["dummy"]).ok()
    assert answer == {"cniVersion": answered, "supportedVersions": VERSIONS}


def test_version_without_any_other_variable(untouched):
    answer = verb(untouched, "VERSION", "", CNI_CONTAINERID=None, CNI_NETNS=None, CNI_IFNAME=None, CNI_ARGS=None,
                  CNI_PATH=None)
    assert answer.ok()["supportedVersions"] == VERSIONS


def test_without_command_it_introduces_itself_on_stderr(untouched):
    process = cni.start(untouched.node, XVETH, cni.environment("", CNI_COMMAND=None), "")
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0 and out == ""
    assert "xveth" in err and "1.1.0" in err


# -- errors

@pytest.mark.parametrize("name", ["add", "FROB", "ADD "])
def test_unknown_command_is_code_4(untouched, name):
    verb(untouched, name, untouched.conf(), cid="c1", netns="/run/netns/x", ifname="eth0").error(4, "CNI_COMMAND")


@pytest.mark.parametrize("name, missing", [
    ("ADD", "CNI_CONTAINERID"), ("ADD", "CNI_NETNS"), ("ADD", "CNI_IFNAME"), ("DEL", "CNI_CONTAINERID"),
    ("DEL", "CNI_IFNAME"), ("CHECK", "CNI_CONTAINERID"), ("CHECK", "CNI_NETNS"), ("CHECK", "CNI_IFNAME")])
@pytest.mark.parametrize("how", [None, ""], ids=["absent", "empty"])
def test_missing_variable_is_named(untouched, name, missing, how):
    given = {"CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/x", "CNI_IFNAME": "eth0", missing: how}
    verb(untouched, name, untouched.conf(), **given).error(4, missing)


def test_all_missing_variables_are_named_at_once(untouched):
    verb(untouched, "ADD", untouched.conf(), CNI_CONTAINERID=None, CNI_NETNS=None, CNI_IFNAME=None).error(
        4, "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME")


@pytest.mark.parametrize("cid", ["a/b", "-x", ".x", "a b", "ä", "../x", "a\nb"])
@pytest.mark.parametrize("name", ["ADD", "CHECK", "DEL"])
def test_bad_container_id_is_code_4(untouched, name, cid):
    verb(untouched, name, untouched.conf(), cid=cid, netns=untouched.client.path, ifname="eth5").error(4, "CNI_CONTAINERID")


@pytest.mark.parametrize("ifname", ["a" * 16, "a/b", "a:b", "..", ".", "a b", "a\tb"])
@pytest.mark.parametrize("name", ["ADD", "DEL"])
def test_bad_interface_name_is_code_4(untouched, name, ifname):
    verb(untouched, name, untouched.conf(), cid="c1", netns=untouched.client.path, ifname=ifname).error(4, "CNI_IFNAME")


@pytest.mark.parametrize("stdin", ["", "{", "[]", "null", '"x"', '{"name":"n",}', "\x00"])
def test_stdin_that_is_no_object_is_code_6(untouched, stdin):
    verb(untouched, "ADD", stdin, cid="c1", netns=untouched.client.path, ifname="eth5").error(6)


@pytest.mark.parametrize("name", [None, "", "../x", "-x", "a/b", "a b"])
def test_bad_network_name_is_code_7(untouched, name):
    conf = untouched.conf()
    conf["name"] = name
    if name is None:
        del conf["name"]
    verb(untouched, "ADD", conf, cid="c1", netns=untouched.client.path, ifname="eth5").error(7, "name")


@pytest.mark.parametrize("version", ["9.0", "9.9.9", "1.2.0", "v1.0.0", "1.0", "1.0.0.0"])
def test_unknown_version_is_code_1_with_the_list(untouched, version):
    text = verb(untouched, "ADD", untouched.conf(version=version), cid="c1", netns=untouched.client.path,
                ifname="eth5").error(None, "1.1.0", "0.4.0")
    assert text


def test_unknown_version_has_code_1(untouched):
    verb(untouched, "ADD", untouched.conf(version="9.9.9"), cid="c1", netns=untouched.client.path, ifname="eth5").error(1)


def test_error_answer_carries_the_version_of_the_configuration(untouched):
    answer = verb(untouched, "ADD", untouched.conf(version="0.4.0", mtu="auto"), cid="c1", netns=untouched.client.path,
                  ifname="eth5")
    answer.error(7, "mtu", "auto")
    assert answer.json["cniVersion"] == "0.4.0"


@pytest.mark.parametrize("key, value", [
    ("mtu", ""), ("mtu", "auto"), ("mtu", -1), ("mtu", 1500.5), ("mtu", True), ("mtu", 4294967296), ("mtu", 10),
    ("queues", -1), ("queues", "many"), ("queues", 100000), ("localMtu", -5), ("nic", 7), ("nic", ["nic0", 3]),
    ("nicRequired", "maybe"), ("containerXdp", "mine"), ("policy", "quick"), ("spoofCheck", "perhaps"),
    ("fastPathTo", ["10.1.0.0/33"]), ("fastPathTo", ["nonsense"]), ("allowedSources", ["10.1.0/24"]), ("mode", "tunnel"),
    ("ipMasq", "perhaps")])
def test_wrong_value_is_code_7_naming_key_and_value(untouched, key, value):
    text = verb(untouched, "ADD", untouched.conf(**{key: value}), cid="c1", netns=untouched.client.path,
                ifname="eth5").error(7, key)
    shown = value[0] if isinstance(value, list) and isinstance(value[0], str) and value[0] != "nic0" else value
    assert str(shown).lower() in text.lower() or json.dumps(value, separators=(",", ":")) in text, text


@pytest.mark.parametrize("netns, kind", [("/etc/hostname", "file"), ("/tmp", "directory"), ("/proc/self/ns/mnt", "other namespace"),
                                         ("relative/path", "relative"), ("/run/netns/gone", "absent"), ("/" + "x" * 4000, "long")])
def test_netns_that_is_none_fails_add(untouched, netns, kind):
    answer = verb(untouched, "ADD", untouched.conf(), cid="c1", netns=netns, ifname="eth5")
    answer.error()
    assert answer.json["code"] in (4, 8), answer.json


def test_own_namespace_is_code_8_before_anything_is_touched(untouched):
    verb(untouched, "ADD", untouched.conf(), cid="c1", netns=untouched.node.path, ifname="eth5").error(8)
    verb(untouched, "ADD", untouched.conf(), cid="c1", netns="/proc/self/ns/net", ifname="eth5").error(8)


def test_own_namespace_on_del_touches_no_foreign_device(untouched):
    verb(untouched, "DEL", untouched.conf(), cid="c1", netns=untouched.node.path, ifname="nic0").ok()
    assert untouched.node.has_link("nic0")


# -- results

def expected_ips(result, version, pod_index):
    for ip in result["ips"]:
        assert ("version" in ip) == (version.startswith("0.")), ip
        if "version" in ip:
            assert ip["version"] == ("6" if ":" in ip["address"] else "4")
        assert ip["interface"] == pod_index
        assert ip["gateway"] == GATEWAY[6 if ":" in ip["address"] else 4]
        assert re.fullmatch(r"10\.2\.0\.\d+/24|fd00:2::[0-9a-f]+/64", ip["address"]), ip


@pytest.mark.parametrize("version", VERSIONS[2:])
def test_result_has_the_shape_of_the_version(clean_topology, version):
    lab = clean_topology
    runtime = lab.network(version=version, families=(4, 6))
    pod = lab.attach(runtime)
    result = pod.result
    assert result["cniVersion"] == version
    host, eth0 = result["interfaces"]
    link, host_link = pod.ns.link("eth0"), lab.node.link(host["name"])
    assert eth0["name"] == "eth0" and eth0["sandbox"] == pod.netns_path and eth0["mac"] == link["address"]
    assert host["mac"] == host_link["address"] and not host.get("sandbox") and len(host["name"]) <= 15
    for interface in result["interfaces"]:
        assert ("mtu" in interface) == (version == "1.1.0")
    expected_ips(result, version, pod_index=1)
    assert {r["dst"] for r in result["routes"]} == {"0.0.0.0/0", "::/0"}
    assert host_link["ifalias"] == f"xveth:{runtime.name}/{pod.cid}/eth0"
    known = {"cniVersion", "interfaces", "ips", "routes", "dns"}
    assert set(result) <= known, set(result) - known
    if version in ("0.4.0", "1.0.0", "1.1.0"):
        runtime.check(pod).ok()
    ping(pod.ns, GATEWAY[4])
    lab.detach(pod)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", None])
def test_result_of_the_first_versions(clean_topology, version):
    lab, pod = clean_topology, clean_topology.container()
    conf = lab.conf(families=(4, 6))
    if version is None:
        del conf["cniVersion"]
    else:
        conf["cniVersion"] = version
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    result = call(lab.node, "ADD", conf, **options).ok()
    assert result["cniVersion"] == (version or "0.1.0")
    assert re.fullmatch(r"10\.2\.0\.\d+/24", result["ip4"]["ip"]) and result["ip4"]["gateway"] == GATEWAY[4]
    assert re.fullmatch(r"fd00:2::[0-9a-f]+/64", result["ip6"]["ip"]) and result["ip6"]["gateway"] == GATEWAY[6]
    assert [r["dst"] for r in result["ip4"]["routes"]] == ["0.0.0.0/0"]
    assert [r["dst"] for r in result["ip6"]["routes"]] == ["::/0"]
    assert set(result) <= {"cniVersion", "ip4", "ip6", "dns"}
    ping(pod.ns, GATEWAY[4])
    call(lab.node, "DEL", conf, **options).ok()


def test_mtu_of_the_result_is_what_others_may_rely_on(topology):
    pod = topology.attach(topology.network(version="1.1.0", localSubnets=["10.2.0.0/24"]))
    assert next(i for i in pod.result["interfaces"] if i["name"] == "eth0")["mtu"] == 1500
    assert pod.ns.link("eth0")["mtu"] == 65000


@pytest.mark.parametrize("mtu, link_mtu", [(1400, 1400), ("1400", 1400), (9000, 9000), ("9001", 9001), (0, 1500), ("0", 1500), (None, 1500)])
def test_mtu_as_number_or_text(topology, mtu, link_mtu):
    pod = topology.attach(topology.network(localMtu=0, mtu=mtu))
    assert pod.ns.link("eth0")["mtu"] == link_mtu
    assert topology.node.link(pod.host_end)["mtu"] == link_mtu


def test_dns_of_the_configuration_is_in_the_result(topology):
    dns = {"nameservers": ["10.96.0.10"], "domain": "cluster.local", "search": ["a.b", "c.d"], "options": ["ndots:5"]}
    pod = topology.attach(topology.network(dns=dns))
    assert pod.result["dns"] == dns


def test_interface_name_of_15_bytes_and_long_ids(clean_topology):
    lab = clean_topology
    runtime = lab.network(name="n" + "e" * 199)  # host-local makes a directory of it
    pod = lab.container(cid="c" + "d" * 299, ifname="abcdefghijklmno")
    lab.attach(runtime, pod)
    assert pod.ns.has_link("abcdefghijklmno")
    runtime.check(pod).ok()
    ping(pod.ns, GATEWAY[4])
    lab.detach(pod)


def test_names_that_differ_only_in_where_they_are_cut_do_not_meet(clean_topology):
    lab, pods = clean_topology, []
    for cid, ifname in (("1234567891", "eth0"), ("1234567892", "eth0"), ("1234567891", "net1")):
        runtime = lab.network(name="same", subnets=["10.2.0.0/24"])
        pod = lab.container(cid=cid, ifname=ifname)
        pods.append(lab.attach(runtime, pod))
    assert len({p.host_end for p in pods}) == 3
    for other in pods[1:]:
        ping(pods[0].ns, other.address())
    for pod in pods:
        lab.detach(pod)


# -- odd but valid input

@pytest.mark.parametrize("extra", [
    {"cniVersions": ["0.4.0", "1.0.0"], "disableCheck": "true", "disableGC": True, "cni.dev/foo": {"x": 1}},
    {"args": {"cni": {"labels": [{"key": "app"}]}, "vendor": {"x": [1, 2.5, None]}}, "runtimeConfig": None},
    {"runtimeConfig": {}, "capabilities": {"portMappings": True}, "isGateway": True, "unknownKey": [[[[]]]]},
    {"dns": {}, "ipMasq": None, "mtu": None},
    {"runtimeConfig": {"io.kubernetes.cri.pod-annotations": {"k" * 100 + str(i): "v" * 900 for i in range(1000)}}},
], ids=["cni.dev", "args", "unknown", "null", "megabyte"])
def test_unknown_keys_are_tolerated(clean_topology, extra):
    pod = clean_topology.attach(clean_topology.network(version="1.1.0", **extra))
    ping(pod.ns, GATEWAY[4])
    clean_topology.detach(pod)


def test_any_layout_of_valid_json(clean_topology):
    lab, pod = clean_topology, clean_topology.container()
    text = json.dumps(lab.conf(), indent="\t").replace("\n", "\r\n") + "\r\n \t"
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    call(lab.node, "ADD", text, **options).ok()
    call(lab.node, "DEL", text, **options).ok()


def test_capitalised_runtime_config_keys(clean_topology):
    """containerd sends Go's field names, podman and CRI-O those of the conventions."""
    lab = clean_topology
    config = {"mac": "c2:11:22:33:44:55", "PortMappings": [{"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""}],
              "dns": {"Servers": ["10.96.0.10"], "Searches": ["a.b"], "Options": ["ndots:5"]},
              "bandwidth": {"IngressRate": 100_000_000, "IngressBurst": 4294967295, "EgressRate": 0, "EgressBurst": 0}}
    pod = lab.container()
    conf = lab.conf(capabilities={"mac": True, "dns": True, "bandwidth": True}, runtimeConfig=config)
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    result = call(lab.node, "ADD", conf, **options).ok()
    assert pod.ns.link("eth0")["address"] == "c2:11:22:33:44:55"
    assert next(i for i in result["interfaces"] if i["name"] == "eth0")["mac"] == "c2:11:22:33:44:55"
    call(lab.node, "DEL", conf, **options).ok()


@pytest.mark.parametrize("args", [
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1;K8S_POD_INFRA_CONTAINER_ID=abc;K8S_POD_UID=1-2-3",
    "IgnoreUnknown=1;K8S_POD_NAME=t2;MAC=02:11:22:33:44:55", "IgnoreUnknown=1;UNKNOWN=x", "IgnoreUnknown=true"])
def test_cni_args_of_real_runtimes(clean_topology, args):
    pod = clean_topology.attach(clean_topology.network(), args=args)
    if "MAC=" in args:
        assert pod.ns.link("eth0")["address"] == "02:11:22:33:44:55"
    clean_topology.detach(pod)


def test_address_asked_by_cni_args(clean_topology):
    pod = clean_topology.attach(clean_topology.network(), args="IgnoreUnknown=1;IP=10.2.0.77;XVETH_POLICY=stack")
    assert pod.addresses == ["10.2.0.77"]
    clean_topology.detach(pod)


def test_container_may_choose_free_by_cni_args_and_nothing_beyond_the_rules(clean_topology):
    lab = clean_topology
    pod = lab.attach(lab.network(), args="IgnoreUnknown=1;XVETH_CONTAINER_XDP=free")
    assert "xdp" not in pod.ns.link("eth0")
    assert pod.ns.features("eth0")["generic-receive-offload"]
    lab.detach(pod)
    conf = lab.conf(policy="stack")
    call(lab.node, "ADD", conf, cid="c9", netns=lab.container().netns_path, ifname="eth0",
         args="XVETH_POLICY=fast").error(7, "policy", "fast")
    call(lab.node, "ADD", lab.conf(), cid="c9", netns=lab.container().netns_path, ifname="eth0",
         args="XVETH_CONTAINER_XDP=bogus").error(7, "bogus")


def test_stdout_is_json_and_nothing_else_whatever_the_log_level(clean_topology):
    pod, conf = clean_topology.container(), clean_topology.conf()
    call(clean_topology.node, "ADD", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0",
         LIBBPF_LOG_LEVEL="debug", LIBBPF_STRICT_MODE="0xffffffff", XVETH_LOG="/proc/nonexistent/log").ok()
    call(clean_topology.node, "DEL", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0",
         XVETH_LOG="/dev/full").ok()


# -- CHECK, GC and STATUS by version

def test_check_needs_prev_result(topology):
    runtime = topology.network()
    pod = topology.attach(runtime)
    conf = {**runtime.plugins[0], "name": runtime.name}
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    call(topology.node, "CHECK", conf, **options).error(7, "prevResult")
    stranger = {**pod.result, "interfaces": [], "ips": []}
    call(topology.node, "CHECK", {**conf, "prevResult": stranger}, **options).error(7)


@pytest.mark.parametrize("name, version", [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "1.0.0")])
def test_verb_that_the_version_does_not_have_is_code_1(untouched, name, version):
    verb(untouched, name, untouched.conf(version=version), cid="c1" if name == "CHECK" else "",
         netns=untouched.client.path if name == "CHECK" else "", ifname="eth0" if name == "CHECK" else "").error(1)


def gc(runtime, **keys):
    conf = {**runtime.plugins[0], "name": runtime.name, **keys}
    return call(runtime.node, "GC", conf)


def valid(*pods):
    return [{"containerID": p.cid, "ifname": p.ifname} for p in pods]


def test_gc_without_a_list_does_nothing(topology):
    runtime = topology.network(version="1.1.0")
    pod = topology.attach(runtime)
    gc(runtime)
    runtime.check(pod).ok()
    ping(pod.ns, GATEWAY[4])


@pytest.mark.parametrize("keys", [("cni.dev/valid-attachments",), ("cni.dev/attachments",),
                                  ("cni.dev/valid-attachments", "cni.dev/attachments")])
def test_gc_keeps_what_is_listed_and_removes_the_rest_of_this_network_only(clean_topology, keys):
    lab = clean_topology
    runtime, other = lab.network(version="1.1.0"), lab.network(version="1.1.0", subnets=["10.3.0.0/24"])
    keep, stale, foreign = lab.attach(runtime), lab.attach(runtime), lab.attach(other)
    gc(runtime, **{key: valid(keep) for key in keys}).ok()
    assert not lab.node.has_link(stale.host_end)
    runtime.check(keep).ok()
    other.check(foreign).ok()
    udp_works(keep.ns, foreign.ns, foreign.address())
    lab.detach(stale)
    lab.detach(keep)
    lab.detach(foreign)


@pytest.mark.parametrize("empty", [None, []], ids=["null", "empty"])
def test_gc_with_an_empty_list_removes_all(clean_topology, empty):
    lab = clean_topology
    runtime = lab.network(version="1.1.0")
    lab.attach(runtime)
    pod = lab.attach(runtime)
    pod.ns.close()
    gc(runtime, **{"cni.dev/valid-attachments": empty, "cni.dev/attachments": empty}).ok()


def test_gc_twice_and_without_any_attachment(clean_topology):
    runtime = clean_topology.network(version="1.1.0")
    for _ in range(2):
        gc(runtime, **{"cni.dev/valid-attachments": []}).ok()


def test_gc_does_not_need_the_programs(untouched):
    """Nothing was ever added: GC and DEL must not load or pin anything for it."""
    world = Topology()
    before = residue.files_below("/sys/fs/bpf")
    runtime = world.network(version="1.1.0")
    gc(runtime, **{"cni.dev/valid-attachments": []}).ok()
    runtime.delete(world.container())
    assert residue.files_below("/sys/fs/bpf") == before
    world.close()


def test_status_of_a_healthy_node(untouched):
    call(untouched.node, "STATUS", untouched.conf(version="1.1.0")).ok()


@pytest.mark.parametrize("keys, word", [
    ({"nic": "nosuchnic"}, "nosuchnic"), ({"ipam": {"type": "nosuchipam"}}, "nosuchipam")])
def test_status_says_why_an_add_would_fail(untouched, keys, word):
    answer = call(untouched.node, "STATUS", untouched.conf(version="1.1.0", **keys))
    answer.error(None, word)
    assert answer.json["code"] in (50, 51), answer.json
    pod = Container()
    call(untouched.node, "ADD", untouched.conf(version="1.1.0", **keys), cid="c1", netns=pod.netns_path, ifname="eth0").error()
    pod.ns.close()


def test_status_is_quick_and_takes_no_lock(topology):
    runtime = topology.network(version="1.1.0")
    topology.attach(runtime)
    conf = {**runtime.plugins[0], "name": runtime.name}
    holders = [open(path, "rb") for path in residue.files_below("/run/xveth") if "/locks/" in path]
    import fcntl
    for file in holders:
        fcntl.flock(file, fcntl.LOCK_EX)
    begin = time.monotonic()
    for _ in range(20):
        call(topology.node, "STATUS", conf).ok()
    assert (time.monotonic() - begin) / 20 < 0.1  # process start, nsenter and a busy machine included
    for file in holders:
        file.close()


def test_status_loads_and_pins_nothing():
    world = Topology()
    before = residue.files_below("/sys/fs/bpf") | residue.files_below("/run/xveth")
    call(world.node, "STATUS", world.conf(version="1.1.0")).ok()
    assert residue.files_below("/sys/fs/bpf") | residue.files_below("/run/xveth") == before
    world.close()


# -- IPAM that is not host-local

def ipam_script(directory, body):
    os.makedirs(directory, exist_ok=True)
    path = f"{directory}/fakeipam"
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n" + body)
    os.chmod(path, stat.S_IRWXU)
    return cni.plugin_path(directory)


def test_ipam_that_answers_in_the_oldest_form(clean_topology):
    lab = clean_topology
    path = ipam_script(f"{lab.directory}/bin", """cat >/dev/null
        [ "$CNI_COMMAND" = ADD ] && echo '{"cniVersion":"0.2.0","ip4":{"ip":"10.2.0.9/24","gateway":"10.2.0.1","routes":[{"dst":"0.0.0.0/0"}]}}'
        exit 0""")
    conf, pod = lab.conf(ipam={"type": "fakeipam"}), lab.container()
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0", "path": path}
    result = call(lab.node, "ADD", conf, **options).ok()
    assert result["ips"][0]["address"] == "10.2.0.9/24"
    ping(pod.ns, "10.2.0.1")
    call(lab.node, "DEL", conf, **options).ok()


def test_ipam_error_comes_up_unchanged(clean_topology):
    lab = clean_topology
    path = ipam_script(f"{lab.directory}/bin", """cat >/dev/null
        [ "$CNI_COMMAND" = ADD ] || exit 0
        echo '{"cniVersion":"1.0.0","code":142,"msg":"the pool is on holiday"}'; exit 1""")
    pod = lab.container()
    call(lab.node, "ADD", lab.conf(ipam={"type": "fakeipam"}), cid=pod.cid, netns=pod.netns_path, ifname="eth0",
         path=path).error(142, "the pool is on holiday")


@pytest.mark.parametrize("output", ["", "not json", "[]", "null", '{"ips":[{"address":"10.2.0.9"}]}', '{"cniVersion":"1.0.0"}'])
def test_ipam_that_answers_nonsense(clean_topology, output):
    lab = clean_topology
    path = ipam_script(f"{lab.directory}/bin", f"""cat >/dev/null
        [ "$CNI_COMMAND" = ADD ] && printf '%s' '{output}'
        exit 0""")
    pod = lab.container()
    call(lab.node, "ADD", lab.conf(ipam={"type": "fakeipam"}), cid=pod.cid, netns=pod.netns_path, ifname="eth0",
         path=path).error(None, "fakeipam")


def test_ipam_gets_the_same_stdin_and_none_of_our_keys(clean_topology):
    lab = clean_topology
    path = ipam_script(f"{lab.directory}/bin", f"""cat > {lab.directory}/stdin-$CNI_COMMAND; printf '%s' "$CNI_ARGS" > {lab.directory}/args-$CNI_COMMAND
        [ "$CNI_COMMAND" = ADD ] && echo '{{"cniVersion":"1.0.0","ips":[{{"address":"10.2.0.9/24"}}]}}'
        exit 0""")
    pod = lab.container()
    text = json.dumps(lab.conf(ipam={"type": "fakeipam"}), indent=3)
    call(lab.node, "ADD", text, cid=pod.cid, netns=pod.netns_path, ifname="eth0", path=path,
         args="IgnoreUnknown=1;XVETH_POLICY=stack;K8S_POD_NAME=x").ok()
    with open(f"{lab.directory}/stdin-ADD", encoding="ascii") as file:
        assert file.read() == text
    with open(f"{lab.directory}/args-ADD", encoding="ascii") as file:
        assert file.read() == "IgnoreUnknown=1;K8S_POD_NAME=x"
    call(lab.node, "DEL", text, cid=pod.cid, netns=pod.netns_path, ifname="eth0", path=path).ok()


@pytest.mark.parametrize("ipam", [None, {}, {"type": ""}, "absent"])
def test_without_ipam_there_is_an_interface_without_addresses(clean_topology, ipam):
    lab, pod = clean_topology, clean_topology.container()
    conf = lab.conf()
    conf.pop("ipam")
    if ipam != "absent":
        conf["ipam"] = ipam
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    result = call(lab.node, "ADD", conf, **options).ok()
    assert not result.get("ips") and pod.ns.has_link("eth0")
    call(lab.node, "DEL", conf, **options).ok()


@pytest.mark.parametrize("ipam", [[], "host-local", {"type": "a/b"}, {"type": 5}, {"type": "../host-local"}])
def test_ipam_of_a_wrong_kind_is_code_7(untouched, ipam):
    call(untouched.node, "ADD", untouched.conf(ipam=ipam), cid="c1", netns=untouched.client.path, ifname="eth5").error(7, "ipam")
