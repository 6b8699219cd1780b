// SPDX-License-Identifier: Apache-2.0
// Loading, pinning, attaching; ports and addresses in the maps.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/load.hpp"
#include "bpf-progs/tests/test_node.hpp"
#include "xv_programs.skel.h"

namespace xveth::bpf::testing {
namespace {

class Loader : public TestNode {
protected:
    [[nodiscard]] Netns here() const { return Netns::current().value(); }
    [[nodiscard]] std::uint32_t new_device() const {
        run_command("ip link add spare type veth peer name spare_peer && ip link set spare up");
        return ::if_nametoindex("spare");
    }
};

TEST_F(Loader, OpensWhatIsPinnedWithoutLoadingAgain) {
    const auto id = objects_->program_id(Program::host).value();
    auto again = open_pinned_objects(here().cookie().value(), "/run/xveth-test-bpf");
    EXPECT_TRUE(again->open_if_loaded().value());
    ASSERT_TRUE(again->ensure_loaded());
    EXPECT_EQ(again->program_id(Program::host).value(), id);
    EXPECT_TRUE(again->has_conntrack());
}

TEST_F(Loader, SaysThatAnotherNodeHasNothing) {
    auto other = open_pinned_objects(1, "/run/xveth-test-bpf");
    EXPECT_FALSE(other->open_if_loaded().value());
    EXPECT_FALSE(other->has_conntrack());
    EXPECT_FALSE(open_pinned_objects(1, "/nowhere")->open_if_loaded().value());
}

TEST_F(Loader, DiscardsItsOwnWhenAnotherHasPublished) {
    const auto id = objects_->program_id(Program::nic).value();
    const PinPaths paths(here().cookie().value(), "/run/xveth-test-bpf");
    ASSERT_TRUE(load_and_publish(paths, false));
    EXPECT_EQ(objects_->program_id(Program::nic).value(), id);
    EXPECT_FALSE(pin_exists(paths.staging()).value());
}

TEST_F(Loader, ClearsAwayWhatAnInterruptedLoadLeft) {
    const PinPaths paths(77, "/run/xveth-test-bpf");
    run_command("mkdir -p " + paths.staging() + "/maps");
    ASSERT_TRUE(load_and_publish(paths, true));
    EXPECT_FALSE(pin_exists(paths.staging()).value());
    EXPECT_TRUE(open_pinned_objects(77, "/run/xveth-test-bpf")->open_if_loaded().value());
}

TEST_F(Loader, MountsABpffsWhereThereIsNone) {
    run_command("mkdir -p /run/elsewhere");
    auto objects = open_pinned_objects(78, "/run/elsewhere/bpf");
    ASSERT_TRUE(objects->ensure_loaded());
    EXPECT_EQ(output_of("stat -f -c %T /run/elsewhere/bpf"), "bpf_fs\n");
    run_command("umount /run/elsewhere/bpf");
}

TEST_F(Loader, EveryXdpProgramTakesFragmentedFrames) {
    xv_programs* objects = xv_programs__open();
    ASSERT_NE(objects, nullptr);
    struct bpf_program* program = nullptr;
    int seen = 0;
    bpf_object__for_each_program(program, objects->obj) {
        if (bpf_program__type(program) != BPF_PROG_TYPE_XDP) continue;
        ++seen;
        EXPECT_STREQ(bpf_program__section_name(program), "xdp.frags") << bpf_program__name(program);
    }
    EXPECT_EQ(seen, 4);
    xv_programs__destroy(objects);
}

TEST_F(Loader, NoProgramPrintsToTheTraceLog) {
    xv_programs* objects = xv_programs__open();
    ASSERT_NE(objects, nullptr);
    struct bpf_program* program = nullptr;
    bpf_object__for_each_program(program, objects->obj) {
        const auto* instructions = bpf_program__insns(program);
        for (std::size_t i = 0; i < bpf_program__insn_cnt(program); ++i)
            EXPECT_FALSE(
                instructions[i].code == (BPF_JMP | BPF_CALL) && instructions[i].src_reg == 0 &&
                (instructions[i].imm == BPF_FUNC_trace_printk || instructions[i].imm == BPF_FUNC_trace_vprintk))
                << bpf_program__name(program);
    }
    xv_programs__destroy(objects);
}

// -- links

TEST_F(Loader, AttachesNativelyAndPins) {
    const auto device = new_device();
    ASSERT_TRUE(objects_->attach(here(), device, Program::host, "0123456789abh"));
    const auto link = objects_->find_link("0123456789abh").value();
    ASSERT_TRUE(link);
    EXPECT_EQ(link->ifindex, device);
    EXPECT_EQ(link->program_id, objects_->program_id(Program::host).value());
    const auto owner = objects_->attached_program(here(), device).value();
    ASSERT_TRUE(owner);
    EXPECT_EQ(owner->name, "xv_host");
    EXPECT_EQ(owner->mode, "native");
    EXPECT_NE(output_of("ip link show spare").find("prog/xdp id"), std::string::npos);
    ASSERT_TRUE(objects_->remove_link_if_present("0123456789abh"));
    EXPECT_FALSE(objects_->attached_program(here(), device).value());
    EXPECT_FALSE(objects_->find_link("0123456789abh").value());
    EXPECT_TRUE(objects_->remove_link_if_present("0123456789abh"));
}

TEST_F(Loader, AttachesInAnotherNamespace) {
    auto ns = Netns::open("/run/netns/a").value();
    std::uint32_t index = 0;
    {
        auto scope = NetnsScope::enter(ns);
        ASSERT_TRUE(scope);
        index = ::if_nametoindex("eth0");
    }
    ASSERT_TRUE(objects_->attach(ns, index, Program::pod, "0123456789abc"));
    EXPECT_EQ(objects_->attached_program(ns, index).value()->name, "xv_pod");
    EXPECT_EQ(objects_->find_link("0123456789abc").value()->ifindex, index);
}

TEST_F(Loader, NamesTheForeignProgramAndLeavesItAlone) {
    const auto device = new_device();
    run_command("ip link set spare xdp off");
    ASSERT_TRUE(objects_->attach(here(), device, Program::pod, "other"));
    const auto id = objects_->program_id(Program::pod).value();
    const auto refused = objects_->attach(here(), device, Program::host, "mine");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().errno_value, EBUSY);
    EXPECT_EQ(refused.error().code, 101);
    EXPECT_EQ(refused.error().text, "device " + std::to_string(device) + " already carries XDP program xv_pod (id " +
                                        std::to_string(id) + ", native)");
    EXPECT_EQ(objects_->attached_program(here(), device).value()->id, id);
    EXPECT_FALSE(objects_->find_link("mine").value());
}

TEST_F(Loader, SeesProgramsAtTheTcxHooks) {
    constexpr auto tcx_egress = static_cast<bpf_attach_type>(47);
    const std::array<bpf_insn, 2> pass{
        bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
        bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
    const auto device = new_device();
    EXPECT_FALSE(objects_->has_tcx_programs(here(), device).value());
    const UniqueFd program{bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "foreign", "GPL", pass.data(), pass.size(), nullptr)};
    ASSERT_TRUE(program.valid());
    const UniqueFd link{bpf_link_create(program.get(), static_cast<int>(device), tcx_egress, nullptr)};
    if (!link.valid()) GTEST_SKIP() << "this kernel has no tcx hooks: " << std::strerror(errno);
    EXPECT_TRUE(objects_->has_tcx_programs(here(), device).value());
}

TEST_F(Loader, NeverFallsBackToGenericMode) {
    const auto refused = objects_->attach(here(), 1, Program::nic, "loopback");  // lo has no native XDP
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().errno_value, EOPNOTSUPP);
    EXPECT_EQ(refused.error().hint, "the driver has no native XDP");
    EXPECT_FALSE(objects_->attached_program(here(), 1).value());
}

TEST_F(Loader, ALinkOutlivesItsDeviceAsAZombie) {
    const auto device = new_device();
    ASSERT_TRUE(objects_->attach(here(), device, Program::host, "zombie"));
    run_command("ip link del spare");
    EXPECT_EQ(objects_->find_link("zombie").value()->ifindex, 0U);
    auto links = objects_->list_links().value();
    EXPECT_NE(std::find(links.begin(), links.end(), "zombie"), links.end());
    const auto again = new_device();
    ASSERT_TRUE(objects_->attach(here(), again, Program::host, "zombie")) << "a dead link holds its pin against nobody";
    EXPECT_EQ(objects_->find_link("zombie").value()->ifindex, again);
    ASSERT_TRUE(objects_->remove_link_if_present("zombie"));
    links = objects_->list_links().value();
    EXPECT_EQ(std::find(links.begin(), links.end(), "zombie"), links.end());
}

// -- ports and addresses

TEST_F(Loader, GivesFreedIdsAgainOnlyAfterAllOthersAndWithANewEpoch) {
    xv_port port{};
    port.ifindex = 900;
    const auto first = objects_->allocate_port(port).value();
    const auto epoch = objects_->get_port(first).value().epoch;
    EXPECT_EQ(objects_->find_port(900).value(), first);
    ASSERT_TRUE(objects_->free_port(first));
    EXPECT_EQ(objects_->get_port(first).value().ifindex, 0U);
    EXPECT_FALSE(objects_->find_port(900).value());
    const auto second = objects_->allocate_port(port).value();
    EXPECT_NE(second, first);
    EXPECT_GT(objects_->get_port(second).value().epoch, epoch);
}

TEST_F(Loader, FreeingAPortTakesItOutOfEveryMap) {
    ASSERT_TRUE(objects_->put_source(a_.id, IpPrefix::parse("10.9.0.0/16").value()));
    ASSERT_TRUE(objects_->put_fast_to(a_.id, IpPrefix::parse("10.8.0.0/16").value()));
    from_a(a_to_b());
    ASSERT_TRUE(objects_->free_port(a_.id));
    ASSERT_TRUE(objects_->free_port(a_.id)) << "free already";
    EXPECT_FALSE(objects_->find_target(a_.id).value());
    EXPECT_EQ(objects_->stats(a_.id).value().from_port.frames, 0U);
    for (const char* map : {"xv_sources", "xv_fast_to"})
        EXPECT_EQ(output_of("bpftool map dump pinned " + map_path(map) + " -j"), "[]\n") << map;
}

TEST_F(Loader, AnIfindexThatPassedToAnotherPortStaysTheOthers) {
    xv_port port{};
    port.ifindex = 900;
    const auto old = objects_->allocate_port(port).value();
    const auto young = objects_->allocate_port(port).value();
    ASSERT_TRUE(objects_->free_port(old));
    EXPECT_EQ(objects_->find_port(900).value(), young);
}

TEST_F(Loader, UpdatingAPortKeepsItsEpochAndFollowsItsDevice) {
    auto port = objects_->get_port(a_.id).value();
    const auto epoch = port.epoch;
    port.epoch = 999;
    port.ifindex = 901;
    ASSERT_TRUE(objects_->update_port(a_.id, port));
    EXPECT_EQ(objects_->get_port(a_.id).value().epoch, epoch);
    EXPECT_EQ(objects_->find_port(901).value(), a_.id);
    EXPECT_FALSE(objects_->find_port(a_.ifindex).value());
}

TEST_F(Loader, AnEndpointIsRemovedOnlyByItsOwner) {
    const auto address = ip("10.1.0.2");
    ASSERT_TRUE(objects_->put_endpoint(address, b_.id));
    ASSERT_TRUE(objects_->remove_endpoint_if_of(address, a_.id));
    EXPECT_EQ(objects_->find_endpoint(address).value(), b_.id);
    ASSERT_TRUE(objects_->remove_endpoint_if_of(address, b_.id));
    EXPECT_FALSE(objects_->find_endpoint(address).value());
    EXPECT_EQ(objects_->list_endpoints().value().size(), 3U);
}

TEST_F(Loader, ATargetEndsWithItsDevice) {
    const auto device = new_device();
    xv_port port{};
    port.ifindex = device;
    const auto id = objects_->allocate_port(port).value();
    ASSERT_TRUE(objects_->put_target(id, device));
    EXPECT_EQ(objects_->find_target(id).value(), device);
    run_command("ip link del spare");
    EXPECT_FALSE(objects_->find_target(id).value());
    EXPECT_FALSE(objects_->put_target(id, device));
    EXPECT_TRUE(objects_->remove_target_if_present(id));
}

TEST_F(Loader, ErrorsNameTheMapAndCarryItsCode) {
    const auto refused = open_pinned_objects(1, "/run/xveth-test-bpf")->put_endpoint(ip("10.0.0.1"), PortId{1});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, 102);
    EXPECT_EQ(refused.error().errno_value, ENOENT);
    EXPECT_NE(refused.error().text.find("xv_endpoints"), std::string::npos);
}

}  // namespace
}  // namespace xveth::bpf::testing
