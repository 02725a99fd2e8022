#pragma once

#include "core/arena.h"
#include "net/fault.h"
#include "storage/database.h"

namespace small {

// One connection: lines in, rows out. Each answer ends with a line ``OK number`` or ``ERR message``.
class Session {
public:
    Session(Database& database, Fault fault) : database_(database), fault_(fault) {}

    // Serves the connection until its end.
    void serve(int connection);
    // Executes one line and appends the whole answer to ``out``.
    void answer(std::string_view line, std::string& out);

private:
    int64_t run(std::string_view line, std::string& out);
    void status(std::string& out) const;

    Database& database_;
    Fault fault_;
    Arena arena_;
};

}  // namespace small
