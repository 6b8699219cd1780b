// SPDX-License-Identifier: Apache-2.0
#include "xsk/hand_over.hpp"

#include <linux/bpf.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "xsk/broker_protocol.hpp"

namespace xveth::xsk {
namespace {

constexpr std::array broker_places{"/run/xveth/xsk/xsk.sock", "/run/xveth/xsk.sock"};
constexpr std::chrono::milliseconds pause(10);

std::string words(int err) { return std::generic_category().message(err); }

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string{} : std::string(value);
}

long bpf(int command, bpf_attr& attributes) { return ::syscall(SYS_bpf, command, &attributes, sizeof attributes); }

UniqueFd open_pinned(const std::string& path) {
    bpf_attr attributes{};
    attributes.pathname = reinterpret_cast<std::uintptr_t>(path.c_str());
    return UniqueFd{static_cast<int>(bpf(BPF_OBJ_GET, attributes))};
}

// Also an updated entry of something that is no XSKMAP would be a success.
bool is_xskmap(int fd) {
    bpf_map_info info{};
    bpf_attr attributes{};
    attributes.info.bpf_fd = static_cast<std::uint32_t>(fd);
    attributes.info.info_len = sizeof info;
    attributes.info.info = reinterpret_cast<std::uintptr_t>(&info);
    return bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) == 0 && info.type == BPF_MAP_TYPE_XSKMAP;
}

int put(int map, std::uint32_t queue, int socket) {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(map);
    attributes.key = reinterpret_cast<std::uintptr_t>(&queue);
    attributes.value = reinterpret_cast<std::uintptr_t>(&socket);
    return bpf(BPF_MAP_UPDATE_ELEM, attributes) == 0 ? 0 : errno;
}

// The map is there, or may be, and this process may not have it: xvethd may do it in its place. Seccomp answers EPERM or
// ENOSYS, the file's mode EACCES.
bool is_denied(int err) { return err == EPERM || err == EACCES || err == ENOSYS; }

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(&address.sun_path[0], sizeof address.sun_path - 1);
    return address;
}

UniqueFd connect_to(const std::string& path, std::chrono::milliseconds patience) {
    UniqueFd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    const sockaddr_un address = address_of(path);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
    const timeval limit{.tv_sec = seconds.count() + 1, .tv_usec = 0};
    for (const int side : {SO_RCVTIMEO, SO_SNDTIMEO})  // the latter is connect()'s, too
        ::setsockopt(fd.get(), SOL_SOCKET, side, &limit, sizeof limit);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
    return fd;
}

bool send_request(int connection, const BrokerRequest& request, int socket) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    BrokerRequest copy = request;
    iovec bytes{.iov_base = &copy, .iov_len = sizeof copy};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &socket, sizeof socket);
    return ::sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof copy);
}

// One question to the broker; errno in the unexpected case when there was no whole answer.
std::expected<BrokerAnswer, int> ask_once(const std::string& path, const BrokerRequest& request, int socket,
                                          std::chrono::milliseconds patience) {
    const UniqueFd connection = connect_to(path, patience);
    if (!connection.valid()) return std::unexpected(errno);
    if (!send_request(connection.get(), request, socket)) return std::unexpected(errno);
    BrokerAnswer answer;
    const ssize_t size = ::recv(connection.get(), &answer, sizeof answer, 0);
    if (size < 0) return std::unexpected(errno);
    if (size == 0) return std::unexpected(ECONNRESET);
    if (size != static_cast<ssize_t>(sizeof answer) || answer.magic != broker_magic) return std::unexpected(EPROTO);
    answer.text.back() = '\0';
    return answer;
}

// xvethd may be starting again just now, and among too many it lets the longest waiting one go.
bool is_passing(int err) {
    return err == ECONNREFUSED || err == ECONNRESET || err == EPIPE || err == ENOENT || err == EAGAIN;
}

std::string find_broker(const Options& options) {
    if (!options.broker.empty()) return options.broker;
    if (auto named = environment("XVETH_XSK_BROKER"); !named.empty()) return named;
    const auto* place = std::ranges::find_if(broker_places, [](const char* path) { return ::access(path, F_OK) == 0; });
    return place == broker_places.end() ? std::string{} : std::string(*place);
}

constexpr const char* cure =
    "mount the interface's map or xvethd's socket into the container, see docs/guide/afxdp.md; is the network's "
    "containerXdp "
    "\"afxdp\"?";

}  // namespace

std::unexpected<Error> failed(int err, const std::string& what, const std::string& remedy) {
    return std::unexpected(
        Error{.errno_value = err, .text = what + ": " + words(err) + (remedy.empty() ? "" : ": " + remedy)});
}

Result<HandOver> HandOver::find(const Options& options) {
    std::string path = options.map.empty() ? environment("XVETH_XSKS") : options.map;
    const bool named = !path.empty();
    if (!named) path = "/run/xveth/" + options.device + "/xsks";
    UniqueFd map = open_pinned(path);
    const int err = errno;
    if (map.valid() && !is_xskmap(map.get())) return failed(EINVAL, "open " + path, "this is no XSKMAP");
    if (map.valid()) return HandOver(std::move(map), options.device, {}, {}, options.patience);
    if (!is_denied(err) && (named || err != ENOENT)) return failed(err, "open the XSKMAP " + path);
    const std::string reason = path + ": " + words(err);
    const std::string broker = find_broker(options);
    if (broker.empty()) return failed(err, "open the XSKMAP " + path + ", and no xvethd to ask instead", cure);
    return HandOver({}, options.device, broker, reason, options.patience);
}

Result<void> HandOver::insert(std::uint32_t queue, int socket) {
    const std::string what = "direct queue " + std::to_string(queue) + " of " + device_ + " here";
    if (map_.valid()) {
        const int err = put(map_.get(), queue, socket);
        if (err != 0) return failed(err, what);
        return {};
    }
    BrokerRequest request;
    request.queue = queue;
    device_.copy(request.ifname.data(), request.ifname.size() - 1);
    const auto end = std::chrono::steady_clock::now() + patience_;
    auto answer = ask_once(broker_, request, socket, patience_);
    while (!answer && is_passing(answer.error()) && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(pause);
        answer = ask_once(broker_, request, socket, patience_);
    }
    if (!answer) return failed(answer.error(), what + ": ask xvethd by " + broker_, "does xvethd run on the node?");
    if (answer->error != 0)
        return std::unexpected(Error{.errno_value = answer->error, .text = what + ": xvethd: " + answer->text.data()});
    return {};
}

}  // namespace xveth::xsk
