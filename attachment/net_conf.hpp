// SPDX-License-Identifier: Apache-2.0
// One network's configuration, and what a runtime asks of it for one container. JSON ends here: no other header of this
// folder shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attachment/cni_result.hpp"
#include "base/address.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

enum class Mode : std::uint8_t { route, bridge };
enum class ContainerXdp : std::uint8_t { managed, free, program };
enum class Policy : std::uint8_t { automatic, stack, fast };

struct NicChoice {
    enum class Kind : std::uint8_t { automatic, none, named } kind = Kind::automatic;
    std::vector<std::string> names;
};

// A program of the operator's: a file in the directory of programs, and a function in it.
struct ContainerProgram {
    std::string object;
    std::string program;  // empty: the object's only XDP program
    bool operator==(const ContainerProgram&) const = default;
};

// What becomes of the frames of a chain when one of its functions is gone or runs no program.
enum class OnFailure : std::uint8_t { drop, bypass };

// The container is a function: frames for the containers that the chain protects pass through it.
struct ChainMembership {
    std::string chain;
    std::uint16_t position = 0;  // 1 to 65535; frames only go to greater ones
    OnFailure on_failure = OnFailure::drop;
};

// Whatever reaches the container passes through a chain first.
struct Protection {
    std::string chain;
    bool stack_path_passes = false;  // what cannot be sent through the chain is delivered, instead of dropped
};

struct VlanRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
    bool operator==(const VlanRange&) const = default;
};

// The plugin's object of the network configuration, checked. Defaults are those of the guide.
struct NetConf {
    std::string cni_version;  // exactly as given; "0.1.0" when absent or empty
    std::string name;
    NicChoice nic;
    bool nic_required = false;
    Mode mode = Mode::route;
    ContainerXdp container_xdp = ContainerXdp::managed;
    std::optional<ContainerProgram> container_program;  // always there with ContainerXdp::program
    std::optional<ChainMembership> function_of;         // key chain
    std::optional<Protection> protected_by;
    std::uint16_t vlan = 0;             // bridge: the port's own VLAN, untagged in the container; 0 = none
    std::vector<VlanRange> vlan_trunk;  // bridge: VLANs that the container sends and receives tagged
    bool port_isolation = false;        // bridge: no frames to or from other isolated ports
    std::optional<bool> is_gateway;     // bridge: the host has the gateway's address; absent: unless a NIC is named
    std::uint32_t mtu = 0;              // 0 = the NIC's (1500 without one)
    std::optional<std::uint32_t> local_mtu;  // absent = default by family and ranges; 0 = off
    std::vector<IpPrefix> local_subnets;     // key localSubnets, else host-local's ranges in this config
    std::uint32_t queues = 0;                // 0 = CPUs
    std::vector<IpPrefix> fast_path_to;
    Policy policy = Policy::automatic;
    std::vector<IpPrefix> allowed_sources;
    bool spoof_check = true;
    bool ip_masq = false;
    bool bandwidth_asked = false;  // runtimeConfig.bandwidth holds a limit
    std::optional<Mac> mac;        // runtimeConfig.mac, args.cni.mac or CNI_ARGS MAC
    std::string ipam_type;         // empty = no addresses
    CniDns dns;
    std::optional<CniResult> prev_result;
    // GC: the attachments (container id, ifname) that are to stay; absent = the runtime gave no list.
    std::optional<std::vector<std::pair<std::string, std::string>>> valid_attachments;
    std::optional<std::string> pod;    // "namespace/name" from CNI_ARGS, for people
    std::vector<std::string> remarks;  // tolerated oddities (unknown keys), for the log

    std::string raw;  // stdin, byte for byte: what an IPAM delegate gets
};

// What a runtime says about one container (the CNI_* environment, already validated by the protocol).
struct Request {
    std::string container_id;
    std::string netns_path;  // may be empty on DEL
    std::string ifname;
    std::string args;                      // CNI_ARGS
    std::vector<std::string> plugin_path;  // CNI_PATH split; where delegates are looked for
};

// What the configuration is read for. To remove an attachment only the identity matters: a wrong value that ADD refused,
// or that an operator wrote since, must not keep a pod from being deleted. It becomes a remark and the default holds.
enum class Purpose : std::uint8_t { attach, remove };

// Reads the configuration. `args` is CNI_ARGS (requests by XVETH_CONTAINER_XDP, XVETH_LOCAL_MTU, XVETH_POLICY and
// XVETH_SPOOF_CHECK, MAC, pod name) and may be empty. Pod annotations `xveth.dev/KEY` speak to the pod's first interface,
// eth0, and `xveth.dev/IFNAME.KEY` to that one; they win over CNI_ARGS.
// Errors: code 6 not JSON, 7 a wrong value (key and value named), 1 a version that is not in supported_versions() (the
// list in the hint). runtimeConfig keys are found whatever their case.
[[nodiscard]] Result<NetConf> parse_net_conf(const std::string& json, const std::string& args,
                                             const std::string& ifname, Purpose purpose = Purpose::attach);

// A letter or digit, then letters, digits, '_', '.' and '-'. Names of networks and ids of
// containers are made so.
[[nodiscard]] bool is_valid_name(const std::string& name);
// What Linux and the CNI specification take as an interface's name.
[[nodiscard]] bool is_valid_ifname(const std::string& name);

// CNI_ARGS ("K=V;K=V") less the pairs whose key begins with XVETH_: what an IPAM delegate gets, which may refuse unknown
// keys.
[[nodiscard]] std::string args_without_own_keys(const std::string& args);

}  // namespace xveth::attachment
