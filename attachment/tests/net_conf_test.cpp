// SPDX-License-Identifier: Apache-2.0
#include "attachment/net_conf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xveth::attachment {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A configuration with `members` added: R"(,"mtu":1500)".
std::string conf_with(const std::string& members, const std::string& version = "1.0.0") {
    return R"({"cniVersion":")" + version + R"(","name":"net","type":"xveth")" + members + "}";
}

Result<NetConf> parse(const std::string& members, const std::string& args = {}, const std::string& ifname = "eth0") {
    return parse_net_conf(conf_with(members), args, ifname);
}

NetConf parsed(const std::string& members, const std::string& args = {}, const std::string& ifname = "eth0") {
    auto conf = parse(members, args, ifname);
    EXPECT_TRUE(conf) << members << ": " << (conf ? "" : conf.error().text);
    return conf ? *conf : NetConf{};
}

// The refusal's text; its code has to be 7.
std::string refused(const std::string& members, const std::string& args = {}, const std::string& ifname = "eth0") {
    const auto conf = parse(members, args, ifname);
    if (conf) return "accepted";
    EXPECT_EQ(conf.error().code, 7) << members;
    return conf.error().text;
}

std::vector<std::string> texts(const std::vector<IpPrefix>& prefixes) {
    std::vector<std::string> out;
    for (const IpPrefix& prefix : prefixes) out.push_back(prefix.to_string());
    return out;
}

std::string annotations(const std::string& members) {
    return R"(,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{)" + members + "}}";
}

TEST(NetConfTest, HasTheDefaultsOfTheGuide) {
    const NetConf conf = parsed("");
    EXPECT_EQ(conf.name, "net");
    EXPECT_EQ(conf.cni_version, "1.0.0");
    EXPECT_EQ(conf.nic.kind, NicChoice::Kind::automatic);
    EXPECT_FALSE(conf.nic_required);
    EXPECT_EQ(conf.container_xdp, ContainerXdp::managed);
    EXPECT_EQ(conf.mtu, 0U);
    EXPECT_EQ(conf.local_mtu, std::nullopt);
    EXPECT_EQ(conf.queues, 0U);
    EXPECT_EQ(conf.policy, Policy::automatic);
    EXPECT_TRUE(conf.spoof_check);
    EXPECT_FALSE(conf.ip_masq);
    EXPECT_FALSE(conf.bandwidth_asked);
    EXPECT_EQ(conf.ipam_type, "");
    EXPECT_FALSE(conf.prev_result);
    EXPECT_FALSE(conf.valid_attachments);
    EXPECT_THAT(conf.remarks, IsEmpty());
}

TEST(NetConfTest, KeepsEveryByteForTheDelegate) {
    const std::string text = "{\r\n\t\"name\": \"net\",\r\n\t\"cniVersion\": \"1.0.0\" }\n\n";
    EXPECT_EQ(parse_net_conf(text, "", "eth0")->raw, text);
}

TEST(NetConfTest, TakesIntegersAndDecimalStringsAsSizes) {
    for (const char* good : {"9001", "\"9001\"", "9.001e3"}) {
        EXPECT_EQ(parsed(std::string(R"(,"mtu":)") + good).mtu, 9001U) << good;
        EXPECT_EQ(parsed(std::string(R"(,"localMtu":)") + good).local_mtu, 9001U) << good;
    }
    EXPECT_EQ(parsed(R"(,"queues":"4")").queues, 4U);
    for (const char* inherits : {"0", "\"0\"", "null"}) EXPECT_EQ(parsed(std::string(R"(,"mtu":)") + inherits).mtu, 0U);
    EXPECT_EQ(parsed(R"(,"localMtu":0)").local_mtu, 0U);
}

TEST(NetConfTest, RefusesOtherSizesNamingKeyAndValue) {
    for (const char* key : {"mtu", "localMtu", "queues"})
        for (const char* bad :
             {"\"\"", "\"auto\"", "-1", "1500.5", "true", "4294967296", "[]", "{}", "\" 1500\"", "\"0x5dc\""}) {
            const std::string text = refused(std::string(",\"") + key + "\":" + bad);
            EXPECT_THAT(text, HasSubstr(std::string("\"") + key + "\"")) << bad;
            if (*bad != '[' && *bad != '{') {
                EXPECT_THAT(text, HasSubstr(bad)) << key;
            }
        }
    EXPECT_THAT(refused(R"(,"mtu":67)"), HasSubstr("67"));
    EXPECT_THAT(refused(R"(,"mtu":65536)"), HasSubstr("65536"));
    EXPECT_THAT(refused(R"(,"queues":4097)"), HasSubstr("4097"));
}

TEST(NetConfTest, KnowsTheFormsOfNic) {
    EXPECT_EQ(parsed(R"(,"nic":"none")").nic.kind, NicChoice::Kind::none);
    EXPECT_FALSE(parsed(R"(,"nic":"none")").nic_required);
    const NetConf one = parsed(R"(,"nic":"eth1")");
    EXPECT_THAT(one.nic.names, ElementsAre("eth1"));
    EXPECT_TRUE(one.nic_required);
    const NetConf two = parsed(R"(,"nic":["eth1","bond0.7"],"nicRequired":false)");
    EXPECT_THAT(two.nic.names, ElementsAre("eth1", "bond0.7"));
    EXPECT_FALSE(two.nic_required);
    EXPECT_TRUE(parsed(R"(,"nicRequired":true)").nic_required);
    for (const char* bad : {"\"\"", "7", "[]", "[7]", "\"a/b\"", "\"sixteen-bytes-16\"", "{}"})
        EXPECT_THAT(refused(std::string(R"(,"nic":)") + bad), HasSubstr("\"nic\"")) << bad;
}

TEST(NetConfTest, SaysWhatThisVersionDoesNotServe) {
    EXPECT_THAT(refused(R"(,"cpumap":{"cpus":"all"})"),
                HasSubstr(R"(key "cpumap": value {"cpus":"all"}: not served by this version of xveth)"));
    for (const char* members : {R"(,"containerXdp":"afxdp")", R"(,"arming":"onDemand")"})
        EXPECT_THAT(refused(members), HasSubstr("not served by this version of xveth")) << members;
    EXPECT_EQ(parsed(R"(,"mode":"route","arming":"always","cpumap":null,"chain":null)").name, "net");
    EXPECT_THAT(refused(R"(,"mode":"tunnel")"), HasSubstr("tunnel"));
}

TEST(NetConfTest, ReadsTheOperatorsProgram) {
    const NetConf conf =
        parsed(R"(,"containerXdp":"program","containerProgram":{"object":"limit.o","program":"xdp_limit"})");
    EXPECT_EQ(conf.container_xdp, ContainerXdp::program);
    EXPECT_EQ(conf.container_program, (ContainerProgram{.object = "limit.o", .program = "xdp_limit"}));
    const NetConf only = parsed(R"(,"containerXdp":"program","containerProgram":{"object":"limit.o"})");
    EXPECT_EQ(only.container_program, (ContainerProgram{.object = "limit.o", .program = ""}));
    EXPECT_THAT(refused(R"(,"containerXdp":"program")"), HasSubstr("containerProgram"));
    for (const char* bad : {R"("limit.o")", R"({"object":"../limit.o","program":"p"})",
                            R"({"object":"a/b.o","program":"p"})", R"({"object":"limit.o","program":""})",
                            R"({"object":"limit.o","program":"1p"})", R"({"object":".o","program":"p"})"})
        EXPECT_THAT(refused(std::string(R"(,"containerProgram":)") + bad), HasSubstr("containerProgram")) << bad;
}

TEST(NetConfTest, ReadsChainsAndTheirProtection) {
    const NetConf function =
        parsed(R"(,"containerXdp":"free","chain":{"name":"edge","position":"10","onFailure":"bypass"})");
    ASSERT_TRUE(function.function_of);
    EXPECT_EQ(function.function_of->chain, "edge");
    EXPECT_EQ(function.function_of->position, 10);
    EXPECT_EQ(function.function_of->on_failure, OnFailure::bypass);
    EXPECT_EQ(parsed(R"(,"containerXdp":"free","chain":{"name":"edge","position":1})").function_of->on_failure,
              OnFailure::drop);
    const NetConf guarded = parsed(R"(,"protectedBy":"edge")");
    ASSERT_TRUE(guarded.protected_by);
    EXPECT_EQ(guarded.protected_by->chain, "edge");
    EXPECT_FALSE(guarded.protected_by->stack_path_passes);
    EXPECT_TRUE(parsed(R"(,"protectedBy":{"chain":"edge","stackPath":"pass"})").protected_by->stack_path_passes);
    for (const char* bad :
         {R"("edge")", R"({"name":"edge"})", R"({"name":"edge","position":0})", R"({"name":"edge","position":65536})",
          R"({"name":"","position":1})", R"({"name":"edge","position":1,"onFailure":"shrug"})",
          R"({"name":"a-name-of-thirty-two-characters-","position":1})"})
        EXPECT_THAT(refused(std::string(R"(,"containerXdp":"free","chain":)") + bad), HasSubstr("\"chain\"")) << bad;
    for (const char* bad : {"7", R"("a/b")", R"({"chain":"edge","stackPath":"maybe"})", "{}"})
        EXPECT_THAT(refused(std::string(R"(,"protectedBy":)") + bad), HasSubstr("protectedBy")) << bad;
}

TEST(NetConfTest, RefusesChainsThatCannotWork) {
    EXPECT_THAT(refused(R"(,"chain":{"name":"edge","position":1})"), HasSubstr("needs an XDP program"));
    EXPECT_THAT(refused(R"(,"containerXdp":"free","chain":{"name":"edge","position":1},"protectedBy":"core")"),
                HasSubstr("cannot be protected"));
    EXPECT_THAT(refused(R"(,"mode":"bridge","protectedBy":"edge")"), HasSubstr("route"));
}

TEST(NetConfTest, ReadsVlansOfABridge) {
    const NetConf conf =
        parsed(R"(,"mode":"bridge","vlan":10,"vlanTrunk":[{"id":20},{"minID":30,"maxID":"39"}],"portIsolation":true)");
    EXPECT_EQ(conf.mode, Mode::bridge);
    EXPECT_EQ(conf.vlan, 10);
    EXPECT_THAT(conf.vlan_trunk, ElementsAre(VlanRange{.first = 20, .last = 20}, VlanRange{.first = 30, .last = 39}));
    EXPECT_TRUE(conf.port_isolation);
    EXPECT_EQ(parsed(R"(,"mode":"bridge","vlan":0)").vlan, 0);
    for (const char* bad : {"4095", "-1", "\"x\"", "true"})
        EXPECT_THAT(refused(std::string(R"(,"mode":"bridge","vlan":)") + bad), HasSubstr("\"vlan\"")) << bad;
    for (const char* bad : {"7", "[7]", R"([{"id":0}])", R"([{"minID":5}])", R"([{"minID":5,"maxID":4}])",
                            R"([{"id":1,"minID":1,"maxID":1}])"})
        EXPECT_THAT(refused(std::string(R"(,"mode":"bridge","vlanTrunk":)") + bad), HasSubstr("vlanTrunk")) << bad;
    for (const char* key : {R"("vlan":10)", R"("vlanTrunk":[{"id":1}])", R"("portIsolation":true)"})
        EXPECT_THAT(refused(std::string(",") + key), HasSubstr("bridge")) << key;
}

TEST(NetConfTest, ReadsEnumerationsFlagsAndPrefixes) {
    const NetConf conf = parsed(R"(,"containerXdp":"free","policy":"fast","spoofCheck":false,"ipMasq":"true",
        "fastPathTo":["10.9.8.7/8","fd00::1/64"],"allowedSources":["192.0.2.1/32"])");
    EXPECT_EQ(conf.container_xdp, ContainerXdp::free);
    EXPECT_EQ(conf.policy, Policy::fast);
    EXPECT_FALSE(conf.spoof_check);
    EXPECT_TRUE(conf.ip_masq);
    EXPECT_THAT(texts(conf.fast_path_to), ElementsAre("10.0.0.0/8", "fd00::/64"));
    EXPECT_THAT(texts(conf.allowed_sources), ElementsAre("192.0.2.1/32"));
    for (const char* bad : {R"(,"policy":"slow")", R"(,"policy":true)", R"(,"spoofCheck":1)", R"(,"ipMasq":"yes")",
                            R"(,"fastPathTo":"10.0.0.0/8")", R"(,"fastPathTo":["10.0.0.0"])",
                            R"(,"allowedSources":[7])", R"(,"localSubnets":["x/8"])", R"(,"containerXdp":"Free")"})
        EXPECT_THAT(refused(bad), HasSubstr("key \"")) << bad;
}

TEST(NetConfTest, TakesLocalSubnetsFromHostLocalsRanges) {
    const std::string ranges =
        R"(,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.2.0.0/16"},{"subnet":"10.3.0.9/24"}],[{"subnet":"fd00:1::/64"}]]})";
    EXPECT_THAT(texts(parsed(ranges).local_subnets), ElementsAre("10.2.0.0/16", "10.3.0.0/24", "fd00:1::/64"));
    EXPECT_THAT(texts(parsed(R"(,"ipam":{"type":"host-local","subnet":"10.5.0.0/16","routes":null})").local_subnets),
                ElementsAre("10.5.0.0/16"));
    EXPECT_THAT(texts(parsed(R"(,"ipam":{"type":"host-local","subnet":""},
                               "runtimeConfig":{"IPRanges":[[{"Subnet":"10.6.0.0/24"}]]})")
                          .local_subnets),
                ElementsAre("10.6.0.0/24"));
    EXPECT_THAT(texts(parsed(ranges + R"(,"localSubnets":["10.0.0.0/8"])").local_subnets), ElementsAre("10.0.0.0/8"));
    EXPECT_THAT(parsed(ranges + R"(,"localSubnets":[])").local_subnets, IsEmpty());
    EXPECT_THAT(parsed(R"(,"ipam":{"type":"dhcp","subnet":"10.5.0.0/16"})").local_subnets, IsEmpty());
    EXPECT_THAT(parsed(R"(,"ipam":{"type":"host-local","ranges":[7,null,[null,{"subnet":7}]]})").local_subnets,
                IsEmpty());
}

TEST(NetConfTest, AnAbsentOrEmptyIpamMeansNoAddresses) {
    for (const char* none :
         {"", R"(,"ipam":null)", R"(,"ipam":{})", R"(,"ipam":{"type":""})", R"(,"ipam":{"type":null})"})
        EXPECT_EQ(parsed(none).ipam_type, "") << none;
    EXPECT_EQ(parsed(R"(,"ipam":{"type":"host-local"})").ipam_type, "host-local");
    EXPECT_THAT(refused(R"(,"ipam":[])"), HasSubstr("\"ipam\""));
    EXPECT_THAT(refused(R"(,"ipam":{"type":"../sh"})"), HasSubstr("../sh"));
    EXPECT_THAT(refused(R"(,"ipam":{"type":7})"), HasSubstr("ipam.type"));
}

TEST(NetConfTest, ToleratesWhatRuntimesAndOtherToolsLeaveInside) {
    const NetConf conf =
        parsed(R"(,"cniVersions":["0.4.0","1.0.0"],"disableCheck":"true","disableGC":true,"cni.dev/foo":{"a":1},
        "args":{"labels":[]},"runtimeConfig":null,"capabilities":{"portMappings":true},"loadOnlyInlinedPlugins":false)");
    EXPECT_THAT(conf.remarks, IsEmpty());
    EXPECT_THAT(parsed(R"(,"hairpinMode":true,"promiscMode":true)").remarks,
                ElementsAre(HasSubstr("\"hairpinMode\""), HasSubstr("\"promiscMode\"")));
}

TEST(NetConfTest, ToleratesEveryKnownCapability) {
    const NetConf conf = parsed(R"(,"runtimeConfig":{"portMappings":null,"bandwidth":{"IngressRate":0,"EgressRate":0.0},
        "dns":{"Servers":["10.0.0.10"],"Searches":["a.b"],"Options":["ndots:5"]},"ips":["10.0.0.5"],"mac":"",
        "infinibandGUID":"x","deviceID":"0000:00:1f.6","aliases":{"net":["a"]},"cgroupPath":"/kubepods","ipRanges":null})");
    EXPECT_FALSE(conf.bandwidth_asked);
    EXPECT_THAT(conf.dns.nameservers, ElementsAre("10.0.0.10"));
    EXPECT_THAT(conf.dns.search, ElementsAre("a.b"));
    EXPECT_THAT(conf.dns.options, ElementsAre("ndots:5"));
}

TEST(NetConfTest, SeesAskedBandwidthInAnyCase) {
    for (const char* asked :
         {R"({"ingressRate":1000000})", R"({"IngressRate":0,"EgressRate":1.5e6,"EgressBurst":4294967295})",
          R"({"egressrate":1})"})
        EXPECT_TRUE(parsed(std::string(R"(,"runtimeConfig":{"bandwidth":)") + asked + "}").bandwidth_asked) << asked;
    for (const char* not_asked : {"null", "{}", R"({"ingressBurst":1})"})
        EXPECT_FALSE(parsed(std::string(R"(,"runtimeConfig":{"bandwidth":)") + not_asked + "}").bandwidth_asked);
}

TEST(NetConfTest, TheRuntimesMacWinsOverArgs) {
    const std::string in_args = R"(,"args":{"cni":{"mac":"02:00:00:00:00:02"}})";
    const std::string in_capability = R"(,"runtimeConfig":{"mac":"02:00:00:00:00:01"})";
    EXPECT_EQ(parsed("", "IgnoreUnknown=1;MAC=02:00:00:00:00:03").mac->to_string(), "02:00:00:00:00:03");
    EXPECT_EQ(parsed(in_args, "MAC=02:00:00:00:00:03").mac->to_string(), "02:00:00:00:00:02");
    EXPECT_EQ(parsed(in_args + in_capability, "MAC=02:00:00:00:00:03").mac->to_string(), "02:00:00:00:00:01");
    for (const char* bad : {"x", "01:00:5e:00:00:01", "00:00:00:00:00:00"})
        EXPECT_THAT(refused("", std::string("MAC=") + bad), HasSubstr("MAC"));
}

TEST(NetConfTest, ReadsDns) {
    const NetConf conf = parsed(R"(,"dns":{"nameservers":["10.1.0.1"],"domain":"d","search":["s"],"options":["o"]})");
    EXPECT_EQ(conf.dns.domain, "d");
    EXPECT_TRUE(parsed(R"(,"dns":{})").dns.empty());
    EXPECT_TRUE(parsed(R"(,"dns":null)").dns.empty());
    EXPECT_THAT(refused(R"(,"dns":{"nameservers":["ns.example"]})"), HasSubstr("ns.example"));
    EXPECT_THAT(refused(R"(,"dns":[])"), HasSubstr("\"dns\""));
}

TEST(NetConfTest, NamesThePodForPeople) {
    EXPECT_EQ(parsed("", "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod").pod, "ns/pod");
    EXPECT_EQ(parsed("", "K8S_POD_NAME=pod").pod, "pod");
    EXPECT_EQ(parsed("", ";;=;x;K8S_POD_UID=7").pod, std::nullopt);
}

TEST(NetConfTest, DecodesPrevResultByItsOwnVersion) {
    const std::string old = R"(,"prevResult":{"cniVersion":"0.2.0","ip4":{"ip":"10.1.0.5/16"}})";
    EXPECT_EQ(parsed(old).prev_result->ips.at(0).address.to_string(), "10.1.0.5/16");
    const std::string stack = R"(,"prevResult":{"CNIVersion":"0.3.1","Interfaces":[{"Name":"eth0"}],"IPs":[]})";
    EXPECT_EQ(parsed(stack).prev_result->interfaces.at(0).name, "eth0");
    EXPECT_FALSE(parsed(R"(,"prevResult":null)").prev_result);
    EXPECT_THAT(refused(R"(,"prevResult":7)"), HasSubstr("prevResult"));
}

TEST(NetConfTest, TellsAnAbsentListOfAttachmentsFromAnEmptyOne) {
    EXPECT_FALSE(parsed("").valid_attachments);
    for (const char* empty : {R"(,"cni.dev/valid-attachments":null)", R"(,"cni.dev/attachments":[])"}) {
        ASSERT_TRUE(parsed(empty).valid_attachments) << empty;
        EXPECT_THAT(*parsed(empty).valid_attachments, IsEmpty());
    }
    EXPECT_THAT(*parsed(R"(,"cni.dev/attachments":[{"containerID":"c1","ifname":"eth0"}])").valid_attachments,
                ElementsAre(std::pair<std::string, std::string>("c1", "eth0")));
}

// Reading it as "none is valid" would delete every pod's network.
TEST(NetConfTest, ABrokenListOfAttachmentsIsAnErrorAlsoForRemoval) {
    for (const char* bad : {"{}", "7", R"([{"containerID":"c1"}])", "[7]", R"([{"containerID":7,"ifname":"eth0"}])"}) {
        const auto conf =
            parse_net_conf(conf_with(std::string(R"(,"cni.dev/attachments":)") + bad), "", "", Purpose::remove);
        ASSERT_FALSE(conf) << bad;
        EXPECT_EQ(conf.error().code, 7);
    }
}

TEST(NetConfTest, RemovalTakesWrongValuesForRemarks) {
    const auto conf = parse_net_conf(conf_with(R"(,"mtu":"auto","policy":"slow","ipam":{"type":"host-local"})"),
                                     "XVETH_CONTAINER_XDP=program", "eth0", Purpose::remove);
    ASSERT_TRUE(conf);
    EXPECT_EQ(conf->ipam_type, "host-local");
    EXPECT_THAT(conf->remarks, Contains(HasSubstr("auto")));
    EXPECT_THAT(conf->remarks, Contains(HasSubstr("slow")));
    EXPECT_THAT(conf->remarks, Contains(HasSubstr("XVETH_CONTAINER_XDP")));
    EXPECT_EQ(parse_net_conf(R"({"cniVersion":"1.0.0"})", "", "eth0", Purpose::remove).error().code, 7);
}

TEST(NetConfTest, ChecksNames) {
    for (const char* bad : {"null", "\"\"", "\"../x\"", "\"-x\"", "7", "\"a b\"", "\"a/b\""}) {
        const auto conf = parse_net_conf(std::string(R"({"cniVersion":"1.0.0","name":)") + bad + "}", "", "eth0");
        ASSERT_FALSE(conf) << bad;
        EXPECT_EQ(conf.error().code, 7);
        EXPECT_THAT(conf.error().text, HasSubstr("name"));
    }
    EXPECT_TRUE(parse_net_conf(R"({"cniVersion":"1.0.0","name":")" + std::string(300, 'n') + "\"}", "", "eth0"));
}

// ---- requests of pods

TEST(RequestTest, AnnotationOfTheFirstInterfaceOrOfOne) {
    const std::string both =
        annotations(R"("xveth.dev/container-xdp":"free","xveth.dev/net1.policy":"stack","other/x":"y")");
    EXPECT_EQ(parsed(both).container_xdp, ContainerXdp::free);
    EXPECT_EQ(parsed(both).policy, Policy::automatic);
    EXPECT_EQ(parsed(both, "", "net1").container_xdp, ContainerXdp::managed);
    EXPECT_EQ(parsed(both, "", "net1").policy, Policy::stack);
    const std::string specific =
        annotations(R"("xveth.dev/container-xdp":"managed","xveth.dev/eth0.container-xdp":"free")");
    EXPECT_EQ(parsed(specific).container_xdp, ContainerXdp::free);
    EXPECT_EQ(parsed(annotations(R"("xveth.dev/eth0.100.policy":"stack")"), "", "eth0.100").policy, Policy::stack);
}

TEST(RequestTest, AnnotationsWinOverCniArgs) {
    EXPECT_EQ(parsed("", "XVETH_CONTAINER_XDP=free").container_xdp, ContainerXdp::free);
    EXPECT_EQ(parsed(annotations(R"("xveth.dev/container-xdp":"managed")"), "XVETH_CONTAINER_XDP=free").container_xdp,
              ContainerXdp::managed);
}

TEST(RequestTest, IsHonouredOnlyAsFarAsAllowed) {
    const std::string asks = annotations(R"("xveth.dev/container-xdp":"free")");
    const std::string text = refused(asks + R"(,"allow":{"containerXdp":["managed"]})");
    EXPECT_THAT(text, HasSubstr("xveth.dev/container-xdp"));
    EXPECT_THAT(text, HasSubstr("\"free\""));
    EXPECT_THAT(text, HasSubstr("allow.containerXdp"));
    EXPECT_THAT(refused("", "XVETH_CONTAINER_XDP=program"), HasSubstr("allow.containerXdp"));
    EXPECT_THAT(refused("", "XVETH_CONTAINER_XDP=afxdp"), HasSubstr("not served"));
    EXPECT_THAT(refused("", "XVETH_CONTAINER_XDP=mine"), HasSubstr("mine"));
    EXPECT_THAT(refused("", "XVETH_LOCAL_MTU=9000"), HasSubstr("allow.localMtu"));
    EXPECT_EQ(parsed(R"(,"allow":{"localMtu":true})", "XVETH_LOCAL_MTU=9000").local_mtu, 9000U);
    EXPECT_THAT(refused(R"(,"allow":{"localMtu":true})", "XVETH_LOCAL_MTU=70000"), HasSubstr("70000"));
}

TEST(RequestTest, NamesAProgramThatTheNetworkPermits) {
    const std::string ask = annotations(R"("xveth.dev/program":"limit.o:xdp_limit")");
    EXPECT_THAT(refused(ask), HasSubstr("allow.programs"));
    EXPECT_THAT(refused(ask + R"(,"allow":{"programs":["other.o","limit.o:other"]})"), HasSubstr("allow.programs"));
    for (const char* permission : {"limit.o", "limit.o:xdp_limit"}) {
        const NetConf conf = parsed(ask + R"(,"allow":{"programs":[")" + permission + R"("]})");
        EXPECT_EQ(conf.container_xdp, ContainerXdp::program);
        EXPECT_EQ(conf.container_program, (ContainerProgram{.object = "limit.o", .program = "xdp_limit"}));
    }
    const std::string allow = R"(,"allow":{"programs":["limit.o"]})";
    EXPECT_EQ(parsed(allow, "XVETH_PROGRAM=limit.o").container_program->program, "");
    for (const char* bad : {"/etc/limit.o:p", "limit.o:", ":p", ""})
        EXPECT_THAT(refused(allow, std::string("XVETH_PROGRAM=") + bad), HasSubstr("OBJECT:PROGRAM"));
    EXPECT_THAT(refused(allow, "XVETH_PROGRAM=limit.o:p;XVETH_CONTAINER_XDP=free"), HasSubstr("contradicts"));
}

TEST(RequestTest, JoinsAndUsesChainsThatTheNetworkPermits) {
    const std::string allow = R"(,"allow":{"chains":{"join":["edge"],"use":["core"]}})";
    EXPECT_THAT(refused("", "XVETH_CHAIN=edge:10"), HasSubstr("allow.chains.join"));
    EXPECT_THAT(refused("", "XVETH_PROTECTED_BY=core"), HasSubstr("allow.chains.use"));
    EXPECT_THAT(refused(allow, "XVETH_CHAIN=core:10;XVETH_CONTAINER_XDP=free"), HasSubstr("allow.chains.join"));
    const NetConf function = parsed(allow, "XVETH_CHAIN=edge:10:bypass;XVETH_CONTAINER_XDP=free");
    ASSERT_TRUE(function.function_of);
    EXPECT_EQ(function.function_of->position, 10);
    EXPECT_EQ(function.function_of->on_failure, OnFailure::bypass);
    for (const char* bad : {"edge", "edge:", "edge:0", "edge:70000", "edge:1:never", ":1"})
        EXPECT_THAT(refused(allow, std::string("XVETH_CHAIN=") + bad), HasSubstr("CHAIN:POSITION")) << bad;
    EXPECT_EQ(parsed(allow, "XVETH_PROTECTED_BY=core").protected_by->chain, "core");
    EXPECT_THAT(refused(allow + R"(,"protectedBy":"edge")", "XVETH_PROTECTED_BY=core"), HasSubstr("edge"));
    for (const char* bad : {R"("edge")", R"({"join":"edge"})", R"({"use":[7]})"})
        EXPECT_THAT(refused(std::string(R"(,"allow":{"chains":)") + bad + "}"), HasSubstr("allow.chains")) << bad;
}

TEST(RequestTest, TightensButNeverLoosens) {
    EXPECT_EQ(parsed(R"(,"policy":"fast")", "XVETH_POLICY=auto").policy, Policy::automatic);
    EXPECT_EQ(parsed("", "XVETH_POLICY=stack").policy, Policy::stack);
    EXPECT_EQ(parsed("", "XVETH_POLICY=auto").policy, Policy::automatic);
    EXPECT_THAT(refused("", "XVETH_POLICY=fast"), HasSubstr("\"fast\""));
    EXPECT_THAT(refused(R"(,"policy":"stack")", "XVETH_POLICY=auto"), HasSubstr("policy"));
    EXPECT_TRUE(parsed(R"(,"spoofCheck":false)", "XVETH_SPOOF_CHECK=true").spoof_check);
    EXPECT_THAT(refused("", "XVETH_SPOOF_CHECK=false"), HasSubstr("spoofCheck"));
}

TEST(RequestTest, UnknownKeysOfANewerVersionAreRemarks) {
    const NetConf conf =
        parsed(annotations(R"("xveth.dev/teleport":"yes","xveth.dev/network":"net")"), "XVETH_TELEPORT=1");
    EXPECT_THAT(conf.remarks, Contains(HasSubstr("xveth.dev/teleport")));
    EXPECT_THAT(conf.remarks, Contains(HasSubstr("XVETH_TELEPORT")));
    EXPECT_EQ(conf.remarks.size(), 2U);
}

TEST(RequestTest, OwnKeysAreTakenOutOfCniArgs) {
    EXPECT_EQ(args_without_own_keys("IgnoreUnknown=1;XVETH_POLICY=stack;K8S_POD_NAME=p"),
              "IgnoreUnknown=1;K8S_POD_NAME=p");
    EXPECT_EQ(args_without_own_keys("XVETH_A=1"), "");
    EXPECT_EQ(args_without_own_keys("odd;;A=b=c"), "odd;;A=b=c");
}

// ---- whole files as other projects ship them, with our type

TEST(RealConfTest, Files) {
    const std::vector<std::string> files{
        R"({"name":"cbr0","cniVersion":"1.0.0","type":"xveth","delegate":{"hairpinMode":true,"forceAddress":true,"isDefaultGateway":true}})",
        R"({"cniVersion":"0.3.1","name":"kindnet","type":"xveth","ipMasq":false,"ipam":{"type":"host-local","dataDir":"/run/cni-ipam-state","routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"10.244.0.0/24"}]]},"mtu":1500})",
        R"({"cniVersion":"1.0.0","name":"containerd-net","type":"xveth","bridge":"cni0","isGateway":true,"ipMasq":true,"promiscMode":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}],[{"subnet":"2001:4860:4860::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}})",
        R"({"cniVersion":"0.3.1","name":"crio","type":"xveth","hairpinMode":true,"ipam":{"type":"host-local","routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"10.85.0.0/16"}]]}})",
        "{\"cniVersion\":\"0.4.0\",\"name\":\"podman\",\"type\":\"xveth\",\t\"backend\":\"iptables\",\"ipam\":{"
        "\"type\":\"host-local\",\"subnet\":\"10.88.0.0/16\"}}",
        R"({"cniVersion":"1.0.0","name":"bridge","type":"xveth","ipam":{}})",
        R"({"cniVersion":"1.0.0","name":"k8s-pod-network","type":"xveth","log_file_path":"/var/log/x","mtu":0,"kubernetes":{"kubeconfig":"/etc/cni/k"}})",
        R"({"cniVersion":"0.4.0","name":"aws-cni","type":"xveth","mtu":"9001","enabled":"true","randomizeSNAT":"prng","capabilities":{"io.kubernetes.cri.pod-annotations":true},"ipam":{"type":"host-local","subnet":""}})",
        R"({"cniVersion":"1.1.0","name":"gke-pod-network","type":"xveth","ipam":{"type":"host-local","ranges":[]}})",
        R"({"cniVersion":"0.3.0","name":"azure","type":"xveth","mode":"route","ipsToRouteViaHost":["169.254.20.10"],"networkMonitor":{"a":{"b":[]}}})",
        R"({"cniVersion":"0.3.0","name":"antrea","type":"xveth","ipam":{"type":"host-local"}})",
        R"({"name":"kube-ovn","cniVersion":"0.3.1","type":"xveth","server_socket":"/run/openvswitch/kube-ovn-daemon.sock"})",
        R"({"cniVersion":"0.4.0","name":"terway","type":"xveth","prefix":"eni"})",
        R"({"name":"multus","cniVersion":"0.3.1","type":"xveth","delegates":[{"name":"x","plugins":[{}]}],"logOptions":{"maxAge":5},"capabilities":{"portMappings":true}})",
        R"({"cniVersion":"0.3.1","name":"chained","type":"xveth","kubernetes":{"exclude_namespaces":["istio-system"]}})",
        R"({"cniVersion":"0.1.0","name":"kubenet","type":"xveth","addIf":"eth0","isGateway":true,"ipam":{"type":"host-local","subnet":"10.1.0.0/24","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]}})"};
    for (const std::string& file : files) {
        const auto conf = parse_net_conf(file, "", "net1");
        EXPECT_TRUE(conf) << file << "\n" << (conf ? "" : conf.error().text);
    }
}

TEST(RealConfTest, AFileWithoutANameIsRefused) {
    EXPECT_EQ(parse_net_conf(R"({"cniVersion":"0.3.0","type":"xveth","deviceID":"x","logFile":"a.log"})", "", "eth0")
                  .error()
                  .code,
              7);
    EXPECT_EQ(parse_net_conf(R"({"version":"0.3.1","name":"n"})", "", "eth0")->cni_version, "0.1.0");
}

TEST(RealConfTest, DepthAndSizeDoNoHarm) {
    const std::size_t depth = 200'000;
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    EXPECT_TRUE(parse(R"(,"args":)" + deep));
    EXPECT_THAT(refused(R"(,"mtu":)" + deep), HasSubstr("mtu"));
    EXPECT_THAT(refused(R"(,"prevResult":{"ips":)" + deep + "}"), HasSubstr("prevResult"));
    EXPECT_EQ(
        parsed(annotations("\"big\":\"" + std::string(1'000'000, 'a') + R"(","xveth.dev/policy":"stack")")).policy,
        Policy::stack);
}

}  // namespace
}  // namespace xveth::attachment
