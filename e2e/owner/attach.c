// SPDX-License-Identifier: Apache-2.0
/*
 * A small loader on libbpf, of either kind:
 *
 *     owner-attach link|netlink INTERFACE
 *
 * It obeys lines on standard input and answers each with "ok" or "error ERRNO TEXT":
 *
 *     attach OBJECT | replace OBJECT | detach | toggle ROUNDS OBJECT OTHER
 *
 * When it ends, a link ends with it and a program attached by netlink stays. toggle attaches, replaces and detaches.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct owner {
    bool by_link;
    int ifindex;
    struct bpf_object* object;
    struct bpf_link* link;
};

static struct bpf_program* load(const char* path, struct bpf_object** object) {
    int err;

    *object = bpf_object__open_file(path, NULL);
    if (!*object) return NULL;
    err = bpf_object__load(*object);
    if (!err) return bpf_object__next_program(*object, NULL);
    bpf_object__close(*object);
    errno = -err;
    return NULL;
}

static int fd_of(const struct owner* owner) { return bpf_program__fd(bpf_object__next_program(owner->object, NULL)); }

static int attach_native(const struct owner* owner, int fd, int old_fd) {
    LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = old_fd);
    const __u32 flags = XDP_FLAGS_DRV_MODE | (old_fd >= 0 ? XDP_FLAGS_REPLACE : XDP_FLAGS_UPDATE_IF_NOEXIST);

    return bpf_xdp_attach(owner->ifindex, fd, flags, old_fd >= 0 ? &opts : NULL);
}

static int attach(struct owner* owner, const char* path) {
    struct bpf_object* object;
    struct bpf_program* program = load(path, &object);
    int err = 0;

    if (!program) return -errno;
    if (owner->by_link) {
        owner->link = bpf_program__attach_xdp(program, owner->ifindex);
        err = owner->link ? 0 : -errno;
    } else {
        err = attach_native(owner, bpf_program__fd(program), -1);
    }
    if (err)
        bpf_object__close(object);
    else
        owner->object = object;
    return err;
}

static int replace(struct owner* owner, const char* path) {
    struct bpf_object* object;
    struct bpf_program* program = load(path, &object);
    int err;

    if (!program) return -errno;
    err = owner->by_link ? bpf_link__update_program(owner->link, program)
                         : attach_native(owner, bpf_program__fd(program), fd_of(owner));
    bpf_object__close(err ? object : owner->object);
    if (!err) owner->object = object;
    return err;
}

static int detach(struct owner* owner) {
    LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = fd_of(owner));
    int err;

    if (owner->by_link)
        err = bpf_link__destroy(owner->link);
    else
        err = bpf_xdp_detach(owner->ifindex, XDP_FLAGS_DRV_MODE | XDP_FLAGS_REPLACE, &opts);
    owner->link = NULL;
    bpf_object__close(owner->object);
    owner->object = NULL;
    return err;
}

static int toggle(struct owner* owner, int rounds, const char* first, const char* second) {
    int err = 0;

    for (int i = 0; i < rounds && !err; i++) {
        err = attach(owner, first);
        if (!err) err = replace(owner, second);
        if (!err) err = detach(owner);
    }
    return err;
}

static int obey(struct owner* owner, char* line) {
    const char* verb = strtok(line, " \n");
    const char* first = strtok(NULL, " \n");
    const char* second = strtok(NULL, " \n");
    const char* third = strtok(NULL, " \n");

    if (verb && first && !strcmp(verb, "attach")) return attach(owner, first);
    if (verb && first && owner->object && !strcmp(verb, "replace")) return replace(owner, first);
    if (verb && owner->object && !strcmp(verb, "detach")) return detach(owner);
    if (verb && third && !strcmp(verb, "toggle")) return toggle(owner, atoi(first), second, third);
    return -EINVAL;
}

int main(int argc, char** argv) {
    struct owner owner = {.by_link = argc == 3 && !strcmp(argv[1], "link")};
    char line[4096];
    int err;

    owner.ifindex = argc == 3 ? (int)if_nametoindex(argv[2]) : 0;
    if (!owner.ifindex) {
        fprintf(stderr, "owner-attach link|netlink INTERFACE\n");
        return 2;
    }
    while (fgets(line, sizeof(line), stdin)) {
        err = obey(&owner, line);
        if (err)
            printf("error %d %s\n", -err, strerror(-err));
        else
            printf("ok\n");
        fflush(stdout);
    }
    return 0;
}
