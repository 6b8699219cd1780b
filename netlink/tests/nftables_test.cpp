// SPDX-License-Identifier: Apache-2.0
// nf_tables against the real kernel: what nft and iptables-nft write is read right, and masquerading comes and goes whole.
#include "netlink/nftables.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "netlink/tests/world.hpp"

namespace xveth::netlink {
namespace {

using test::ip;
using test::must;
using test::Place;
using test::prefix;
using testing::HasSubstr;
using testing::Not;

// What `command` prints in `ns`; a failure ends the test with it.
std::string run(const Netns& ns, const std::string& command) {
    auto scope = must(NetnsScope::enter(ns));
    FILE* pipe = ::popen(("{ " + command + "\n} 2>&1").c_str(), "r");  // NOLINT(cert-env33-c): the test's own words
    if (pipe == nullptr) throw std::runtime_error("popen");
    std::string output;
    std::array<char, 4096> part{};
    while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), size);
    if (::pclose(pipe) != 0) throw std::runtime_error(command + ": " + output);
    return output;
}

std::string in_words(const NftExpression& expression) {
    return expression.name + (expression.argument.empty() ? "" : " " + expression.argument);
}

std::string in_words(const NftRule& rule) {
    std::string words;
    for (const auto& expression : rule.expressions) words += (words.empty() ? "" : "; ") + in_words(expression);
    return words;
}

struct Firewall : testing::Test {
    Place place;
    std::unique_ptr<Nftables> nft = must(open_nftables(place.ns));

    void load(const std::string& ruleset) const { run(place.ns, "nft -f - <<'END'\n" + ruleset + "\nEND"); }
    void iptables(const std::string& rule) const { run(place.ns, "iptables-nft " + rule); }

    NftChain chain(const std::string& table, const std::string& name) const {
        for (auto& found : must(nft->chains()))
            if (found.table == table && found.name == name) return found;
        throw std::runtime_error("no chain " + name);
    }
    std::vector<NftRule> rules(const std::string& table, const std::string& name) const {
        return must(nft->rules(chain(table, name)));
    }
    // The only rule of chain `c` of a table `inet t` with just `rule` in it.
    std::string words_of(const std::string& rule, const std::string& sets = "") const {
        load("flush ruleset\ntable inet t {\n" + sets + "\nchain other { }\nchain c { " + rule + "; }\n}");
        const auto found = rules("t", "c");
        EXPECT_EQ(found.size(), 1U);
        return found.empty() ? "" : in_words(found.front());
    }
    std::string words_of_iptables(const std::string& rule) const {
        iptables("-F FORWARD");
        iptables("-A FORWARD " + rule);
        return in_words(rules("filter", "FORWARD").front());
    }
};

TEST_F(Firewall, AnEmptyNamespaceHasNoChains) { EXPECT_TRUE(must(nft->chains()).empty()); }

TEST_F(Firewall, BaseChainsTellTheirHook) {
    load(R"(table inet t {
        chain f { type filter hook forward priority -5; policy drop; }
        chain n { type nat hook postrouting priority srcnat; }
        chain regular { }
    }
    table bridge b {
        chain p { type filter hook prerouting priority 0; }
    }
    table arp a {
        chain i { type filter hook input priority 0; }
    })");
    const NftChain forward = chain("t", "f");
    EXPECT_EQ(forward.family, "inet");
    EXPECT_EQ(forward.type, "filter");
    EXPECT_EQ(forward.hook, "forward");
    EXPECT_EQ(forward.priority, -5);
    EXPECT_TRUE(forward.policy_drop);
    const NftChain nat = chain("t", "n");
    EXPECT_EQ(nat.type + " " + nat.hook, "nat postrouting");
    EXPECT_EQ(nat.priority, 100);
    EXPECT_FALSE(nat.policy_drop);
    EXPECT_EQ(chain("t", "regular").type + chain("t", "regular").hook, "");
    EXPECT_EQ(chain("b", "p").family + " " + chain("b", "p").hook, "bridge prerouting");
    EXPECT_EQ(chain("a", "i").family + " " + chain("a", "i").hook, "arp input");
}

TEST_F(Firewall, ChainsOfDevicesNameThem) {
    run(place.ns, "ip link add d0 type veth peer name d1");
    load(R"(table netdev n {
        chain one { type filter hook ingress device d0 priority 0; }
        chain two { type filter hook ingress devices = { d0, d1 } priority 0; }
    }
    table inet i {
        chain in { type filter hook ingress device d1 priority 0; }
    })");
    EXPECT_EQ(chain("n", "one").family + " " + chain("n", "one").hook, "netdev ingress");
    EXPECT_EQ(chain("n", "one").device, "d0");
    EXPECT_THAT(chain("n", "two").device, testing::AnyOf("d0,d1", "d1,d0"));
    EXPECT_EQ(chain("i", "in").hook, "ingress");
    EXPECT_EQ(chain("i", "in").device, "d1");
}

TEST_F(Firewall, StatesAreReadAsTheyAreCompared) {
    EXPECT_EQ(words_of("ct state invalid drop"),
              "ct ct state; bitwise & 01000000 ^ 00000000; cmp neq 00000000; immediate drop");
    EXPECT_EQ(words_of("ct state invalid,new counter drop"),
              "ct ct state; bitwise & 09000000 ^ 00000000; cmp neq 00000000; counter; immediate drop");
    EXPECT_EQ(words_of("ct state != invalid drop"), "ct ct state; cmp neq 01000000; immediate drop");
    EXPECT_EQ(words_of("ct state { invalid, new } drop"), "ct ct state; lookup @__set0; immediate drop");
    EXPECT_EQ(words_of("ct state vmap { invalid : drop, new : accept }"), "ct ct state; lookup vmap __map0");
}

TEST_F(Firewall, LoadsAndComparisonsAreRead) {
    EXPECT_EQ(words_of("meta mark 7 accept"), "meta meta mark; cmp eq 07000000; immediate accept");
    EXPECT_EQ(words_of("ip daddr 10.2.0.200 drop"),
              "meta meta nfproto; cmp eq 02; payload payload network 16 4; cmp eq 0a0200c8; immediate drop");
    EXPECT_EQ(words_of("tcp dport != 80 drop"),
              "meta meta l4proto; cmp eq 06; payload payload transport 2 2; cmp neq 0050; immediate drop");
    EXPECT_EQ(words_of("tcp dport 1-9 accept"),
              "meta meta l4proto; cmp eq 06; payload payload transport 2 2; cmp gte 0001; cmp lte 0009; "
              "immediate accept");
    EXPECT_THAT(words_of("ip daddr @pods accept", "set pods { type ipv4_addr; }"), HasSubstr("lookup @pods"));
    EXPECT_THAT(words_of("ip daddr vmap @ways", "map ways { type ipv4_addr : verdict; }"),
                HasSubstr("lookup vmap ways"));
}

TEST_F(Firewall, VerdictsAreRead) {
    EXPECT_EQ(words_of("jump other"), "immediate jump other");
    EXPECT_EQ(words_of("goto other"), "immediate goto other");
    EXPECT_EQ(words_of("return"), "immediate return");
    EXPECT_EQ(words_of("continue"), "immediate continue");
}

TEST_F(Firewall, WhatWritesIsToldFromWhatLooks) {
    EXPECT_EQ(words_of("meta mark set 7"), "immediate data 07000000; meta set meta mark");
    EXPECT_EQ(words_of("ct mark set 7"), "immediate data 07000000; ct set ct mark");
    EXPECT_THAT(words_of("ip ttl set 9"), HasSubstr("payload set payload network 8 2"));
    EXPECT_THAT(words_of("tcp option maxseg size set 1200"), HasSubstr("exthdr set exthdr 2"));
    EXPECT_THAT(words_of("add @seen { ip saddr }", "set seen { type ipv4_addr; flags dynamic; size 9; }"),
                HasSubstr("dynset @seen"));
}

TEST_F(Firewall, CommentsAreRead) {
    load("table inet t {\nchain c { counter comment \"two words\"\naccept\n}\n}");
    EXPECT_EQ(rules("t", "c").at(0).comment, "two words");
    EXPECT_EQ(rules("t", "c").at(1).comment, "");
    iptables("-A FORWARD -m comment --comment 'of iptables' -j ACCEPT");
    EXPECT_EQ(rules("filter", "FORWARD").at(0).comment, "of iptables");
}

TEST_F(Firewall, IptablesRulesAreRead) {
    const std::string drop_invalid = "match conntrack invalid; counter; immediate drop";
    EXPECT_EQ(words_of_iptables("-m conntrack --ctstate INVALID -j DROP"), drop_invalid);
    EXPECT_EQ(words_of_iptables("-m state --state INVALID -j DROP"), drop_invalid);
    const std::string other_drop = "match conntrack; counter; immediate drop";
    EXPECT_EQ(words_of_iptables("-m conntrack ! --ctstate INVALID -j DROP"), other_drop);
    EXPECT_EQ(words_of_iptables("-m conntrack --ctstate INVALID,NEW -j DROP"), other_drop);
    EXPECT_EQ(words_of_iptables("-m conntrack --ctstate INVALID --ctdir REPLY -j DROP"), other_drop);
    EXPECT_EQ(words_of_iptables("-m comment --comment x -j ACCEPT"), "match comment; counter; immediate accept");
    EXPECT_EQ(words_of_iptables("-s 10.2.0.0/24"), "payload payload network 12 3; cmp eq 0a0200; counter");
    iptables("-t nat -A POSTROUTING -j MASQUERADE");
    EXPECT_THAT(in_words(rules("nat", "POSTROUTING").front()), testing::EndsWith("counter; target MASQUERADE"));
    iptables("-P FORWARD DROP");
    EXPECT_TRUE(chain("filter", "FORWARD").policy_drop);
}

TEST_F(Firewall, RulesOfManyDatagramsComeInOrder) {
    constexpr std::uint32_t count = 3000;  // some 500 KiB, at most 32 of them a datagram
    std::string lines = "table inet t {\nchain c {\n";
    for (std::uint32_t i = 0; i < count; ++i) lines += "meta mark " + std::to_string(i) + " counter accept\n";
    load(lines + "}\nchain d { drop; }\n}");
    const auto found = rules("t", "c");
    ASSERT_EQ(found.size(), count);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::array<char, 16> hex{};
        std::snprintf(hex.data(), hex.size(), "eq %08x", __builtin_bswap32(i));
        ASSERT_EQ(found.at(i).expressions.at(1).argument, hex.data()) << i;
    }
    EXPECT_EQ(rules("t", "d").size(), 1U) << "of one chain only";
}

TEST_F(Firewall, AChainThatIsGoneHasNoRules) {
    NftChain gone;
    gone.family = "inet";
    gone.table = "t";
    gone.name = "c";
    EXPECT_TRUE(must(nft->rules(gone)).empty());
    load("table inet t { }");
    EXPECT_TRUE(must(nft->rules(gone)).empty());
}

TEST_F(Firewall, TheGenerationTellsOfChanges) {
    const auto first = must(nft->generation());
    EXPECT_EQ(must(nft->generation()), first);
    load("table inet t { }");
    EXPECT_NE(must(nft->generation()), first);
}

TEST_F(Firewall, ReadingBesideConstantChangesSucceeds) {
    std::string lines = "table inet t {\nchain c {\n";
    for (int i = 0; i < 500; ++i) lines += "meta mark " + std::to_string(i) + " counter accept\n";
    load(lines + "}\n}");
    const std::jthread changing([&](const std::stop_token& stop) {
        auto own = must(open_nftables(place.ns));
        while (!stop.stop_requested()) {
            must(own->ensure_masquerade(ip("10.9.0.1"), prefix("10.9.0.0/24")));
            must(own->remove_masquerade_if_present(ip("10.9.0.1")));
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    });
    for (int i = 0; i < 50; ++i) EXPECT_EQ(rules("t", "c").size(), 500U);
}

TEST_F(Firewall, LoadingConntrackLeavesNothing) {
    must(nft->load_conntrack());
    must(nft->load_conntrack());
    EXPECT_EQ(run(place.ns, "nft list ruleset"), "");
}

// -- masquerading

const IpPrefix pods4 = prefix("10.2.0.0/24");
const IpPrefix pods6 = prefix("fd00:2::/64");

struct Masquerade : Firewall {
    std::string listed() const { return run(place.ns, "nft list ruleset"); }
};

TEST_F(Masquerade, IsReadable) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    must(nft->ensure_masquerade(ip("fd00:2::7"), pods6));
    EXPECT_EQ(listed(), R"(table inet xveth {
	map masquerade4 {
		type ipv4_addr : verdict
		elements = { 10.2.0.7 : jump pods-10.2.0.0-24 }
	}

	map masquerade6 {
		type ipv6_addr : verdict
		elements = { fd00:2::7 : jump pods-fd00.2..-64 }
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr vmap @masquerade4
		ip6 saddr vmap @masquerade6
	}

	chain pods-10.2.0.0-24 {
		ip daddr 10.2.0.0/24 return
		ip daddr 224.0.0.0/4 return
		masquerade
	}

	chain pods-fd00.2..-64 {
		ip6 daddr fd00:2::/64 return
		ip6 daddr ff00::/8 return
		masquerade
	}
}
)");
}

TEST_F(Masquerade, CanBeWrittenBackByNft) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    must(nft->ensure_masquerade(ip("fd00:2::7"), pods6));
    const std::string before = listed();
    load("flush ruleset\n" + before);
    EXPECT_EQ(listed(), before);
    EXPECT_TRUE(must(nft->has_masquerade(ip("10.2.0.7"))));
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    must(nft->remove_masquerade_if_present(ip("fd00:2::7")));
    EXPECT_EQ(listed(), "");
}

TEST_F(Masquerade, EnsuringAgainChangesNothing) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    const std::string before = listed();
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    EXPECT_EQ(listed(), before);
}

TEST_F(Masquerade, IsFoundBySourceAlone) {
    EXPECT_FALSE(must(nft->has_masquerade(ip("10.2.0.7"))));
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    EXPECT_TRUE(must(nft->has_masquerade(ip("10.2.0.7"))));
    EXPECT_FALSE(must(nft->has_masquerade(ip("10.2.0.8"))));
    EXPECT_FALSE(must(nft->has_masquerade(ip("fd00:2::7"))));
}

TEST_F(Masquerade, SourcesOfAPrefixShareAChainUntilTheLastGoes) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    must(nft->ensure_masquerade(ip("10.2.0.8"), pods4));
    EXPECT_EQ(must(nft->chains()).size(), 2U);
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_FALSE(must(nft->has_masquerade(ip("10.2.0.7"))));
    EXPECT_TRUE(must(nft->has_masquerade(ip("10.2.0.8"))));
    must(nft->remove_masquerade_if_present(ip("10.2.0.8")));
    EXPECT_EQ(listed(), "");
}

TEST_F(Masquerade, AChainGoesWithItsOwnLastSource) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    must(nft->ensure_masquerade(ip("fd00:2::7"), pods6));
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_THAT(listed(), Not(HasSubstr("pods-10")));
    EXPECT_TRUE(must(nft->has_masquerade(ip("fd00:2::7"))));
}

TEST_F(Masquerade, ASourceMovesToAnotherPrefix) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    must(nft->ensure_masquerade(ip("10.2.0.7"), prefix("10.2.0.0/16")));
    EXPECT_THAT(listed(), HasSubstr("10.2.0.7 : jump pods-10.2.0.0-16"));
    EXPECT_THAT(listed(), Not(HasSubstr("pods-10.2.0.0-24"))) << "nothing is left of the first";
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_EQ(listed(), "");
}

TEST_F(Masquerade, APrefixIsOneWhateverAddressItIsWrittenWith) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), prefix("10.2.0.7/24")));
    must(nft->ensure_masquerade(ip("10.2.0.8"), prefix("10.2.0.8/24")));
    EXPECT_EQ(must(nft->chains()).size(), 2U);
}

TEST_F(Masquerade, RemovingNothingSucceeds) {
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_EQ(listed(), "");
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    const std::string before = listed();
    must(nft->remove_masquerade_if_present(ip("10.2.0.9")));
    must(nft->remove_masquerade_if_present(ip("fd00:2::7")));
    EXPECT_EQ(listed(), before);
}

TEST_F(Masquerade, ARepeatedRemovalTakesAwayWhatAKilledOneLeft) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    load("delete element inet xveth masquerade4 { 10.2.0.7 }");
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_EQ(listed(), "");
}

TEST_F(Masquerade, WithoutItsRulesItDoesNotHold) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    load("flush chain inet xveth postrouting");
    EXPECT_FALSE(must(nft->has_masquerade(ip("10.2.0.7"))));
}

TEST_F(Masquerade, TablesOfOthersStay) {
    load(
        "table inet other {\nchain c { type nat hook postrouting priority srcnat; }\nchain pods-x { }\n}\n"
        "table ip xveth { }");
    const std::string before = listed();
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_EQ(listed(), before);
}

TEST_F(Masquerade, AnOperatorsChainInOurTableStays) {
    must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
    load("table inet xveth { chain mine { accept; }\n}");
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_THAT(listed(), HasSubstr("chain mine"));
    EXPECT_THAT(listed(), Not(HasSubstr("pods-")));
}

TEST_F(Masquerade, ManyAtOnceAllSucceed) {
    constexpr int threads = 12;
    constexpr int rounds = 15;
    const auto source = [](int thread) { return ip("10.2.0." + std::to_string(thread + 1)); };
    const auto local = [](int thread) { return prefix("10.2.0.0/" + std::to_string(24 - thread % 3)); };
    const auto work = [&](int thread, bool stay) {
        auto own = must(open_nftables(place.ns));
        for (int round = 0; round < rounds; ++round) {
            auto put = own->ensure_masquerade(source(thread), local(thread));
            EXPECT_TRUE(put) << put.error().text;
            EXPECT_TRUE(must(own->has_masquerade(source(thread))));
            if (stay && round + 1 == rounds) break;
            auto removed = own->remove_masquerade_if_present(source(thread));
            EXPECT_TRUE(removed) << removed.error().text;
        }
    };
    for (const bool stay : {true, false}) {
        std::vector<std::thread> running;
        running.reserve(threads);
        for (int thread = 0; thread < threads; ++thread) running.emplace_back(work, thread, stay);
        for (auto& each : running) each.join();
        for (int thread = 0; thread < threads; ++thread)
            EXPECT_EQ(must(nft->has_masquerade(source(thread))), stay) << thread;
        EXPECT_EQ(must(nft->chains()).size(), stay ? 4U : 0U) << listed();
    }
    EXPECT_EQ(listed(), "");
}

// -- traffic:   pod ═══ host (masquerades) ═══ world; `world` has also an address of the pods' range.
struct MasqueradeOfTraffic : Masquerade {
    Place pod;
    Place world;

    MasqueradeOfTraffic() {
        connect(pod, "to-pod", "10.2.0.1/24", "fd00:2::1/64", "10.2.0.7/24", "fd00:2::7/64");
        connect(world, "to-world", "10.1.0.2/24", "fd00:1::2/64", "10.1.0.1/24", "fd00:1::1/64");
        run(place.ns,
            "ip route add 10.2.0.128/25 via 10.1.0.1; ip route add fd00:2::8000/113 via fd00:1::1;"
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        run(pod.ns,
            "ip route add default via 10.2.0.1; ip route add default via fd00:2::1;"
            "ip route add 10.2.0.200 via 10.2.0.1; ip route add fd00:2::8001 via fd00:2::1");
        run(world.ns,
            "ip route add default via 10.1.0.2; ip route add default via fd00:1::2;"
            "ip addr add 10.2.0.200 dev end; ip addr add fd00:2::8001 dev end nodad");
        must(nft->ensure_masquerade(ip("10.2.0.7"), pods4));
        must(nft->ensure_masquerade(ip("fd00:2::7"), pods6));
    }

    // A pair between the host's `device` and `end` in `other`.
    void connect(const Place& other, const std::string& device, const std::string& host4, const std::string& host6,
                 const std::string& other4, const std::string& other6) const {
        auto spec = test::veth_between(place, other);
        spec.host.name = device;
        spec.container.name = "end";
        spec.host.no_ipv6_autoconf = spec.container.no_ipv6_autoconf =
            false;  // a router asks from its link-local address
        for (const Netns* ns : {&place.ns, &other.ns}) run(*ns, "sysctl -qw net.ipv6.conf.default.accept_dad=0");
        must(place.rtnl->create_veth(spec));
        const auto set_up = [](const Netns& ns, const std::string& link, const std::string& v4, const std::string& v6) {
            run(ns, "ip link set " + link + " up; ip addr add " + v4 + " dev " + link + "; ip addr add " + v6 +
                        " nodad dev " + link);
        };
        set_up(place.ns, device, host4, host6);
        set_up(other.ns, "end", other4, other6);
    }

    static UniqueFd udp_socket(const Netns& ns, const IpAddress& bound) {
        auto scope = must(NetnsScope::enter(ns));
        UniqueFd fd(::socket(family_of(bound), SOCK_DGRAM | SOCK_CLOEXEC, 0));
        const timeval patience{.tv_sec = 5, .tv_usec = 0};
        ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        const auto name = socket_name(bound);
        if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(sockaddr_in6)) != 0)
            throw std::runtime_error("bind " + bound.to_string() + ": " + std::strerror(errno));
        return fd;
    }

    // From whom a datagram of the pod comes, as its receiver at `target` sees it.
    std::string seen_source(const IpAddress& source, const IpAddress& target) const {
        const UniqueFd receiver = udp_socket(world.ns, target);
        const UniqueFd sender = udp_socket(pod.ns, source);
        const auto to = socket_name(target);
        if (::sendto(sender.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in6)) != 1)
            throw std::runtime_error(std::string("sendto: ") + std::strerror(errno));
        sockaddr_storage from{};
        socklen_t size = sizeof from;
        char byte = 0;
        if (::recvfrom(receiver.get(), &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &size) != 1) return "nothing";
        std::array<char, INET6_ADDRSTRLEN> text{};
        const void* address = from.ss_family == AF_INET
                                  ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&from)->sin_addr)
                                  : &reinterpret_cast<const sockaddr_in6*>(&from)->sin6_addr;
        return ::inet_ntop(from.ss_family, address, text.data(), text.size());
    }

private:
    static int family_of(const IpAddress& address) { return address.family == Family::ipv4 ? AF_INET : AF_INET6; }
    static sockaddr_storage socket_name(const IpAddress& address) {
        constexpr std::uint16_t port = 4000;
        sockaddr_storage name{};
        if (address.family == Family::ipv4) {
            auto* v4 = reinterpret_cast<sockaddr_in*>(&name);
            v4->sin_family = AF_INET;
            v4->sin_port = htons(port);
            std::memcpy(&v4->sin_addr, address.bytes.data(), address.size());
        } else {
            auto* v6 = reinterpret_cast<sockaddr_in6*>(&name);
            v6->sin6_family = AF_INET6;
            v6->sin6_port = htons(port);
            std::memcpy(&v6->sin6_addr, address.bytes.data(), address.size());
        }
        return name;
    }
};

TEST_F(MasqueradeOfTraffic, OutsideThePodsRangeTheHostsAddressIsSeen) {
    EXPECT_EQ(seen_source(ip("10.2.0.7"), ip("10.1.0.1")), "10.1.0.2");
    EXPECT_EQ(seen_source(ip("fd00:2::7"), ip("fd00:1::1")), "fd00:1::2");
}

TEST_F(MasqueradeOfTraffic, WithinThePodsRangeThePodsAddressIsSeen) {
    EXPECT_EQ(seen_source(ip("10.2.0.7"), ip("10.2.0.200")), "10.2.0.7");
    EXPECT_EQ(seen_source(ip("fd00:2::7"), ip("fd00:2::8001")), "fd00:2::7");
}

TEST_F(MasqueradeOfTraffic, OtherSourcesAreLeftAlone) {
    run(pod.ns, "ip addr add 10.2.0.8/24 dev end; ip addr add fd00:2::8/64 dev end nodad");
    EXPECT_EQ(seen_source(ip("10.2.0.8"), ip("10.1.0.1")), "10.2.0.8");
    EXPECT_EQ(seen_source(ip("fd00:2::8"), ip("fd00:1::1")), "fd00:2::8");
}

TEST_F(MasqueradeOfTraffic, EndsWithItsRemoval) {
    must(nft->remove_masquerade_if_present(ip("10.2.0.7")));
    EXPECT_EQ(seen_source(ip("10.2.0.7"), ip("10.1.0.1")), "10.2.0.7");
}

}  // namespace
}  // namespace xveth::netlink
