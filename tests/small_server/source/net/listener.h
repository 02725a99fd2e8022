#pragma once

#include "net/fault.h"
#include "storage/database.h"

namespace small {

struct ListenOptions {
    std::filesystem::path socket;
    // 0: as many as come.
    size_t max_connections = 0;
    Fault fault = Fault::none;
};

// Blocks the signals that stop the server, in this thread and all that it starts: ``listen`` takes them.
void block_stop_signals();
// Serves each connection in a thread of its own until SIGTERM or SIGINT, then waits for all of them.
void listen(Database& database, const ListenOptions& options);

}  // namespace small
