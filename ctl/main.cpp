// SPDX-License-Identifier: Apache-2.0
// xvethctl: what the node's operator sees of xveth. Exit status: 0 well, 1 usage, 2 failed, 3 problems found.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "attachment/local_node.hpp"
#include "base/files.hpp"
#include "ctl/commands.hpp"

namespace {

using namespace xveth;
using Command = std::function<Result<ctl::Output>(attachment::Node&)>;

enum Exit : int { well = 0, usage = 1, failed = 2, problems = 3 };

int fail(const Error& error) {
    std::cerr << "xvethctl: " << error.text << (error.hint.empty() ? "" : ": ") << error.hint << '\n';
    return failed;
}

int run(const Command& command) {
    auto local = attachment::LocalNode::open();
    if (!local) return fail(local.error());
    auto output = command((*local)->node());
    if (!output) return fail(output.error());
    if (auto written = write_all(STDOUT_FILENO, output->text, "stdout"); !written) return fail(written.error());
    return output->found_problems ? problems : well;
}

// A view of the node: its name, and --json.
void add_view(CLI::App& app, const char* name, const char* description,
              Result<ctl::Output> (*view)(attachment::Node&, ctl::Form), Command& chosen) {
    CLI::App* command = app.add_subcommand(name, description);
    const CLI::Option* json = command->add_flag("--json")->description("print one JSON object");
    command->callback([json, view, &chosen] {
        chosen = [form = json->count() > 0 ? ctl::Form::json : ctl::Form::table, view](attachment::Node& node) {
            return view(node, form);
        };
    });
}

void add_nic(CLI::App& app, std::string& name, Command& chosen) {
    CLI::App* nic = app.add_subcommand("nic", "the node's NICs")->require_subcommand(1);
    CLI::App* detach = nic->add_subcommand("detach", "take xveth's program off a NIC and free its port");
    detach->add_option("NAME", name, "the device")->required();
    detach->callback([&] { chosen = [&](attachment::Node& node) { return ctl::detach_nic(node, name); }; });
}

void add_fdb(CLI::App& app, std::string& network, Command& chosen) {
    CLI::App* fdb = app.add_subcommand("fdb", "where the MACs of networks in bridge mode are");
    fdb->add_option("NETWORK", network, "of this network alone");
    const CLI::Option* json = fdb->add_flag("--json")->description("print one JSON object");
    fdb->callback([json, &network, &chosen] {
        chosen = [form = json->count() > 0 ? ctl::Form::json : ctl::Form::table, &network](attachment::Node& node) {
            return ctl::show_fdb(node, network, form);
        };
    });
}

void add_program(CLI::App& app, attachment::ProgramSelection& selection, Command& chosen) {
    CLI::App* program =
        app.add_subcommand("program", "the operator's programs at containers' ends")->require_subcommand(1);
    add_view(*program, "list", "who runs which", ctl::list_programs, chosen);
    CLI::App* replace =
        program->add_subcommand("replace", "exchange running programs, all or none, for what their files hold now");
    replace->add_option("OBJECT", selection.objects,
                        "those of these files; without: of the containers or networks named");
    replace->add_option("--container", selection.containers, "only of these containers (CNI_CONTAINERID)");
    replace->add_option("--network", selection.networks, "only of these networks");
    replace->add_flag("--fresh-maps", selection.fresh_maps, "begin with empty maps, instead of keeping their content");
    replace->callback([&] {
        if (selection.objects.empty() && selection.containers.empty() && selection.networks.empty())
            throw CLI::RequiredError("OBJECT, --container or --network");
        chosen = [&](attachment::Node& node) { return ctl::replace_programs(node, selection); };
    });
}

struct ChainArguments {
    std::string name;
    std::uint16_t position = 0;
};

void add_chain(CLI::App& app, ChainArguments& arguments, Command& chosen) {
    CLI::App* chain = app.add_subcommand("chain", "chains of functions")->require_subcommand(1);
    CLI::App* show = chain->add_subcommand("show", "functions by position, and what happened at each");
    show->add_option("NAME", arguments.name, "one chain alone");
    const CLI::Option* json = show->add_flag("--json")->description("print one JSON object");
    show->callback([&, json] {
        chosen = [&arguments, form = json->count() > 0 ? ctl::Form::json : ctl::Form::table](attachment::Node& node) {
            return ctl::show_chains(node, form, arguments.name);
        };
    });
    CLI::App* forget = chain->add_subcommand("forget", "give up the place of a function that is gone");
    forget->add_option("NAME", arguments.name, "the chain")->required();
    forget->add_option("POSITION", arguments.position, "the function's")->required();
    forget->callback([&] {
        chosen = [&](attachment::Node& node) { return ctl::forget_function(node, arguments.name, arguments.position); };
    });
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Sees and mends the XDP ports that xveth made on this node (the network namespace that it runs in)."};
    app.set_version_flag("--version", "xvethctl " XVETH_VERSION);
    app.footer("Examples:\n  xvethctl doctor\n  xvethctl stats --json | jq '.ports[] | {name, reasons}'");
    app.require_subcommand(1);
    Command chosen;
    std::string nic_name, network;
    attachment::ProgramSelection selection;
    ChainArguments chain_arguments;
    add_view(app, "stats", "what went by XDP at each port, and what did not and why", ctl::show_stats, chosen);
    add_view(app, "show", "the attachments that the node remembers", ctl::show_attachments, chosen);
    add_view(app, "doctor", "what makes a path slow or dead, and the cure", ctl::examine, chosen);
    add_chain(app, chain_arguments, chosen);
    add_fdb(app, network, chosen);
    add_nic(app, nic_name, chosen);
    add_program(app, selection, chosen);
    try {
        app.parse(argc, argv);
        return run(chosen);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version, which CLI11 prints
        std::cerr << "xvethctl: " << e.what() << ": see xvethctl --help\n";
        return usage;
    } catch (const std::exception& e) {
        return fail({.code = 0, .errno_value = 0, .text = std::string("internal error: ") + e.what(), .hint = {}});
    }
}
