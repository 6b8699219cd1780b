// SPDX-License-Identifier: Apache-2.0
// Look-ups by name that libnl.a refers to and that nothing here calls. glibc's own load plug-ins at run time, which a static
// binary must not, and each link warns of it. These know no name, so libnl reads and writes numbers.
#include <netdb.h>
#include <stddef.h>

int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints, struct addrinfo** result) {
    (void)node, (void)service, (void)hints, (void)result;
    return EAI_NONAME;
}

int getnameinfo(const struct sockaddr* address, socklen_t length, char* host, socklen_t host_length, char* service,
                socklen_t service_length, int flags) {
    (void)address, (void)length, (void)host, (void)host_length, (void)service, (void)service_length, (void)flags;
    return EAI_NONAME;
}

struct protoent* getprotobyname(const char* name) {
    (void)name;
    return NULL;
}

struct protoent* getprotobynumber(int number) {
    (void)number;
    return NULL;
}
