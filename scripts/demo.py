# SPDX-License-Identifier: Apache-2.0
"""What scripts/demo shows, inside its private mount namespace.

    client ═══ wire ═══ nic0 (node) ── host ends ═══ eth0 of pod-a, pod-b

Client, node and pods are network namespaces. The client's end of the wire is armed as a real NIC would be: GRO on, so that
redirected frames can leave the node, and checksums finished by software, so that frames are whole when they enter it.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

PORT = 7777
CLIENT = {4: "10.1.0.1", 6: "fd00:1::1"}
NODE = {4: "10.1.0.2", 6: "fd00:1::2"}
DATAGRAMS = 500
STREAM_BYTES = 1 << 20
CNI_PATHS = ("/usr/lib/cni", "/opt/cni/bin")

NETWORK = {
    "cniVersion": "1.0.0",
    "name": "demo",
    "type": "xveth",
    "nic": "nic0",
    "fastPathTo": ["10.1.0.0/24", "fd00:1::/64"],
    "ipam": {
        "type": "host-local",
        "dataDir": "/run/demo-addresses",
        "ranges": [[{"subnet": "10.2.0.0/24"}], [{"subnet": "fd00:2::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    },
}


class Failed(Exception):
    pass


def run(*command, ns=None, **options):
    if ns:
        command = ("nsenter", f"--net=/run/netns/{ns}", *command)
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


# ---- the two ends of a conversation, each a process in its namespace

def answer(family):
    """Serves one family: echoes datagrams, and swallows streams before it answers with their length."""
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    datagrams, streams = socket.socket(kind, socket.SOCK_DGRAM), socket.socket(kind, socket.SOCK_STREAM)
    streams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    datagrams.bind(("", PORT))
    streams.bind(("", PORT))
    streams.listen()
    if os.fork() == 0:
        while True:
            datagrams.sendto(*datagrams.recvfrom(65535))
    print("ready", flush=True)
    while True:
        stream, _ = streams.accept()
        length = sum(len(data) for data in iter(lambda: stream.recv(1 << 16), b""))
        stream.sendall(str(length).encode())
        stream.close()


def talk_udp(address):
    talker = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    talker.settimeout(2)
    talker.connect((address, PORT))
    for number in range(DATAGRAMS):
        talker.send(b"%d" % number)
        if talker.recv(2048) != b"%d" % number:
            raise Failed("another datagram came back")
    return f"{DATAGRAMS} datagrams, {DATAGRAMS} answers"


def talk_tcp(address):
    talker = socket.create_connection((address, PORT), timeout=5)
    talker.sendall(bytes(STREAM_BYTES))
    talker.shutdown(socket.SHUT_WR)
    received = int(talker.recv(64))
    if received != STREAM_BYTES:
        raise Failed(f"{received} of {STREAM_BYTES} bytes arrived")
    return "1 MiB and its length back"


class Server:
    def __init__(self, ns, family):
        command = ("nsenter", f"--net=/run/netns/{ns}", sys.executable, "-B", __file__, "--answer", str(family))
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


# ---- the lab

class Demo:
    def __init__(self, bin_dir):
        self.bin_dir = bin_dir
        self.cni_dir = next((path for path in CNI_PATHS if os.path.exists(f"{path}/host-local")), None)
        if not self.cni_dir:
            raise Failed(f"host-local not found in {' or '.join(CNI_PATHS)}")
        self.addresses, self.host_ends = {"client": CLIENT}, {}

    def make_places(self):
        for place in ("/run", "/var/log", "/var/lib/cni"):
            if os.path.isdir(place):
                run("mount", "-t", "tmpfs", "tmpfs", place)
        run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
        for name in ("client", "node", "pod-a", "pod-b"):
            run("ip", "netns", "add", name)
            run("ip", "link", "set", "lo", "up", ns=name)

    def lay_wire(self):
        run("ip", "link", "add", "wire0", "type", "veth", "peer", "name", "nic0", "netns", "node", ns="client")
        run("ethtool", "-K", "wire0", "gro", "on", "tx-checksum-ip-generic", "off", "tx-vlan-offload", "off", ns="client")
        for ns, device, own, peer in (("client", "wire0", CLIENT, NODE), ("node", "nic0", NODE, CLIENT)):
            run("ip", "addr", "add", f"{own[4]}/24", "dev", device, ns=ns)
            run("ip", "addr", "add", f"{own[6]}/64", "dev", device, "nodad", ns=ns)
            run("ip", "link", "set", device, "up", ns=ns)
            run("ip", "route", "add", "default", "via", peer[4], ns=ns)
            run("ip", "route", "add", "default", "via", peer[6], ns=ns)

    def cni(self, verb, pod, **extra):
        environment = dict(CNI_COMMAND=verb, CNI_CONTAINERID=pod, CNI_NETNS=f"/run/netns/{pod}", CNI_IFNAME="eth0",
                           CNI_PATH=self.cni_dir, PATH=os.environ["PATH"])
        begin = time.monotonic()
        output = run(f"{self.bin_dir}/xveth", ns="node", env=environment, input=json.dumps(NETWORK | extra))
        return output, 1000 * (time.monotonic() - begin)

    def add(self, pod):
        output, milliseconds = self.cni("ADD", pod)
        result = json.loads(output)
        found = [ip["address"].split("/")[0] for ip in result["ips"]]
        self.addresses[pod] = {6 if ":" in address else 4: address for address in found}
        self.host_ends[pod] = result["interfaces"][0]["name"]
        self.cni("CHECK", pod, prevResult=result)
        print(f"  {pod}  {', '.join(found):24}  host end {self.host_ends[pod]}   ADD {milliseconds:.0f} ms, CHECK passed")

    def ports(self):
        listed = json.loads(run(f"{self.bin_dir}/xvethctl", "stats", "--json", ns="node"))["ports"]
        return {port["name"]: port for port in listed}

    def port_of(self, who):
        return self.host_ends.get(who, "nic0")

    def show_path(self, source, target, family, protocol):
        """One conversation; the counters at both ports must have carried it. False if the stack had to."""
        address = self.addresses[target][family]
        before = self.ports()
        said = run(sys.executable, "-B", __file__, f"--talk-{protocol}", address, ns=source).strip()
        after = self.ports()
        grown = lambda who, way: after[self.port_of(who)][way]["frames"] - before[self.port_of(who)][way]["frames"]
        there = min(grown(source, "from_port"), grown(target, "to_port"))
        back = min(grown(target, "from_port"), grown(source, "to_port"))
        print(f"  {source + ' -> ' + target:17} {protocol.upper()} IPv{family}  {said:29} XDP there {there:5}, back {back:5}")
        return there > 0 and back > 0 and (protocol == "tcp" or min(there, back) >= DATAGRAMS)

    def show_paths(self):
        slow = []
        for target in ("pod-a", "pod-b", "client"):
            for family in (4, 6):
                with Server(target, family):
                    for source in {"pod-a": ["client"], "pod-b": ["pod-a"], "client": ["pod-b"]}[target]:
                        slow += [f"{source} -> {target} {protocol} IPv{family}" for protocol in ("tcp", "udp")
                                 if not self.show_path(source, target, family, protocol)]
        if slow:
            raise Failed(f"not carried by XDP: {'; '.join(slow)}\n{json.dumps(self.ports(), indent=1)}")

    def show_reasons(self):
        for name, port in self.ports().items():
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(port["reasons"].items())) or "nothing"
            print(f"  {name:16} {port.get('attachment') or 'NIC':22} {reasons}")

    def show_numbers(self, bench, rows):
        command = (f"{self.bin_dir}/xvbench", bench, "--quick", "--json", "--cni-path", self.cni_dir)
        results = {row["metric"]: row for row in json.loads(run(*command))["results"]}
        for metric, what in rows:
            if row := results.get(metric):
                print(f"  {what:56} {row['median']:8.2f} {row['unit']}")

    def remove(self):
        for pod in ("pod-a", "pod-b"):
            self.cni("DEL", pod)
        left = [line for line in run("ip", "-o", "link", ns="node").splitlines() if "lo:" not in line and "nic0" not in line]
        pins = [name for name, port in self.ports().items() if name != "nic0"]
        print(f"  host ends left: {len(left)}, ports left: {len(pins)}")
        if left or pins:
            raise Failed("DEL left something behind")


def show(bin_dir):
    demo = Demo(bin_dir)
    demo.make_places()
    demo.lay_wire()
    print("client ═══ nic0 (node) ── host ends ═══ pod-a, pod-b: network namespaces of the demo's own\n")
    print("Containers, connected by the CNI binary:")
    demo.add("pod-a")
    demo.add("pod-b")
    print("\nConversations, and the frames that native XDP redirect carried (xvethctl stats):")
    demo.show_paths()
    print("\nWhat went another way, by port of entry:")
    demo.show_reasons()
    print("\nA container's own XDP program drops 64-byte frames (a quick run: xvbench drop measures properly):")
    demo.show_numbers("drop", (("drop.xveth", "redirected by xveth"), ("drop.ptp", "routed to the container by ptp"),
                               ("drop.vs_ptp", "xveth against ptp"),
                               ("drop_ct.vs_ptp", "the same on a node with conntrack at work")))
    print("\nTCP from container to container, one stream (xvbench tcp):")
    demo.show_numbers("tcp", (("tcp_pod_pod.xveth", "xveth"), ("tcp_pod_pod.bridge", "bridge"), ("tcp_pod_pod.ptp", "ptp"),
                              ("tcp_pod_pod.vs_bridge", "xveth against bridge")))
    print("\nContainers removed:")
    demo.remove()


def main(argv):
    if argv[0] == "--answer":
        answer(int(argv[1]))
    elif argv[0] == "--talk-udp":
        print(talk_udp(argv[1]))
    elif argv[0] == "--talk-tcp":
        print(talk_tcp(argv[1]))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the first process of a PID namespace has to ask for it
        show(os.path.abspath(argv[0]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except (Failed, OSError) as error:
        sys.exit(f"demo: {error}")
