#include "load/client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace load {

Client::Client(const std::string& socket) : connection_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket.size() >= sizeof address.sun_path) throw std::runtime_error("the socket's path is too long");
    socket.copy(address.sun_path, socket.size());
    if (::connect(connection_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        ::close(connection_);
        throw std::runtime_error("cannot connect to " + socket + ": " + std::strerror(errno));
    }
}

Client::~Client() { ::close(connection_); }

int Client::request(std::string_view lines) {
    auto wanted = static_cast<int>(std::count(lines.begin(), lines.end(), '\n'));
    if (::send(connection_, lines.data(), lines.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(lines.size())) {
        throw std::runtime_error("the server is gone");
    }
    int answered = 0, failed = 0;
    for (char chunk[64 * 1024]; answered < wanted;) {
        ssize_t size = ::recv(connection_, chunk, sizeof chunk, 0);
        if (size <= 0) throw std::runtime_error("the server is gone");
        in_.append(chunk, static_cast<size_t>(size));
        read_lines(answered, failed);
    }
    return failed;
}

void Client::read_lines(int& answered, int& failed) {
    size_t from = 0;
    for (size_t end; (end = in_.find('\n', from)) != std::string::npos; from = end + 1) {
        std::string_view line(in_.data() + from, end - from);
        if (line.substr(0, 3) == "OK ") {
            ++answered;
        } else if (line.substr(0, 4) == "ERR ") {
            ++answered;
            // An INSERT that meets its key again is part of the load, not an error.
            if (line.find("duplicate key") != std::string_view::npos) continue;
            ++failed;
            error_ = line.substr(4);
        }
    }
    in_.erase(0, from);
}

}  // namespace load
