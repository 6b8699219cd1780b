// SPDX-License-Identifier: Apache-2.0
// An `OperatorPrograms` that remembers, beside a FakeObjects whose devices and links it shares. What it proves: which places
// and pins exist after a sequence of calls. What it cannot: that objects are read, verified and attached, that maps keep
// their content; the loader's tests do that on the kernel.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "bpf-progs/loader/fake_objects.hpp"
#include "bpf-progs/loader/operator_programs.hpp"

namespace xveth::bpf {

class FakePrograms final : public OperatorPrograms {
public:
    FakePrograms(FakeObjects& objects, FaultInjector& faults) : objects_(objects), faults_(faults) {}

    // -- the test's side
    struct File {
        ProgramTraits traits;
        std::vector<std::string> maps;
    };
    std::map<std::string, File> files;  // the operator's directory
    [[nodiscard]] std::string to_string() const;

    // -- OperatorPrograms
    Result<ProgramTraits> find(const ProgramChoice& choice) override;
    Result<ProgramInstance> load(const ProgramChoice& choice, MapReuse reuse, const InstancePlace& place) override;
    Result<ProgramInstance> open(const std::string& pin, const InstancePlace& place) override;
    Result<void> publish_maps(const ProgramInstance& instance, const InstancePlace& place) override;
    Result<std::optional<std::string>> find_place(const std::string& attachment) override;
    Result<void> remove_maps_if_present(const InstancePlace& place) override;
    Result<std::vector<InstancePlace>> list_places() override;
    Result<void> attach(const ProgramInstance& instance, const Netns& ns, std::uint32_t ifindex,
                        const std::string& pin) override;
    Result<void> replace(const std::string& pin, const ProgramInstance& from, const ProgramInstance& to) override;

private:
    Result<void> step(const char* name, int code);
    Result<const File*> file_of(const ProgramChoice& choice) const;

    FakeObjects& objects_;
    FaultInjector& faults_;
    std::uint32_t next_id_ = 1001;
    std::map<std::string, std::string> places_;          // attachment -> directory
    std::map<std::string, std::set<std::string>> pins_;  // directory -> maps
};

}  // namespace xveth::bpf
