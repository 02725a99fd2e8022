// A connection to smallserver, as a client sees it.
#pragma once

#include <string>
#include <string_view>

namespace load {

class Client {
public:
    // Raises std::runtime_error when nobody listens.
    explicit Client(const std::string& socket);
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // Sends statements, a line each, and waits for all of their answers; the number that failed.
    // Raises std::runtime_error when the server is gone.
    int request(std::string_view lines);
    // The last answer that failed.
    const std::string& error() const { return error_; }

private:
    // Takes whole lines from what has come; counts answers.
    void read_lines(int& answered, int& failed);

    int connection_;
    std::string in_, error_;
};

}  // namespace load
