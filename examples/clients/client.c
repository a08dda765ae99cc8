/* A client for tickwire's default framing, and so for Telepathy's: a 4-byte big-endian length, then the payload.
 *
 * C99 and POSIX, one file. Copy it up to the line "From here on"; what follows is a little program that shows it:
 *
 *     cargo run --example echo                                  # in another terminal
 *     cc -Wall -Wextra -o /tmp/client examples/clients/client.c && /tmp/client 127.0.0.1 7777
 *
 * It says hello once a second and shows what comes back; stop the server and start it again to see what happens then.
 * With `--check N` it sends messages of many sizes, checks every byte that comes back, N times on N connections.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef MSG_NOSIGNAL
#define SEND_FLAGS MSG_NOSIGNAL /* a broken connection is an error of the call, not a signal */
#else
#define SEND_FLAGS 0 /* macOS: SO_NOSIGPIPE, below */
#endif

enum { BYTES_PER_UPDATE = 256 * 1024 }; /* so that a flood cannot hold up a frame */

enum tw_kind {
    TW_CONNECTED,    /* then come its messages, in order, and then exactly one */
    TW_DISCONNECTED, /* whoever closed; `reason` says why */
    TW_MESSAGE,      /* `payload` is valid until the next call of tw_next, tw_update or tw_close */
    TW_FAILED        /* an attempt to connect has come to nothing; `reason` says why */
};

struct tw_event {
    enum tw_kind kind;
    const unsigned char *payload;
    size_t length;
    const char *reason;
};

/* Made by tw_new. The fields in this part are yours to change before the first tw_update. */
struct tw_client {
    size_t frame_max; /* the largest payload, both ways */
    double retry_min, retry_max; /* seconds */
    double timeout;              /* of an attempt to connect */

    /* To read only. */
    bool connected;
    double retry_in; /* seconds until the next attempt; negative: none is planned */

    /* Everything else is its own affair. */
    char host[256], port[16];
    int fd; /* -1: none */
    bool wanted, closed_by_us;
    int send_error;    /* what a send met: a later receive may only see an end */
    unsigned attempts; /* in a row without a message */
    unsigned address;  /* which of the host's addresses is next */
    double deadline, next_try;
    size_t budget;
    unsigned char *in, *out;
    size_t in_size, in_begin, in_end; /* in_begin <= in_end <= in_size */
    size_t out_size, out_begin, out_end;
    char reason[128];
};

static double tw_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* NULL if there is no memory. `queue_max` is how many bytes may wait to be sent. All memory is taken here; a message
 * takes none. */
struct tw_client *tw_new(const char *host, const char *port, size_t frame_max, size_t queue_max)
{
    struct tw_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->frame_max = frame_max;
    client->retry_min = 0.5;
    client->retry_max = 30;
    client->timeout = 10;
    client->retry_in = -1;
    client->wanted = true;
    client->fd = -1;
    client->in_size = frame_max + 4 > 65536 ? frame_max + 4 : 65536;
    client->out_size = queue_max;
    client->in = malloc(client->in_size);
    client->out = malloc(client->out_size);
    snprintf(client->host, sizeof client->host, "%s", host);
    snprintf(client->port, sizeof client->port, "%s", port);
    if (!client->in || !client->out) {
        free(client->in);
        free(client->out);
        free(client);
        return NULL;
    }
    return client;
}

void tw_free(struct tw_client *client)
{
    if (!client)
        return;
    if (client->fd >= 0)
        close(client->fd);
    free(client->in);
    free(client->out);
    free(client);
}

/* How many bytes wait to be sent. */
size_t tw_queued(const struct tw_client *client)
{
    return client->out_end - client->out_begin;
}

/* Queues a message. False if it is refused, whole: not connected, larger than frame_max, or too much is waiting already
 * (try again in a later frame, or leave it out). */
bool tw_send(struct tw_client *client, const void *payload, size_t length)
{
    unsigned char *to;
    if (!client->connected || length > client->frame_max || length > 0xffffffffu)
        return false;
    if (client->out_size < 4 || length > client->out_size - 4
        || tw_queued(client) > client->out_size - 4 - length)
        return false;
    if (client->out_size - client->out_end < 4 + length) {
        memmove(client->out, client->out + client->out_begin, tw_queued(client));
        client->out_end -= client->out_begin;
        client->out_begin = 0;
    }
    to = client->out + client->out_end;
    to[0] = (unsigned char)(length >> 24);
    to[1] = (unsigned char)(length >> 16);
    to[2] = (unsigned char)(length >> 8);
    to[3] = (unsigned char)length;
    if (length > 0)
        memcpy(to + 4, payload, length);
    client->out_end += 4 + length;
    return true;
}

/* Sends what the socket takes now. tw_update does it too: call it after the last tw_send of a frame. */
void tw_flush(struct tw_client *client)
{
    while (client->connected && tw_queued(client) > 0) {
        ssize_t sent = send(client->fd, client->out + client->out_begin, tw_queued(client), SEND_FLAGS);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                client->send_error = errno; /* told when all that has arrived is read */
            return; /* the rest in the next frame */
        }
        client->out_begin += (size_t)sent;
    }
    if (tw_queued(client) == 0)
        client->out_begin = client->out_end = 0;
}

static void tw_drop(struct tw_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    client->connected = false;
    client->send_error = 0;
    client->in_begin = client->in_end = client->out_begin = client->out_end = 0;
}

/* Ends it, in order and for good: tw_next still tells TW_DISCONNECTED. What the socket does not take at once is lost. */
void tw_close(struct tw_client *client)
{
    client->wanted = false;
    client->retry_in = -1;
    tw_flush(client);
    if (client->connected)
        client->closed_by_us = true;
    tw_drop(client);
}

/* Ends a connection or an attempt; the next one comes after a while, a longer one each time. The chance in it keeps a
 * thousand clients from coming back in the same moment: seed rand() with something that differs between them. */
static bool tw_lose(struct tw_client *client, struct tw_event *event, const char *reason)
{
    unsigned doublings = client->attempts < 20 ? client->attempts : 20;
    double longest = client->retry_min * (double)(1u << doublings);
    event->kind = client->connected ? TW_DISCONNECTED : TW_FAILED;
    snprintf(client->reason, sizeof client->reason, "%s", reason);
    event->reason = client->reason;
    tw_drop(client);
    if (longest > client->retry_max)
        longest = client->retry_max;
    client->retry_in = longest * (0.5 + 0.5 * rand() / (double)RAND_MAX);
    client->next_try = tw_now() + client->retry_in;
    client->attempts++;
    return true;
}

static const char *tw_reason(int error)
{
    switch (error) {
    case ECONNRESET:
    case EPIPE:
        return "the connection was reset";
    case ECONNREFUSED:
        return "connection refused";
    case ETIMEDOUT:
        return "timed out";
    default:
        return strerror(error);
    }
}

/* Begins to connect. Looking up a name blocks; an address in digits does not. */
static bool tw_begin(struct tw_client *client, struct tw_event *event)
{
    struct addrinfo hints, *found, *one;
    unsigned skip = client->address, count = 0;
    int error, yes = 1;
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    client->retry_in = -1;
    error = getaddrinfo(client->host, client->port, &hints, &found);
    if (error)
        return tw_lose(client, event, gai_strerror(error));
    for (one = found; one; one = one->ai_next)
        count++;
    for (one = found, skip %= count; skip > 0; skip--)
        one = one->ai_next;
    client->address++; /* a name may have several addresses: they take turns */
    client->deadline = tw_now() + client->timeout;
    client->fd = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (client->fd < 0 || fcntl(client->fd, F_SETFL, O_NONBLOCK) < 0) {
        error = errno;
    } else {
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
#ifdef SO_NOSIGPIPE
        setsockopt(client->fd, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
        error = connect(client->fd, one->ai_addr, one->ai_addrlen) < 0 ? errno : 0;
    }
    freeaddrinfo(found);
    if (error && error != EINPROGRESS && error != EINTR)
        return tw_lose(client, event, tw_reason(error));
    return false;
}

static bool tw_finish(struct tw_client *client, struct tw_event *event)
{
    struct pollfd look = {client->fd, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&look, 1, 0) > 0) {
        getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error)
            return tw_lose(client, event, tw_reason(error));
        client->connected = true;
        event->kind = TW_CONNECTED;
        return true;
    }
    return tw_now() >= client->deadline && tw_lose(client, event, "timed out");
}

static bool tw_frame(struct tw_client *client, struct tw_event *event)
{
    const unsigned char *in = client->in + client->in_begin;
    size_t have = client->in_end - client->in_begin, length;
    if (have < 4)
        return false;
    length = (size_t)in[0] << 24 | (size_t)in[1] << 16 | (size_t)in[2] << 8 | in[3];
    if (length > client->frame_max) {
        char reason[96]; /* nothing is allocated for it, and what follows has no meaning */
        snprintf(reason, sizeof reason, "frame too large: %lu bytes, limit %lu", (unsigned long)length,
                 (unsigned long)client->frame_max);
        return tw_lose(client, event, reason);
    }
    if (have - 4 < length)
        return false;
    event->kind = TW_MESSAGE;
    event->payload = in + 4;
    event->length = length;
    client->in_begin += 4 + length;
    client->attempts = 0; /* a server that works: the next wait starts small again */
    return true;
}

/* Begins a frame of the game. Nothing blocks (but for looking up a host name) and nothing runs by itself. */
void tw_update(struct tw_client *client)
{
    client->budget = BYTES_PER_UPDATE;
    tw_flush(client);
}

/* The next event of this frame; false if there is none. */
bool tw_next(struct tw_client *client, struct tw_event *event)
{
    memset(event, 0, sizeof *event);
    if (client->closed_by_us) {
        client->closed_by_us = false;
        event->kind = TW_DISCONNECTED;
        event->reason = "closed by us";
        return true;
    }
    if (client->fd < 0)
        return client->wanted && tw_now() >= client->next_try && tw_begin(client, event);
    if (!client->connected)
        return tw_finish(client, event);
    for (;;) {
        ssize_t got;
        bool cut_off;
        if (tw_frame(client, event))
            return true;
        if (client->budget == 0)
            return false;
        /* What is left is less than a frame, so there is room behind it once it stands in front. */
        cut_off = client->in_end > client->in_begin;
        memmove(client->in, client->in + client->in_begin, client->in_end - client->in_begin);
        client->in_end -= client->in_begin;
        client->in_begin = 0;
        got = recv(client->fd, client->in + client->in_end, client->in_size - client->in_end, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        if (got < 0)
            return tw_lose(client, event, tw_reason(errno));
        if (got == 0 && client->send_error)
            return tw_lose(client, event, tw_reason(client->send_error));
        if (got == 0)
            return tw_lose(client, event,
                           cut_off ? "the connection was cut off within a message"
                                   : "the server closed the connection");
        client->in_end += (size_t)got;
        client->budget -= (size_t)got < client->budget ? (size_t)got : client->budget;
    }
}

/* From here on: the program that shows it. */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static void sleep_for(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void tell(const struct tw_client *client, const struct tw_event *event)
{
    if (event->kind == TW_CONNECTED)
        puts("connected");
    if (event->kind != TW_DISCONNECTED && event->kind != TW_FAILED)
        return;
    printf("%s: %s\n", event->kind == TW_FAILED ? "cannot connect" : "disconnected", event->reason);
    if (client->retry_in >= 0)
        printf("trying again in %.2f s\n", client->retry_in);
}

static void demo(struct tw_client *client)
{
    struct tw_event event;
    double next_hello = 0;
    int number = 0;
    printf("connecting to %s:%s; Ctrl-C ends it\n", client->host, client->port);
    while (!interrupted) {
        tw_update(client);
        while (tw_next(client, &event)) {
            tell(client, &event);
            if (event.kind == TW_MESSAGE)
                printf("got:  %.*s\n", (int)event.length, (const char *)event.payload);
        }
        if (client->connected && tw_now() >= next_hello) {
            char text[32];
            snprintf(text, sizeof text, "hello %d", ++number);
            next_hello = tw_now() + 1;
            if (tw_send(client, text, strlen(text)))
                printf("sent: %s\n", text);
        }
        tw_flush(client);
        sleep_for(1.0 / 60); /* a game would do its frame's work here */
    }
    tw_close(client);
    while (tw_next(client, &event))
        tell(client, &event);
}

enum { SPECIAL = 5, SMALL = 500, LARGE = 600, MESSAGES = SPECIAL + SMALL + LARGE };

/* What `--check` sends: every size that is special, small ones in a row, and more than all the buffers on the way hold. A
 * message's first bytes are its number, so that a wrong order shows too. Returns the size. */
static size_t message(size_t number, size_t frame_max, unsigned char *to)
{
    const size_t special[SPECIAL] = {0, 1, 100, 1000, frame_max};
    size_t i, size;
    if (number < SPECIAL)
        size = special[number];
    else
        size = number < SPECIAL + SMALL ? (number - SPECIAL) % 50 : frame_max;
    for (i = 0; i < size; i++)
        to[i] = (unsigned char)(i < 4 ? number >> (24 - 8 * i) : i * 31 + i / 251);
    return size;
}

static int fail(const char *problem)
{
    fprintf(stderr, "error: %s\n", problem);
    return 1;
}

static int check(struct tw_client *client, int rounds)
{
    static unsigned char sent[65536], wanted[65536];
    size_t sending = 0, size = 0, received = 0, bytes = 0;
    bool is_late = false;
    int done = 0;
    struct tw_event event;
    if (tw_send(client, "early", 5))
        return fail("it is not connected yet");
    for (;;) {
        tw_update(client);
        while (tw_next(client, &event)) {
            tell(client, &event);
            if (event.kind == TW_CONNECTED) {
                if (tw_send(client, sent, client->frame_max + 1))
                    return fail("it took what is larger than the limit");
                size = message(sending = 0, client->frame_max, sent);
                received = bytes = 0;
                is_late = false;
            } else if (event.kind == TW_MESSAGE) {
                if (received == MESSAGES || event.length != message(received, client->frame_max, wanted)
                    || memcmp(event.payload, wanted, event.length) != 0)
                    return fail("a message is not what was sent");
                bytes += event.length;
                if (++received == MESSAGES) {
                    printf("round %d ok: %lu messages, %lu bytes\n", ++done, (unsigned long)received,
                           (unsigned long)bytes);
                    if (done == rounds)
                        tw_close(client);
                }
            } else if (event.kind == TW_DISCONNECTED && done == rounds) {
                return 0;
            }
        }
        while (client->connected && sending < MESSAGES && tw_send(client, sent, size)) {
            if (++sending < MESSAGES)
                size = message(sending, client->frame_max, sent);
        }
        if (client->connected && sending < MESSAGES && !is_late) {
            is_late = true;
            puts("send queue full: the rest follows");
        }
        tw_flush(client);
        sleep_for(0.001);
    }
}

int main(int argc, char **argv)
{
    struct sigaction action;
    struct tw_client *client;
    int result = 0;
    if (argc != 3 && (argc != 5 || strcmp(argv[3], "--check") != 0))
        return fail("usage: client HOST PORT [--check ROUNDS]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, NULL);
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    client = tw_new(argv[1], argv[2], 16384, 1 << 20);
    if (!client)
        return fail("no memory");
    if (argc == 3) {
        demo(client);
    } else {
        client->retry_min = 0.02;
        client->retry_max = 0.2;
        result = check(client, atoi(argv[4]));
    }
    tw_free(client);
    return result;
}
