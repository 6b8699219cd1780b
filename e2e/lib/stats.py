# SPDX-License-Identifier: Apache-2.0
"""The node's counters as `xvethctl stats --json` gives them, and the difference between two looks."""

import json
import os

from lib import cni


def xvethctl(node, *argv, **options):
    return node.run(os.path.join(cni.BIN_DIR, "xvethctl"), *argv, **options)


class Port:
    def __init__(self, to_port=0, from_port=0, reasons=None):
        self.to_port, self.from_port, self.reasons = to_port, from_port, dict(reasons or {})

    def __sub__(self, other):
        changed = {k: v - other.reasons.get(k, 0) for k, v in self.reasons.items() if v != other.reasons.get(k, 0)}
        return Port(self.to_port - other.to_port, self.from_port - other.from_port, changed)

    def __repr__(self):
        return f"to={self.to_port} from={self.from_port} {self.reasons}"


class Stats:
    """Frames by port: containers by attachment, NICs by device name."""

    def __init__(self, ports):
        self.ports = ports

    @classmethod
    def read(cls, node):
        answer = json.loads(xvethctl(node, "stats", "--json"))
        return cls({p["attachment"] or p["name"]: Port(p["to_port"]["frames"], p["from_port"]["frames"], p["reasons"])
                    for p in answer["ports"]})

    def __getitem__(self, who):
        return self.ports.get(getattr(who, "attachment", who), Port())

    def __sub__(self, other):
        return Stats({name: port - other[name] for name, port in self.ports.items()})

    def __repr__(self):
        return "\n".join(f"{name}: {port}" for name, port in self.ports.items())


class Watch:
    """`with Watch(topology) as seen:` … then `seen[port]` is what was counted inside the block."""

    def __init__(self, topology):
        self.topology, self.delta = topology, None

    def __enter__(self):
        self.before = self.topology.stats()
        return self

    def __exit__(self, *_):
        self.delta = self.topology.stats() - self.before

    def __getitem__(self, who):
        return self.delta[who]

    def __repr__(self):
        return repr(self.delta)

    def reason(self, who, name):
        return self.delta[who].reasons.get(name, 0)
