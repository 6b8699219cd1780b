# SPDX-License-Identifier: Apache-2.0
"""The fast path bypasses netfilter and tc: it may be taken only where nothing there has a say."""

import pytest

from lib.cni import call
from lib.netns import CommandFailed
from lib.stats import Watch, xvethctl
from lib.topology import NODE
from lib.traffic import UdpFlow, ping, tcp_works, udp_works

N = 10


def pair(topology, **keys):
    """Two containers of one network; attached now, so that they see the rules of now."""
    runtime = topology.network(localMtu=0, **keys)
    ping(topology.client, NODE[4], count=1)
    return topology.attach(runtime), topology.attach(runtime)


def traffic_works(topology, a, b):
    with Watch(topology) as seen:
        udp_works(a.ns, b.ns, b.address(), count=N)
        udp_works(topology.client, a.ns, a.address(), count=N)
        tcp_works(topology.client, b.ns, b.address(), length=50_000)
        tcp_works(a.ns, b.ns, b.address(), length=50_000)
    return seen


def is_fast(topology, a, b):
    seen = traffic_works(topology, a, b)
    assert seen[a].from_port > N and seen[b].to_port > N and seen["nic0"].from_port > N, seen
    return True


def is_stack(topology, a, b):
    """All of it works, and none of it is redirected."""
    seen = traffic_works(topology, a, b)
    moved = {str(p): (seen[p].to_port, seen[p].from_port) for p in (a, b, "nic0")}
    assert set(moved.values()) == {(0, 0)}, seen
    return True


def test_auto_without_any_rule_is_fast(topology):
    assert is_fast(topology, *pair(topology))


def test_stack_never_redirects(topology):
    assert is_stack(topology, *pair(topology, policy="stack", fastPathTo=["10.1.0.0/24"]))


def test_one_stack_container_among_fast_ones(topology):
    fast = topology.network(localMtu=0)
    slow = topology.network(name="slow", localMtu=0, policy="stack", subnets=["10.3.0.0/24"])
    a, b, c = topology.attach(fast), topology.attach(fast), topology.attach(slow)
    with Watch(topology) as seen:
        udp_works(a.ns, b.ns, b.address(), count=N)
        udp_works(a.ns, c.ns, c.address(), count=N)
        udp_works(c.ns, b.ns, b.address(), count=N)
    assert (seen[a].from_port, seen[b].to_port) == (N, N), seen
    assert seen[c].to_port == seen[c].from_port == 0 and seen.reason(a, "pass_policy") + seen.reason(a, "pass_cached") >= 1, seen


@pytest.mark.parametrize("rules", [
    ("forward", ["ip daddr 10.2.0.200 drop"], "filter"), ("forward", ["udp dport 1 reject"], "filter"),
    ("forward", ["meta mark set 7"], "filter"), ("prerouting", ["tcp dport 1 redirect to :2"], "nat"),
    ("postrouting", ["ip saddr 10.2.0.0/24 counter"], "filter"), ("forward", ["udp dport 1 ip ttl set 9"], "filter"),
    ("forward", ["ip daddr vmap { 10.2.0.200 : drop }"], "filter"), ("forward", ["ct state != invalid udp dport 1 drop"], "filter")],
    ids=["drop", "reject", "mark", "redirect", "counter", "rewrite", "verdict-map", "not-invalid"])
def test_auto_beside_rules_that_have_a_say_is_the_stacks(topology, rules):
    hook, lines, kind = rules
    topology.node.chain(hook, *lines, kind=kind, priority="-100" if kind == "nat" else "0")
    assert is_stack(topology, *pair(topology))


def test_auto_beside_a_queue_to_user_space(topology):
    try:
        topology.node.chain("forward", "queue num 0 bypass")
    except CommandFailed as failed:
        if "Could not process rule: No such file or directory" not in str(failed):  # ENOENT is the kernel's answer to an expression it lacks
            raise
        pytest.skip("this kernel's nf_tables has no queue expression")
    assert is_stack(topology, *pair(topology))


def test_auto_beside_a_chain_that_drops_by_default(topology):
    topology.node.nft("table inet f {\nchain c {\ntype filter hook forward priority 0; policy drop;\nct state established,related accept\n"
                      "ip daddr 10.2.0.0/16 accept\n}\n}")
    assert is_stack(topology, *pair(topology))


def test_auto_beside_old_iptables_rules(topology):
    topology.node.run("iptables", "-A", "FORWARD", "-d", "10.2.0.200", "-j", "DROP")
    assert is_stack(topology, *pair(topology))


def test_denied_traffic_stays_denied(topology):
    """A network policy "nobody reaches b", there before the containers came."""
    topology.node.chain("forward", "ip daddr 10.2.0.77 drop")
    runtime = topology.network(localMtu=0)
    a, b = topology.attach(runtime), topology.attach(runtime, args="IgnoreUnknown=1;IP=10.2.0.77")
    for client in (topology.client, a.ns):
        flow = UdpFlow(client, b.ns, b.address())
        assert flow.request_is_lost()
        flow.close()
    udp_works(topology.client, a.ns, a.address())


def test_auto_beside_ip_rule_by_mark(topology):
    topology.node.ip("rule add fwmark 7 table 100")
    assert is_stack(topology, *pair(topology))


def test_auto_beside_xfrm_policy(topology):
    topology.node.ip("xfrm policy add src 10.2.0.0/16 dst 10.8.0.0/16 dir fwd action block")
    assert is_stack(topology, *pair(topology))


def test_auto_beside_a_shaper_on_the_nic(topology):
    topology.node.run("tc", "qdisc", "add", "dev", "nic0", "root", "tbf", "rate", "100mbit", "burst", "64k", "latency", "400ms")
    a, b = pair(topology)
    with Watch(topology) as seen:
        udp_works(topology.client, a.ns, a.address(), count=N)
    assert seen["nic0"].from_port == seen["nic0"].to_port == 0, seen


def test_shaper_on_the_host_end_keeps_the_port_off_the_fast_path(topology):
    """Present when the attachment is looked at again: a second ADD of a chained kind, or the bandwidth asked for at once."""
    runtime = topology.network(localMtu=0, runtimeConfig={"bandwidth": {"ingressRate": 1_000_000, "ingressBurst": 100_000}})
    a, b = topology.attach(runtime), topology.attach(runtime)
    assert is_stack(topology, a, b)


def test_chained_port_whose_host_end_is_shaped_already(topology):
    ptp = topology.network(type="ptp")
    pods = []
    for _ in range(2):
        pod = topology.attach(ptp)
        topology.node.run("tc", "qdisc", "add", "dev", pod.host_end, "root", "tbf", "rate", "100mbit", "burst", "64k", "latency", "400ms")
        pods.append(pod)

    for pod in pods:
        call(topology.node, "ADD", {"type": "xveth", "cniVersion": "1.0.0", "name": ptp.name, "prevResult": pod.result},
             cid=pod.cid, netns=pod.netns_path, ifname="eth0").ok()
    assert is_stack(topology, *pods)


def test_fast_is_the_operators_word(topology):
    topology.node.chain("forward", "ip daddr 10.2.0.200 drop")
    assert is_fast(topology, *pair(topology, policy="fast"))


def test_known_rules_leave_it_fast(topology):
    topology.node.chain("forward", "ct state invalid counter drop", "ip daddr 10.0.0.0/8 counter accept")
    topology.node.run("iptables-nft", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
    assert is_fast(topology, *pair(topology))


def test_own_masquerade_leaves_it_fast(topology):
    assert is_fast(topology, *pair(topology, ipMasq=True))


def test_container_may_tighten_for_itself(topology):
    runtime = topology.network(localMtu=0)
    a = topology.attach(runtime, args="IgnoreUnknown=1;XVETH_POLICY=stack")
    b = topology.attach(runtime)
    assert is_stack_between(topology, a, b)


def is_stack_between(topology, a, b):
    with Watch(topology) as seen:
        udp_works(a.ns, b.ns, b.address(), count=N)
        udp_works(topology.client, a.ns, a.address(), count=N)
    assert seen[a].from_port == seen[a].to_port == 0, seen
    return True


def test_doctor_says_why_a_path_is_slow(topology):
    topology.node.chain("forward", "ip daddr 10.2.0.200 drop")
    pair(topology)
    out = xvethctl(topology.node, "doctor", check=False)
    assert "policy" in out.lower() or "forward" in out.lower(), out
