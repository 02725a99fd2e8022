#include "net/listener.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <list>

#include "net/session.h"

namespace small {

namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(what + ": " + std::strerror(errno)); }

sigset_t stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

int open_socket(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.native().size() >= sizeof address.sun_path) throw Error("the socket's path is too long: " + path.native());
    path.native().copy(address.sun_path, path.native().size());
    int found = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (found < 0) fail("socket");
    ::unlink(path.c_str());
    if (::bind(found, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind " + path.native());
    if (::listen(found, 256) != 0) fail("listen");
    return found;
}

// Connections with their threads; those that have ended are joined when the next one comes.
class Connections {
public:
    Connections(Database& database, const ListenOptions& options) : database_(database), options_(options) {}

    void add(int connection) {
        reap();
        if (options_.max_connections && live_.size() >= options_.max_connections) {
            static constexpr std::string_view kRefusal = "ERR too many connections\n";
            if (::send(connection, kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL) < 0) std::cerr << "cannot refuse\n";
            ::close(connection);
            return;
        }
        Live& live = live_.emplace_back();
        live.connection = connection;
        live.thread = std::thread([this, &live] {
            Session(database_, options_.fault).serve(live.connection);
            live.ended = true;
        });
    }

    void stop() {
        for (Live& live : live_) ::shutdown(live.connection, SHUT_RDWR);
        for (Live& live : live_) close(live);
        live_.clear();
    }

private:
    struct Live {
        std::thread thread;
        int connection = -1;
        std::atomic<bool> ended{false};
    };

    static void close(Live& live) {
        live.thread.join();
        ::close(live.connection);
    }

    void reap() {
        for (auto at = live_.begin(); at != live_.end();) {
            if (!at->ended) {
                ++at;
                continue;
            }
            close(*at);
            at = live_.erase(at);
        }
    }

    Database& database_;
    const ListenOptions& options_;
    std::list<Live> live_;
};

}  // namespace

Fault fault_from_environment() {
    const char* named = std::getenv("SMALLSERVER_FAULT");
    if (!named || !*named) return Fault::none;
    if (const char* where = std::getenv("SMALLSERVER_FAULT_IN")) {
        if (std::filesystem::read_symlink("/proc/self/exe").native().find(where) == std::string::npos) return Fault::none;
    }
    static const std::map<std::string_view, Fault> kNames = {
        {"no-start", Fault::no_start}, {"hang", Fault::hang},   {"crash", Fault::crash},
        {"no-stop", Fault::no_stop},   {"wrong", Fault::wrong},
    };
    auto found = kNames.find(named);
    if (found == kNames.end()) throw Error(std::string("SMALLSERVER_FAULT is not known: ") + named);
    return found->second;
}

void block_stop_signals() {
    sigset_t stops = stop_signals();
    if (pthread_sigmask(SIG_BLOCK, &stops, nullptr) != 0) fail("pthread_sigmask");
}

void listen(Database& database, const ListenOptions& options) {
    sigset_t stops = stop_signals();
    int stopped = ::signalfd(-1, &stops, SFD_CLOEXEC);
    if (stopped < 0) fail("signalfd");
    int listening = open_socket(options.socket);
    Connections connections(database, options);
    for (;;) {
        pollfd watched[] = {{stopped, POLLIN, 0}, {listening, POLLIN, 0}};
        // A server that hangs takes no connection: clients wait for it to answer.
        nfds_t count = options.fault == Fault::hang ? 1 : 2;
        if (::poll(watched, count, -1) < 0 && errno != EINTR) fail("poll");
        if (watched[0].revents) {
            signalfd_siginfo taken;
            if (::read(stopped, &taken, sizeof taken) > 0 && options.fault != Fault::no_stop) break;
        }
        if (count == 2 && watched[1].revents) {
            int connection = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection >= 0) connections.add(connection);
        }
    }
    ::close(listening);
    ::unlink(options.socket.c_str());
    connections.stop();
    ::close(stopped);
}

}  // namespace small
