# SPDX-License-Identifier: Apache-2.0
"""Calls CNI plugins as a container runtime does: environment, stdin, a strict look at stdout, chains with prevResult."""

import json
import os
import shutil
import signal
import subprocess
import time

BIN_DIR = os.environ.get("XVETH_BIN_DIR", "")
PLUGIN_DIR = "/usr/lib/cni"  # Debian's containernetworking-plugins
OWN_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugins")
NSENTER = shutil.which("nsenter") or "nsenter"
VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
QUIET_VERBS = ("DEL", "CHECK", "GC", "STATUS")


def plugin_path(*extra):
    return [*extra, BIN_DIR, PLUGIN_DIR, OWN_DIR]


def find_plugin(name, directories):
    for directory in directories:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    raise AssertionError(f"plugin {name} is in none of {directories}")


class Answer:
    """What a plugin said. `json` is its stdout; the protocol's form has been checked already."""

    def __init__(self, verb, rc, out, err, seconds):
        self.verb, self.rc, self.out, self.err, self.seconds = verb, rc, out, err, seconds
        self.json = self._parse() if rc is not None and rc >= 0 else None

    def _parse(self):
        if self.rc == 0 and self.verb in QUIET_VERBS:
            assert self.out == "", f"{self.verb} succeeded and printed: {self.out!r}"
            return None
        try:
            value = json.loads(self.out)  # json.loads refuses a second document
        except ValueError as error:
            raise AssertionError(f"{self.verb} exit {self.rc}: stdout is not one JSON document ({error}):\n"
                                 f"stdout: {self.out!r}\nstderr: {self.err!r}") from None
        assert isinstance(value, dict), f"{self.verb} printed {value!r}"
        if self.rc != 0:
            assert isinstance(value.get("code"), int) and value["code"] > 0, f"error without code: {value}"
            assert isinstance(value.get("msg"), str) and value["msg"], f"error without msg: {value}"
            assert isinstance(value.get("details", ""), str), f"details is no text: {value}"
        return value

    def ok(self):
        assert self.rc == 0, f"{self.verb} failed (exit {self.rc}): {self.out}{self.err}"
        return self.json

    def error(self, code=None, *words):
        """The error's whole text, after a look at its code and at words that must be in it."""
        assert self.rc not in (0, None), f"{self.verb} succeeded where it must not: {self.out}"
        assert self.json is not None, f"{self.verb} died (exit {self.rc}): {self.err}"
        text = "; ".join(filter(None, (self.json["msg"], self.json.get("details"))))
        assert code is None or self.json["code"] == code, f"code {self.json['code']}, expected {code}: {text}"
        for word in words:
            assert word in text, f"{word!r} is not in the error: {text}"
        return text


def environment(verb, **variables):
    """The runtime's whole environment and all six CNI_ variables, as libcni passes them; None leaves one out."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CNI_")}
    env.update({"CNI_COMMAND": verb, "CNI_CONTAINERID": "", "CNI_NETNS": "", "CNI_IFNAME": "", "CNI_ARGS": "",
                "CNI_PATH": ":".join(plugin_path())})
    env.update({key: value for key, value in variables.items() if value is not None})
    for key, value in variables.items():
        if value is None:
            env.pop(key, None)
    return env


def start(node, binary, env, stdin):
    """Starts a plugin in the node's namespace. The pid is the plugin's own: nsenter becomes it."""
    process = subprocess.Popen([NSENTER, f"--net={node.path}", "--", binary], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        process.stdin.write(stdin)
        process.stdin.close()
    except BrokenPipeError:  # died or answered without reading; its answer says why
        pass
    process.stdin = None
    return process


def finish(process, verb, timeout=60):
    begin = time.monotonic()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"{verb} did not end within {timeout} s") from None
    return Answer(verb, process.returncode, out, err, time.monotonic() - begin)


def call(node, verb, conf, cid="", netns="", ifname="", args="", path=None, binary=None, timeout=60, **variables):
    """One verb of the plugin that `conf` names; `conf` is an object or exact text."""
    text = conf if isinstance(conf, str) else json.dumps(conf)
    directories = path or plugin_path()
    if binary is None:
        binary = find_plugin(conf["type"] if isinstance(conf, dict) else "xveth", directories)
    env = environment(verb, **{"CNI_CONTAINERID": cid, "CNI_NETNS": netns, "CNI_IFNAME": ifname, "CNI_ARGS": args,
                               "CNI_PATH": ":".join(directories), **variables})
    begin = time.monotonic()
    answer = finish(start(node, binary, env, text), verb, timeout)
    answer.seconds = time.monotonic() - begin
    return answer


def call_and_kill(node, conf, cid, netns, ifname, delay):
    """ADD that gets SIGKILL after `delay` seconds; returns whether it was still at work."""
    process = start(node, find_plugin(conf["type"], plugin_path()),
                    environment("ADD", CNI_CONTAINERID=cid, CNI_NETNS=netns, CNI_IFNAME=ifname), json.dumps(conf))
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        pass
    alive = process.poll() is None
    if alive:
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    return alive


class Runtime:
    """A chain of plugins with the results kept between verbs, like libcni."""

    def __init__(self, node, name, plugins, version="1.0.0", path=None):
        self.node, self.name, self.plugins, self.version, self.path = node, name, plugins, version, path
        self.cache = {}

    def _conf(self, plugin, prev_result, runtime_config):
        conf = {**plugin, "name": self.name, "cniVersion": self.version}
        chosen = {key: value for key, value in (runtime_config or {}).items() if plugin.get("capabilities", {}).get(key)}
        if chosen:
            conf["runtimeConfig"] = chosen
        if prev_result is not None:
            conf["prevResult"] = prev_result
        return conf

    def _call(self, verb, plugin, container, prev_result, **options):
        runtime_config = options.pop("runtime_config", None)
        netns = options.pop("netns", container.netns_path)
        return call(self.node, verb, self._conf(plugin, prev_result, runtime_config), cid=container.cid, netns=netns,
                    ifname=container.ifname, path=self.path, **options)

    def _key(self, container):
        return container.cid, container.ifname

    def add(self, container, **options):
        result = None
        for plugin in self.plugins:
            result = self._call("ADD", plugin, container, result, **options).ok()
        self.cache[self._key(container)] = (result, options)
        return result

    def check(self, container, only=None):
        """The first failing answer, else the last; `only` one type of plugin is asked."""
        result, options = self.cache[self._key(container)]
        answer = None
        for plugin in (p for p in self.plugins if only in (None, p["type"])):
            answer = self._call("CHECK", plugin, container, result, **dict(options))
            if answer.rc != 0:
                break
        return answer

    def delete(self, container, **changes):
        result, options = self.cache.pop(self._key(container), (None, {}))
        for plugin in reversed(self.plugins):
            self._call("DEL", plugin, container, result, **{**options, **changes}).ok()
