/* Connects to other ports of 127.0.0.1 than the process asks for: LD_PRELOAD this library, and set REROUTE to pairs of
 * ports such as 7001:8001,7002:8002. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static unsigned short reroute(unsigned short port) {
    const char *at = getenv("REROUTE");
    while (at && *at) {
        char *end;
        unsigned long from = strtoul(at, &end, 10);
        if (*end != ':') break;
        unsigned long to = strtoul(end + 1, &end, 10);
        if (from == port) return (unsigned short)to;
        at = *end == ',' ? end + 1 : 0;
    }
    return port;
}

int connect(int file, const struct sockaddr *to, socklen_t length) {
    int (*next)(int, const struct sockaddr *, socklen_t) =
        (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    struct sockaddr_in other;
    if (to->sa_family != AF_INET || length < sizeof other) return next(file, to, length);
    memcpy(&other, to, sizeof other);
    if (other.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) other.sin_port = htons(reroute(ntohs(other.sin_port)));
    return next(file, (struct sockaddr *)&other, sizeof other);
}
