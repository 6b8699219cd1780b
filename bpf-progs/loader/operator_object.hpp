// SPDX-License-Identifier: Apache-2.0
// An object file of the operator's: found, read, looked into, loaded. Errors carry code 105 and name file and program.
#pragma once

#include <bpf/libbpf.h>

#include <memory>
#include <string>

#include "base/result.hpp"
#include "bpf-progs/loader/operator_programs.hpp"

namespace xveth::bpf {

struct CloseObject {
    void operator()(struct bpf_object* object) const { bpf_object__close(object); }
};

class OperatorObject {
public:
    // The file `choice.object` of `directory`: a regular file of root's that nobody else may write, in a directory of the
    // same kind, reached without leaving it; and the program in it.
    [[nodiscard]] static Result<OperatorObject> open(const std::string& directory, const ProgramChoice& choice);

    [[nodiscard]] const ProgramTraits& traits() const { return traits_; }
    // For each map whose pin is in `place`, that one is used instead of a new one. EINVAL when its definition differs.
    // Maps of programs begin anew always: the running program's calls must not end in the new one's functions.
    [[nodiscard]] Result<void> reuse_maps(const std::string& place);
    [[nodiscard]] Result<ProgramInstance> load();

private:
    using Handle = std::unique_ptr<struct bpf_object, CloseObject>;

    OperatorObject(std::string path, Handle handle) : path_(std::move(path)), handle_(std::move(handle)) {}
    [[nodiscard]] Result<void> choose(const std::string& name);
    [[nodiscard]] Error failure(int err, const std::string& said) const;

    std::string path_;
    Handle handle_;
    struct bpf_program* program_ = nullptr;
    ProgramTraits traits_;
};

}  // namespace xveth::bpf
