/* A load generator for length-prefixed request/response servers: one thread, one epoll, no decoding.
 *
 * It sends pre-encoded request frames (a 4-byte big-endian length, then that many bytes) from a file over a number of
 * connections, keeps a fixed number of them in flight on each (closed loop) or sends at a fixed rate whatever comes
 * back (open loop, latency counted from the moment a request was due), and counts reply frames. It is written in C so
 * that the server under test, not the generator, is the limit. The result is one line of JSON on standard output.
 *
 *   loadgen -p PORT -f FILE [-c connections] [-d depth] [-t seconds] [-w warm-up seconds] [-r requests/s]
 *           [-b bytes after which to stop early] [-P pid of the server, for its CPU time] [-e error offset]...
 *
 * The bytes of -b are those of the whole run. Warming up ends with a quarter of them at the latest: a server that is
 * fast enough would spend them all on it, and leave nothing to measure.
 *
 * -e names the offset in a reply frame, after its length, of an int16 error code that has to be zero: a server that
 * refuses requests is quick, and must not be measured for it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    IN_FLIGHT_MAX = 1 << 16,  /* per connection; an open loop that falls further behind than this has failed */
    HEAD_SIZE = 256,          /* how much of a reply is kept, to look for error codes in it */
    ERROR_OFFSETS_MAX = 4,
    LATENCY_MAX_US = 2000000, /* the histogram has one bucket per microsecond; slower replies share the last one */
    RECEIVE_SIZE = 256 << 10, /* large enough for few calls, small enough to stay in the second-level cache */
    GATHER_MAX = 64,
    WARM_UP_SHARE = 4,        /* warming up takes at most this part of the bytes */
};

typedef struct {
    int fd;
    int waits_to_write;
    size_t next;          /* the request to be sent next, and how much of it went out already */
    size_t next_sent;
    uint32_t unsent;      /* requests due, that one included */
    double *due;          /* ring of the due times of requests whose reply is outstanding */
    uint32_t due_head, due_tail;
    unsigned char prefix[4];
    uint32_t prefix_size;
    uint32_t frame_size, frame_received;
    unsigned char head[HEAD_SIZE];
} Connection;

static struct {
    int port, connections, depth, pid;
    double seconds, warm_up, rate;
    uint64_t bytes_max;
    const char *file;
    uint32_t error_offsets[ERROR_OFFSETS_MAX];
    int error_offset_count;
} options = {.connections = 1, .depth = 1, .seconds = 2, .warm_up = 0.5};

static struct iovec *requests;
static size_t request_count;
static int epoll_fd;
static uint64_t sent_bytes, received_bytes, replies, errors;
static int first_error;
static uint32_t reply_size_min = UINT32_MAX, reply_size_max;
static uint32_t *latencies;

static void die(const char *what) {
    fprintf(stderr, "loadgen: %s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double own_cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* The CPU time of the server's process, which includes its threads that have ended. */
static double server_cpu_seconds(void) {
    clockid_t clock;
    struct timespec t;
    if (!options.pid) return 0;
    if ((errno = clock_getcpuclockid(options.pid, &clock)) || clock_gettime(clock, &t)) die("the server's CPU time");
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void read_requests(void) {
    FILE *f = fopen(options.file, "rb");
    if (!f || fseek(f, 0, SEEK_END)) die(options.file);
    size_t size = ftell(f);
    rewind(f);
    char *bytes = malloc(size + 1);
    if (!bytes || fread(bytes, 1, size, f) != size) die(options.file);
    fclose(f);
    for (size_t at = 0; at < size;) {
        uint32_t length;
        if (size - at < 4) die("torn request file");
        memcpy(&length, bytes + at, 4);
        length = ntohl(length) + 4;
        if (size - at < length) die("torn request file");
        if (!(request_count & (request_count - 1)))
            requests = realloc(requests, sizeof *requests * (request_count ? request_count * 2 : 1));
        requests[request_count++] = (struct iovec){bytes + at, length};
        at += length;
    }
    if (!request_count) die("empty request file");
}

static void watch(Connection *c, int writes) {
    if (writes == c->waits_to_write) return;
    struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event)) die("epoll_ctl");
    c->waits_to_write = writes;
}

static void send_due(Connection *c) {
    while (c->unsent) {
        struct iovec gather[GATHER_MAX];
        int n = 0;
        for (size_t i = c->next; n < GATHER_MAX && n < (int)c->unsent; n++, i = (i + 1) % request_count)
            gather[n] = requests[i];
        gather[0].iov_base = (char *)gather[0].iov_base + c->next_sent;
        gather[0].iov_len -= c->next_sent;
        struct msghdr message = {.msg_iov = gather, .msg_iovlen = n};
        ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return watch(c, 1);
        if (sent < 0) die("send");
        sent_bytes += sent;
        c->next_sent += sent;
        while (c->unsent && c->next_sent >= requests[c->next].iov_len) {
            c->next_sent -= requests[c->next].iov_len;
            c->next = (c->next + 1) % request_count;
            c->unsent--;
        }
    }
    watch(c, 0);
}

static void add_due(Connection *c, double when) {
    if (c->due_tail - c->due_head == IN_FLIGHT_MAX) die("too many requests in flight: the server cannot hold the rate");
    c->due[c->due_tail++ % IN_FLIGHT_MAX] = when;
    c->unsent++;
}

static void complete_reply(Connection *c, double when) {
    if (c->due_head == c->due_tail) die("a reply that nobody asked for");
    double us = (when - c->due[c->due_head++ % IN_FLIGHT_MAX]) * 1e6;
    latencies[us < 0 ? 0 : us < LATENCY_MAX_US ? (int)us : LATENCY_MAX_US]++;
    replies++;
    if (c->frame_size < reply_size_min) reply_size_min = c->frame_size;
    if (c->frame_size > reply_size_max) reply_size_max = c->frame_size;
    for (int i = 0; i < options.error_offset_count; i++) {
        uint32_t at = options.error_offsets[i];
        int code = at + 2 > c->frame_size ? -2 : (int16_t)(c->head[at] << 8 | c->head[at + 1]);
        if (code && !errors++) first_error = code;
    }
    c->prefix_size = 0;
}

/* Counts the reply frames that end in these bytes. */
static uint32_t take(Connection *c, const unsigned char *bytes, size_t size, double when) {
    uint32_t complete = 0;
    while (size) {
        size_t n;
        if (c->prefix_size < 4) {
            n = 4 - c->prefix_size < size ? 4 - c->prefix_size : size;
            memcpy(c->prefix + c->prefix_size, bytes, n);
            c->prefix_size += n;
            memcpy(&c->frame_size, c->prefix, 4);
            c->frame_size = ntohl(c->frame_size);
            c->frame_received = 0;
        } else {
            uint32_t left = c->frame_size - c->frame_received;
            n = left < size ? left : size;
            if (c->frame_received < HEAD_SIZE) {
                size_t room = HEAD_SIZE - c->frame_received;
                memcpy(c->head + c->frame_received, bytes, n < room ? n : room);
            }
            c->frame_received += n;
        }
        bytes += n;
        size -= n;
        if (c->prefix_size == 4 && c->frame_received == c->frame_size) {
            complete_reply(c, when);
            complete++;
        }
    }
    return complete;
}

static void receive(Connection *c) {
    static unsigned char buffer[RECEIVE_SIZE];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) die("receive");
    errno = 0;
    if (!n) die("the server closed the connection");
    received_bytes += n;
    double when = now();
    uint32_t complete = take(c, buffer, n, when);
    if (options.rate) return;
    while (complete--) add_due(c, when);
    send_due(c);
}

static Connection *connect_all(void) {
    Connection *all = calloc(options.connections, sizeof *all);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < options.connections; i++) {
        Connection *c = all + i;
        int on = 1;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        c->due = malloc(sizeof *c->due * IN_FLIGHT_MAX);
        c->next = i % request_count;
        if (c->fd < 0 || connect(c->fd, (void *)&address, sizeof address)) die("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event)) die("epoll_ctl");
    }
    return all;
}

/* Open loop: sends what has become due since the last tick, in turn over the connections. */
static void tick(Connection *all, double *next_due) {
    static int turn;
    for (double t = now(); *next_due <= t; *next_due += 1 / options.rate) {
        Connection *c = all + turn++ % options.connections;
        add_due(c, *next_due);
        send_due(c);
    }
}

static int start_timer(double first) {
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    long period_ns = 1e9 / options.rate;
    struct itimerspec when = {
        .it_interval = {period_ns / 1000000000, period_ns % 1000000000},
        .it_value = {(time_t)first, (long)((first - (time_t)first) * 1e9) + 1},
    };
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL)) die("timerfd");
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
    return fd;
}

static int percentile(double q) {
    uint64_t total = 0, below = 0;
    for (int i = 0; i <= LATENCY_MAX_US; i++) total += latencies[i];
    for (int i = 0; i <= LATENCY_MAX_US; i++)
        if ((below += latencies[i]) >= total * q && below) return i;
    return -1;
}

typedef struct {
    double when, server_cpu, own_cpu;
    uint64_t sent, received, replies;
} Mark;

static Mark mark(void) {
    return (Mark){now(), server_cpu_seconds(), own_cpu_seconds(), sent_bytes, received_bytes, replies};
}

static void report(Mark a, Mark b) {
    double seconds = b.when - a.when, n = b.replies - a.replies;
    if (!n) die("no reply in the measured time");
    printf("{\"seconds\": %.4f, \"requests\": %.0f, \"requests_per_s\": %.1f, \"sent_mb_per_s\": %.2f, "
           "\"received_mb_per_s\": %.2f, ", seconds, n, n / seconds, (b.sent - a.sent) / seconds / 1e6,
           (b.received - a.received) / seconds / 1e6);
    printf("\"p50_us\": %d, \"p90_us\": %d, \"p99_us\": %d, \"p999_us\": %d, ", percentile(.5), percentile(.9),
           percentile(.99), percentile(.999));
    printf("\"server_cpu_us\": %.3f, \"server_busy\": %.3f, \"client_busy\": %.3f, ",
           (b.server_cpu - a.server_cpu) / n * 1e6, (b.server_cpu - a.server_cpu) / seconds,
           (b.own_cpu - a.own_cpu) / seconds);
    printf("\"reply_size_min\": %u, \"reply_size_max\": %u, \"errors\": %llu, \"first_error\": %d}\n", reply_size_min,
           reply_size_max, (unsigned long long)errors, first_error);
}

static void run(void) {
    Connection *all = connect_all();
    double start = now(), measured_from = start + options.warm_up, end = measured_from + options.seconds;
    double next_due = start;
    int timer = options.rate ? start_timer(start) : -1;
    for (int i = 0; !options.rate && i < options.connections; i++) {
        for (int k = 0; k < options.depth; k++) add_due(all + i, start);
        send_due(all + i);
    }
    int measuring = 0;
    Mark began = {0};
    for (double t; (t = now()) < end;) {
        uint64_t moved = sent_bytes + received_bytes;
        int warm = t >= measured_from || (options.bytes_max && moved >= options.bytes_max / WARM_UP_SHARE);
        if (!measuring && warm) {
            measuring = 1;
            end = t + options.seconds;
            began = mark();
            memset(latencies, 0, sizeof *latencies * (LATENCY_MAX_US + 1));
        }
        if (options.bytes_max && moved >= options.bytes_max) break;
        struct epoll_event events[64];
        int n = epoll_wait(epoll_fd, events, 64, 50);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            Connection *c = events[i].data.ptr;
            uint64_t ticks;
            if (!c) {
                if (read(timer, &ticks, sizeof ticks) == sizeof ticks) tick(all, &next_due);
                continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) receive(c);
            if (events[i].events & EPOLLOUT) send_due(c);
        }
    }
    errno = 0;
    if (!measuring) die("nothing was measured");
    report(began, mark());
}

int main(int count, char **values) {
    for (int o; (o = getopt(count, values, "p:f:c:d:t:w:r:b:P:e:")) > 0;) switch (o) {
        case 'p': options.port = atoi(optarg); break;
        case 'f': options.file = optarg; break;
        case 'c': options.connections = atoi(optarg); break;
        case 'd': options.depth = atoi(optarg); break;
        case 't': options.seconds = atof(optarg); break;
        case 'w': options.warm_up = atof(optarg); break;
        case 'r': options.rate = atof(optarg); break;
        case 'b': options.bytes_max = strtoull(optarg, NULL, 10); break;
        case 'P': options.pid = atoi(optarg); break;
        case 'e': {
            uint32_t at = atoi(optarg);
            if (options.error_offset_count == ERROR_OFFSETS_MAX || at + 2 > HEAD_SIZE) die("too many or too far -e");
            options.error_offsets[options.error_offset_count++] = at;
            break;
        }
        default: return 2;
    }
    if (!options.port || !options.file || options.connections < 1 || options.depth < 1) {
        fprintf(stderr, "usage: loadgen -p PORT -f FILE [-c -d -t -w -r -b -P -e]\n");
        return 2;
    }
    latencies = calloc(LATENCY_MAX_US + 1, sizeof *latencies);
    epoll_fd = epoll_create1(0);
    read_requests();
    run();
    return 0;
}
