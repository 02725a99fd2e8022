#include "net/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include "admin/commands.h"
#include "core/text.h"
#include "sql/statement.h"

namespace small {

namespace {

constexpr size_t kLongestLine = 1 << 20;

// Work that definitions plant into each statement, for tests of what finds out what a flag does: two do work, and more together.
constexpr unsigned kPlantedSteps = 0
#ifdef SMALL_WORK_A
    + 6000
#endif
#ifdef SMALL_WORK_B
    + 3000
#endif
#if defined(SMALL_WORK_A) && defined(SMALL_WORK_B)
    + 6000
#endif
    ;

void do_planted_work() {
    for (unsigned step = 0; step < kPlantedSteps; ++step) asm volatile("" : : "r"(step));
}

std::string_view first_word(std::string_view line) {
    size_t from = 0;
    while (from < line.size() && line[from] == ' ') ++from;
    size_t to = from;
    while (to < line.size() && line[to] != ' ' && line[to] != ';') ++to;
    return line.substr(from, to - from);
}

bool send_all(int connection, const std::string& out) {
    for (size_t sent = 0; sent < out.size();) {
        ssize_t done = ::send(connection, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
        if (done <= 0) return false;
        sent += static_cast<size_t>(done);
    }
    return true;
}

}  // namespace

void Session::serve(int connection) {
    std::string in, out;
    std::array<char, 32 * 1024> chunk;
    for (;;) {
        ssize_t size = ::recv(connection, chunk.data(), chunk.size(), 0);
        if (size <= 0) return;
        in.append(chunk.data(), static_cast<size_t>(size));
        size_t from = 0;
        for (size_t end; (end = in.find('\n', from)) != std::string::npos; from = end + 1) {
            std::string_view line(in.data() + from, end - from);
            if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
            if (!line.empty()) answer(line, out);
        }
        in.erase(0, from);
        if (in.size() > kLongestLine) out += "ERR the line is too long\n";
        if (!send_all(connection, out) || in.size() > kLongestLine) return;
        out.clear();
    }
}

void Session::answer(std::string_view line, std::string& out) {
    size_t before = out.size();
    try {
        int64_t count = run(line, out);
        out += "OK ";
        append_integer(out, count);
    } catch (const std::exception& error) {
        ++database_.failed;
        out.resize(before);
        out += "ERR ";
        for (const char* at = error.what(); *at; ++at) out += *at == '\n' ? ' ' : *at;
    }
    out += '\n';
}

int64_t Session::run(std::string_view line, std::string& out) {
    static constexpr std::string_view kStatements[] = {"SELECT", "UPDATE", "INSERT", "DELETE", "CREATE", "DROP"};
    std::string_view word = first_word(line);
    arena_.reset();
    for (std::string_view known : kStatements) {
        if (!same_text(word, known)) continue;
        uint64_t number = ++database_.queries;
        if (fault_ == Fault::crash && number >= kCrashAtQueries) std::abort();
        do_planted_work();
        Statement statement = parse(line, database_, arena_);
        int64_t count = execute(statement, database_, arena_, out);
        return fault_ == Fault::wrong ? count + 1 : count;
    }
    if (same_text(word, "PING")) return 0;
    if (same_text(word, "STATUS")) {
        status(out);
        return 0;
    }
    ++database_.queries;
    return run_admin(line, database_, arena_, out);
}

void Session::status(std::string& out) const {
    out += "queries\t" + std::to_string(database_.queries) + "\n";
    out += "failed\t" + std::to_string(database_.failed) + "\n";
    out += "tables\t" + std::to_string(database_.tables().size()) + "\n";
    out += "rows\t" + std::to_string(database_.rows()) + "\n";
}

}  // namespace small
