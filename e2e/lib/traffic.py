# SPDX-License-Identifier: Apache-2.0
"""Payloads between namespaces, checked byte by byte. Sockets are opened inside a namespace and used from the test's own
thread, so that a test is one sequence of steps without helper processes."""

import errno
import itertools
import random
import select
import socket
import struct
import threading
import time

_ports = itertools.count(20000)
_PATTERN_LENGTH = 65521  # a prime: no packet size divides it, so a lost or doubled segment shifts the pattern
_PATTERN = random.Random(7).randbytes(_PATTERN_LENGTH)
_DOUBLED = _PATTERN * 3

IP_MTU_DISCOVER, IP_PMTUDISC_DONT, IP_PMTUDISC_DO, IP_MTU, IP_RECVERR, IP_RECVTTL = 10, 0, 2, 14, 11, 12
IPV6_MTU_DISCOVER, IPV6_MTU, IPV6_RECVERR = 23, 24, 25


def free_port():
    """A port that no other flow of this test process used: a flow never meets another's verdict by accident."""
    return next(_ports)


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def pattern(offset, length):
    start = offset % _PATTERN_LENGTH
    if start + length > len(_DOUBLED):
        return (_PATTERN * (length // _PATTERN_LENGTH + 2))[start:start + length]
    return _DOUBLED[start:start + length]


def open_socket(ns, family, kind, bind=None, timeout=3.0, protocol=0):
    with ns.entered():
        sock = socket.socket(family, kind, protocol)
    sock.settimeout(timeout)
    if bind is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(bind)
    return sock


class UdpFlow:
    """A client in one namespace and a server in another. `via` is the address that the client talks to when that is not
    the server's own (a service address)."""

    def __init__(self, client, server, address, via=None, port=None, source_port=0, source=None):
        family = family_of(address)
        self.port = port or free_port()
        self.server = open_socket(server, family, socket.SOCK_DGRAM, (address, self.port))
        any_address = source or ("::" if family == socket.AF_INET6 else "0.0.0.0")
        self.client = open_socket(client, family, socket.SOCK_DGRAM, (any_address, source_port or free_port()))
        self.client.connect((via or address, self.port))
        self.peer = None
        self.sequence = 0

    def close(self):
        self.client.close()
        self.server.close()

    def _payload(self, size):
        self.sequence += 1
        return struct.pack("!Q", self.sequence) + pattern(self.sequence * 131, max(size - 8, 0))

    def request(self, size=100):
        """One datagram to the server; returns the address that the server saw."""
        payload = self._payload(size)
        self.client.send(payload)
        seen, self.peer = self.server.recvfrom(70000)
        assert seen == payload, f"datagram {self.sequence} of {size} bytes arrived changed"
        return self.peer

    def reply(self, size=100):
        payload = self._payload(size)
        self.server.sendto(payload, self.peer)
        seen = self.client.recv(70000)
        assert seen == payload, f"reply {self.sequence} of {size} bytes arrived changed"

    def exchange(self, count=20, size=100, reply_size=None):
        for _ in range(count):
            self.request(size)
            self.reply(size if reply_size is None else reply_size)

    def request_is_lost(self, size=100, wait=0.4):
        self.client.send(self._payload(size))
        return not select.select([self.server], [], [], wait)[0]


class TcpFlow:
    """An established connection. The bytes of each direction follow the pattern from the first to the last."""

    def __init__(self, client, server, address, via=None, port=None, timeout=5.0):
        family = family_of(address)
        self.port = port or free_port()
        with open_socket(server, family, socket.SOCK_STREAM, (address, self.port), timeout) as listener:
            listener.listen(8)
            self.client = open_socket(client, family, socket.SOCK_STREAM, None, timeout)
            try:
                self.client.connect((via or address, self.port))
                self.server, self.peer = listener.accept()
            except OSError:
                self.client.close()
                raise
        for sock in (self.client, self.server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = {"client": 0, "server": 0}
        self.received = {"client": 0, "server": 0}

    def close(self):
        self.client.close()
        self.server.close()

    def exchange(self, length=200_000, reply_length=None, timeout=8.0):
        """`length` bytes from client to server and back at the same time, each byte checked."""
        goal = {"client": self.sent["client"] + length,
                "server": self.sent["server"] + (length if reply_length is None else reply_length)}
        ends = {self.client: ("client", "server"), self.server: ("server", "client")}
        deadline = time.monotonic() + timeout
        for sock in ends:
            sock.setblocking(False)
        while any(self.received[other] < goal[me] for me, other in ends.values()):
            writers = [s for s, (me, _) in ends.items() if self.sent[me] < goal[me]]
            readable, writable, _ = select.select(list(ends), writers, [], max(0.0, deadline - time.monotonic()))
            if not readable and not writable:
                raise AssertionError(f"TCP stalled: sent {self.sent}, received {self.received}, goal {goal}")
            for sock in writable:
                self._send(sock, ends[sock][0], goal)
            for sock in readable:
                self._receive(sock, *ends[sock])

    def _send(self, sock, me, goal):
        chunk = pattern(self.sent[me], min(60000, goal[me] - self.sent[me]))
        try:
            self.sent[me] += sock.send(chunk)
        except BlockingIOError:
            pass

    def _receive(self, sock, me, _other):
        got = sock.recv(65536)
        assert got, f"connection closed under {me}: sent {self.sent}, received {self.received}"
        assert got == pattern(self.received[me], len(got)), f"bytes from {self.received[me]} on arrived changed"
        self.received[me] += len(got)


def udp_works(client, server, address, count=10, size=200, **options):
    flow = UdpFlow(client, server, address, **options)
    try:
        flow.exchange(count, size)
    finally:
        flow.close()
    return flow


def tcp_works(client, server, address, length=300_000, **options):
    flow = TcpFlow(client, server, address, **options)
    try:
        flow.exchange(length)
    finally:
        flow.close()
    return flow


def tcp_connect_fails(client, server, address, timeout=1.2, **options):
    try:
        TcpFlow(client, server, address, timeout=timeout, **options).close()
    except OSError:
        return True
    return False


def ping(ns, address, count=3, size=56, options=()):
    """Echo requests, all of which must be answered."""
    out = ns.run("ping", "-n", "-c", count, "-i", "0.02", "-W", "2", "-s", size, *options, address, check=False, timeout=20)
    assert f"{count} received" in out, f"ping {address} from {ns.name}:\n{out}"


def icmp_error_of(sock, wait=1.0):
    """The errno that an ICMP error has put on a connected UDP socket with RECVERR; None when there is none."""
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        pending = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if pending:
            return errno.errorcode[pending]
        time.sleep(0.02)
    return None


# -- raw frames

def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_packet(source, target, sport, dport, payload=b"spoof", ttl=64):
    """An IP packet with a UDP datagram, complete with checksums."""
    family = family_of(source)
    src, dst = socket.inet_pton(family, source), socket.inet_pton(family, target)
    length = 8 + len(payload)
    pseudo = src + dst + struct.pack("!HH" if family == socket.AF_INET else "!II", *(
        (17, length) if family == socket.AF_INET else (length, 17)))
    header = struct.pack("!HHHH", sport, dport, length, 0)
    datagram = struct.pack("!HHHH", sport, dport, length, checksum(pseudo + header + payload) or 0xFFFF) + payload
    if family == socket.AF_INET6:
        return struct.pack("!IHBB", 6 << 28, length, 17, ttl) + src + dst + datagram
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 1, 0, ttl, 17, 0) + src + dst
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + datagram


def send_frame(ns, device, destination_mac, packet, ethertype=None, vlan=None, source_mac=None):
    """One Ethernet frame by a packet socket, exactly as given; a VLAN tag goes into the frame's own bytes."""
    link = ns.link(device)
    if ethertype is None:
        ethertype = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    frame = mac_bytes(destination_mac) + mac_bytes(source_mac or link["address"]) + tag
    frame += struct.pack("!H", ethertype) + packet
    with open_socket(ns, socket.AF_PACKET, socket.SOCK_RAW) as sock:
        with ns.entered():
            sock.bind((device, 0))
        sock.send(frame)


def listen_udp(ns, address, port):
    return open_socket(ns, family_of(address), socket.SOCK_DGRAM, (address, port))


def receives(sock, wait=0.4):
    return bool(select.select([sock], [], [], wait)[0])


# -- streams with numbers

class Stream:
    """Numbered datagrams, sent by a thread until `stop`: what was lost, doubled or overtaken is known by number."""

    def __init__(self, client, server, address, pause=0.001):
        family = family_of(address)
        port = free_port()
        self.receiver = open_socket(server, family, socket.SOCK_DGRAM, (address, port))
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sender = open_socket(client, family, socket.SOCK_DGRAM)
        self.sender.connect((address, port))
        self.sent, self.pause, self.arrived = 0, pause, []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self):
        while not self._end.wait(self.pause):
            try:
                self.sender.send(struct.pack("!Q", self.sent) + pattern(self.sent, 100))
            except OSError:  # its own interface is down, or an ICMP error came back: lost, as any other
                pass
            self.sent += 1

    def _receive(self):
        self.receiver.settimeout(1.0)
        while True:
            try:
                data = self.receiver.recv(2000)
            except TimeoutError:
                if self._end.is_set():
                    return
                continue
            number = struct.unpack("!Q", data[:8])[0]
            assert data[8:] == pattern(number, 100), f"datagram {number} arrived changed"
            self.arrived.append(number)

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join(20)
        self.sender.close()
        self.receiver.close()
        return self

    @property
    def lost(self):
        return sorted(set(range(self.sent)) - set(self.arrived))

    @property
    def doubled(self):
        return len(self.arrived) - len(set(self.arrived))

    @property
    def overtaken(self):
        """Datagrams that arrived behind a later one."""
        count, highest = 0, -1
        for number in self.arrived:
            count += number < highest
            highest = max(highest, number)
        return count

    def __repr__(self):
        return (f"sent {self.sent}, arrived {len(self.arrived)}, lost {len(self.lost)}, doubled {self.doubled}, "
                f"overtaken {self.overtaken}")
