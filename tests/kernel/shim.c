// Stands between a process and its C library (LD_PRELOAD) and makes some of its socket calls go wrong.
//
// After a receive or send that was made short, the poller is armed anew, so that an edge follows: it looks as if the rest had
// arrived, or the room had been freed, just afterwards. Without that the shim would lie: epoll(7) says that a short receive
// or send has used up what was there.
//
// SHIM holds one number for each fault, "name=N", and lets every Nth call of that kind fail, beginning with the Nth. At
// the end of the process it says on stderr how often each came: "shim: name=count".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct fault {
    const char *name;
    long every; // 0: never
    long calls, came;
};

static struct fault faults[] = {
    {"recv_eintr"},  {"recv_short"},     {"send_eintr"},      {"send_short"}, {"send_enobufs"},
    {"recv_enomem"}, {"accept_aborted"}, {"accept_emfile"},   {"accept_eintr"},
    {"wait_eintr"},  {"connect_eintr"},
};

static struct fault *find(const char *name) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(faults[i].name, name)) return &faults[i];
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("SHIM");
    for (size_t i = 0; text && i < sizeof faults / sizeof *faults; i++) {
        const char *at = strstr(text, faults[i].name);
        if (at) faults[i].every = atol(at + strlen(faults[i].name) + 1);
    }
}

__attribute__((destructor)) static void end(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].every) fprintf(stderr, "shim: %s=%ld\n", faults[i].name, faults[i].came);
}

static int comes(const char *name) {
    struct fault *fault = find(name);
    if (!fault->every || __atomic_add_fetch(&fault->calls, 1, __ATOMIC_RELAXED) % fault->every)
        return 0;
    __atomic_add_fetch(&fault->came, 1, __ATOMIC_RELAXED);
    return 1;
}

static int fails(const char *name, int error) {
    if (!comes(name)) return 0;
    errno = error;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// Who polls which descriptor, and for what.
static struct {
    int poller;
    struct epoll_event event;
} watched[4096];

int epoll_ctl(int poller, int op, int fd, struct epoll_event *event) {
    if (op != EPOLL_CTL_DEL && fd >= 0 && fd < 4096) {
        watched[fd].poller = poller;
        watched[fd].event = *event;
    }
    return REAL(epoll_ctl)(poller, op, fd, event);
}

static ssize_t with_edge(int fd, ssize_t result) {
    int error = errno;
    if (fd < 4096) REAL(epoll_ctl)(watched[fd].poller, EPOLL_CTL_MOD, fd, &watched[fd].event);
    errno = error;
    return result;
}

ssize_t recv(int fd, void *into, size_t len, int flags) {
    if (fails("recv_eintr", EINTR) || fails("recv_enomem", ENOMEM)) return -1;
    if (len > 3 && comes("recv_short")) return with_edge(fd, REAL(recv)(fd, into, 3, flags));
    return REAL(recv)(fd, into, len, flags);
}

ssize_t send(int fd, const void *from, size_t len, int flags) {
    if (fails("send_eintr", EINTR) || fails("send_enobufs", ENOBUFS)) return -1;
    if (len > 3 && comes("send_short")) return with_edge(fd, REAL(send)(fd, from, 3, flags));
    return REAL(send)(fd, from, len, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    if (fails("send_eintr", EINTR) || fails("send_enobufs", ENOBUFS)) return -1;
    if (message->msg_iovlen > 0 && message->msg_iov[0].iov_len > 3 && comes("send_short")) {
        struct iovec piece = {message->msg_iov[0].iov_base, 3};
        struct msghdr less = *message;
        less.msg_iov = &piece;
        less.msg_iovlen = 1;
        return with_edge(fd, REAL(sendmsg)(fd, &less, flags));
    }
    return REAL(sendmsg)(fd, message, flags);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags) {
    if (fails("accept_eintr", EINTR) || fails("accept_aborted", ECONNABORTED) ||
        fails("accept_emfile", EMFILE))
        return -1;
    return REAL(accept4)(fd, addr, len, flags);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
    if (fails("wait_eintr", EINTR)) return -1;
    return REAL(epoll_wait)(fd, events, most, timeout);
}

// As POSIX has it: the connect goes on.
int connect(int fd, const struct sockaddr *addr, socklen_t len) {
    int result = REAL(connect)(fd, addr, len);
    if (result == -1 && errno == EINPROGRESS && comes("connect_eintr")) errno = EINTR;
    return result;
}
