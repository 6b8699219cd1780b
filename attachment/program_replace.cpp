// SPDX-License-Identifier: Apache-2.0
#include "attachment/program_replace.hpp"

#include <algorithm>

#include "attachment/container_program.hpp"
#include "attachment/lifecycle.hpp"
#include "base/scope_exit.hpp"

namespace xveth::attachment {
namespace {

// One attachment on its way from one program to another. Its lock is held for as long as this lives.
struct Exchange {
    AttachmentLock lock;
    AttachmentRecord record;
    bpf::ProgramInstance from;
    bpf::ProgramInstance to;
};

std::string file_of(const ProgramRecord& program) { return program.object + ":" + program.program; }

std::string name_of(const AttachmentKey& key) { return key.network + "/" + key.container_id + "/" + key.ifname; }

bool fits(const std::vector<std::string>& choice, const std::string& value) {
    return choice.empty() || std::ranges::find(choice, value) != choice.end();
}

bool is_selected(const ProgramSelection& selection, const AttachmentRecord& record) {
    return record.program && record.complete && fits(selection.objects, record.program->object) &&
           fits(selection.containers, record.key.container_id) && fits(selection.networks, record.key.network);
}

// In the order of their hashes, in which everybody locks several.
Result<std::vector<AttachmentKey>> select(Node& node, const ProgramSelection& selection) {
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    std::erase_if(*records, [&](const auto& record) { return !is_selected(selection, record); });
    for (const auto& object : selection.objects)
        if (std::ranges::none_of(*records, [&](const auto& record) { return record.program->object == object; }))
            return Error{.code = 0,
                         .errno_value = 0,
                         .text = "no such container runs " + object,
                         .hint = "xvethctl program list shows what runs"};
    std::vector<AttachmentKey> keys;
    for (const auto& record : *records) keys.push_back(record.key);
    std::ranges::sort(keys, {}, &AttachmentKey::hash);
    return keys;
}

Error refused(std::string text, std::string hint) {
    return {.code = 105, .errno_value = 0, .text = std::move(text), .hint = std::move(hint)};
}

Result<void> check_running(const ProgramRecord& program, const bpf::ProgramInstance& running) {
    if (running.id == program.id || (program.next_id != 0 && running.id == program.next_id)) return ok();
    return refused("somebody updated our XDP link: it runs program " + std::to_string(running.id) + ", ours is " +
                       std::to_string(program.id),
                   "recreate the container");
}

Result<void> check_kind(const ProgramRecord& program, bool frags) {
    if (frags == program.frags) return ok();
    const auto kind = [](bool is_frags) { return is_frags ? std::string("xdp.frags") : std::string("plain xdp"); };
    return refused(file_of(program) + " is a program of section " + kind(frags) + " now, and the running one is of " +
                       kind(program.frags) + ": the interface keeps the MTU limit of the first",
                   "recreate the container, or build the program for the same section");
}

Result<Exchange> prepare(Node& node, AttachmentLock lock, AttachmentRecord record, bool fresh_maps) {
    const auto place = place_of(record);
    auto running = node.path.programs.open(datapath::container_pin(record.key.hash()), place);
    if (!running) return std::move(running.error());
    if (auto checked = check_running(*record.program, *running); !checked) return std::move(checked.error());
    auto loaded = node.path.programs.load(choice_of(*record.program),
                                          fresh_maps ? bpf::MapReuse::none : bpf::MapReuse::keep, place);
    if (!loaded) return std::move(loaded.error());
    if (auto checked = check_kind(*record.program, loaded->traits.frags); !checked) return std::move(checked.error());
    return Exchange{
        .lock = std::move(lock), .record = std::move(record), .from = std::move(*running), .to = std::move(*loaded)};
}

Result<std::vector<Exchange>> prepare_all(Node& node, const ProgramSelection& selection) {
    auto keys = select(node, selection);
    if (!keys) return std::move(keys.error());
    std::vector<Exchange> exchanges;
    for (const auto& key : *keys) {
        auto lock = lock_attachment(node, key);
        if (!lock) return std::move(lock.error());
        auto record = node.store.find(key);
        if (!record) return std::move(record.error());
        if (!*record || !is_selected(selection, **record)) continue;  // deleted meanwhile
        auto exchange = prepare(node, std::move(*lock), std::move(**record), selection.fresh_maps);
        if (!exchange) return std::move(exchange.error()).in(name_of(key));
        exchanges.push_back(std::move(*exchange));
    }
    return exchanges;
}

Result<void> publish_maps(Node& node, const bpf::ProgramInstance& instance, const AttachmentRecord& record) {
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    return node.path.programs.publish_maps(instance, place_of(record));
}

// The new id is on record beside the old one before the link has it: who is killed here leaves an attachment that CHECK
// and the next replacement understand.
Result<void> exchange_one(Node& node, const Exchange& exchange, Transaction& tx) {
    const auto& [lock, record, from, to] = exchange;
    const std::string pin = datapath::container_pin(record.key.hash());
    AttachmentRecord intent = record;
    intent.program->next_id = to.id;
    tx.on_failure([&node, &record] { (void)node.store.put(record); });
    if (auto put = node.store.put(intent); !put) return put;
    if (auto replaced = node.path.programs.replace(pin, from, to); !replaced) return replaced;
    tx.on_failure([&node, &exchange, pin] {
        (void)node.path.programs.replace(pin, exchange.to, exchange.from);
        (void)publish_maps(node, exchange.from, exchange.record);
    });
    return publish_maps(node, to, record);
}

Result<void> conclude(Node& node, const Exchange& exchange) {
    AttachmentRecord done = exchange.record;
    done.program->id = exchange.to.id;
    done.program->next_id = 0;
    return node.store.put(done);
}

}  // namespace

Result<std::vector<ReplacedProgram>> replace_programs(Node& node, const ProgramSelection& selection) {
    auto exchanges = prepare_all(node, selection);
    if (!exchanges) return std::move(exchanges.error());
    Transaction tx;
    for (const auto& exchange : *exchanges)
        if (auto done = exchange_one(node, exchange, tx); !done)
            return std::move(done.error()).in(name_of(exchange.record.key));
    for (const auto& exchange : *exchanges)
        if (auto done = conclude(node, exchange); !done) return std::move(done.error());
    tx.commit();
    std::vector<ReplacedProgram> replaced;
    for (const auto& exchange : *exchanges)
        replaced.push_back({.key = exchange.record.key,
                            .file = file_of(*exchange.record.program),
                            .from = exchange.from.id,
                            .to = exchange.to.id});
    return replaced;
}

}  // namespace xveth::attachment
